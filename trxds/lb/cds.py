"""One cluster of the control plane becomes a subtree (A75), or a failure that says why not."""

from __future__ import annotations

from trxds.config.plan import PriorityNames, subtree
from trxds.config.policies import OutlierDetectionConfig
from trxds.config.snapshot import ClusterConfig, ClusterError
from trxds.ground.connectivity import Connectivity

from .pick import Always, Drop, Fail
from .policy import CONNECTING, Decision, Inputs, Surroundings

_CHILD = "cluster"


class Cds:
    """Remembers the priorities' names, so that children survive localities that move (SPEC 6.4)."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._names = PriorityNames()
        self._planned: tuple[ClusterConfig, OutlierDetectionConfig] | None = None

    def decide(self, inputs: Inputs, now: float) -> Decision:
        cluster = inputs.config.cluster
        if isinstance(cluster, ClusterError):
            self._names, self._planned = PriorityNames(), None
            # Nothing will bring an absent cluster back to RPCs whose route is gone, so even those
            # that wait for ready are dropped: one of them would keep the cluster forever (A31).
            dropped = cluster.absent and not inputs.config.routed
            picker = Always(Drop(cluster.status) if dropped else Fail(cluster.status))
            return Decision(Connectivity.TRANSIENT_FAILURE, picker)
        report = inputs.children.get(_CHILD, CONNECTING)
        return Decision(report.state, report.picker, children={_CHILD: self._subtree(cluster)})

    def _subtree(self, cluster: ClusterConfig) -> OutlierDetectionConfig:
        # Planned once per configuration, not once per report of the child.
        if self._planned is None or self._planned[0] is not cluster:
            self._planned = cluster, subtree(cluster, self._names)
        return self._planned[1]
