"""The root of the tree: one child per cluster; an RPC's cluster attribute chooses (A31)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trxds.ground.status import Status, StatusCode

from .explain import Said, to_drop
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

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        known = inputs.config.children
        saw = f"{len(known)} clusters"
        if call.cluster not in known:
            return to_drop(saw, unknown(call.cluster), "it is not among them")
        state = inputs.children.get(call.cluster, CONNECTING).state
        return Said(saw, call.cluster, f"it is the RPC's; it is {state.name}", call.cluster)


@dataclass(frozen=True, slots=True)
class ByCluster:
    pickers: Mapping[str, Picker]

    def pick(self, call: PickArgs) -> PickResult:
        picker = self.pickers.get(call.cluster)
        if picker is None:
            # Dropped, not failed: the RPC's cluster will never come to this picker (A31).
            return Drop(unknown(call.cluster))
        return picker.pick(call)


def unknown(cluster: str) -> Status:
    return Status(StatusCode.INTERNAL, f"cluster manager: unknown cluster {cluster!r}")
