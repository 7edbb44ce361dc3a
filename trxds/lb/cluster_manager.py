"""The root of the tree: one child per cluster; an RPC's cluster attribute chooses (A31)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trxds.ground.status import Status, StatusCode

from .pick import Drop, PickArgs, Picker, PickResult
from .policy import CONNECTING, Decision, Inputs, Surroundings
from .state import StickyFailures, aggregate


class ClusterManager:
    def __init__(self, surroundings: Surroundings) -> None:
        self._failures = StickyFailures()

    def decide(self, inputs: Inputs, now: float) -> Decision:
        children = inputs.config.children
        states = self._failures.states(children, inputs.children)
        pickers = {name: inputs.children.get(name, CONNECTING).picker for name in children}
        return Decision(
            aggregate(states.values()),
            ByCluster(pickers),
            children=children,
            # A cluster that returns within a quarter of an hour finds its connections warm (A28).
            keep=frozenset(inputs.children.keys() - children.keys()),
        )


@dataclass(frozen=True, slots=True)
class ByCluster:
    pickers: Mapping[str, Picker]

    def pick(self, call: PickArgs) -> PickResult:
        picker = self.pickers.get(call.cluster)
        if picker is None:
            # Dropped, not failed: the RPC's cluster will never come to this picker (A31).
            return Drop(Status(StatusCode.INTERNAL, f"cluster manager: unknown cluster {call.cluster!r}"))
        return picker.pick(call)
