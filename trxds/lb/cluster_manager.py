"""cluster_manager is the root of the tree: it has a child for each cluster, and an RPC's cluster chooses (A31)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.core.status import Status, StatusCode

from .configs import CdsConfig, ClusterManagerConfig
from .pick import Drop, Explainable, PickArgs, Picker, PickResult
from .policy import CONNECTING, EMPTY_SET, ChannelControl, Decision, PolicyInputs
from .state import StickyFailures, aggregate


class ClusterManager:
    """The cluster_manager policy; it reads only the clusters' names, and each entry goes to its `cds` (A74)."""

    reads_endpoints = False

    def __init__(self, channel_control: ChannelControl) -> None:
        self._failures = StickyFailures()
        self._config: ClusterManagerConfig | None = None
        self._clusters: dict[str, CdsConfig] = {}

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        config: ClusterManagerConfig = inputs.config
        if config is not self._config:
            self._config = config
            # Those that stay are the same objects, so that their nodes find them unchanged by identity.
            self._clusters = {name: self._clusters.get(name) or CdsConfig(name) for name in config.clusters}
        states = self._failures.states(self._clusters, inputs.children)
        pickers = {name: inputs.children.get(name, CONNECTING).picker for name in self._clusters}
        return Decision(
            aggregate(states.values()),
            ClusterManagerPicker(pickers, states),
            children=self._clusters,
            # A28: a cluster that returns within a quarter of an hour still has its connections.
            deactivate=frozenset(inputs.children.keys() - self._clusters.keys()) or EMPTY_SET,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return plural(len(inputs.config.clusters), "cluster")


class ClusterManagerPicker(Explainable, Struct, frozen=True):
    """A picker that finds the picker of the RPC's cluster."""

    pickers: Mapping[str, Picker]
    states: Mapping[str, Connectivity]  # for explanations

    def pick(self, call: PickArgs) -> PickResult:
        try:
            picker = self.pickers[call.cluster]
        except KeyError:
            if call.trace is not None:
                call.trace.note(f"cluster {call.cluster} is not among them")
            # Dropped, not failed: the RPC's cluster will never come to this picker (A31).
            return Drop(Status(StatusCode.INTERNAL, f"cluster manager: unknown cluster {call.cluster!r}"))
        if call.trace is not None:
            call.trace.note(f"it is the RPC's; it is {self.states[call.cluster].name}", call.cluster)
            return call.trace.pick(picker, call)
        return picker.pick(call)
