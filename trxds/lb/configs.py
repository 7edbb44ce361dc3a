"""The configuration of the policies that stand above the endpoints: frozen values, compared to skip what is as it was.

Parents hold their children's configuration, so one value is a whole subtree. `policy` is the name under which
`lb/registry.py` knows the policy. What is not here is configured by its resource's own form (`resources/leaf_policy.py`
and `resources/lb_policy.py`), and endpoints are beside all of them (`lb/endpoint_set.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from trxds.core.resource_status import ResourceStatus
from trxds.resources.cluster import DEFAULT_MAX_REQUESTS, LoadReporting
from trxds.resources.endpoint import DropOverload, HealthStatus
from trxds.resources.leaf_policy import LbPolicyConfig
from trxds.resources.outlier_detection import OutlierDetectionSettings
from trxds.resources.upstream_tls import UpstreamTls


@dataclass(frozen=True, slots=True)
class Target:
    weight: int
    config: LbPolicyConfig


@dataclass(frozen=True, slots=True)
class WeightedTargetConfig(LbPolicyConfig):
    policy: ClassVar[str] = "weighted_target_experimental"
    targets: Mapping[str, Target]


@dataclass(frozen=True, slots=True)
class PriorityConfig(LbPolicyConfig):
    """`children` by name, the names most preferred first."""

    policy: ClassVar[str] = "priority_experimental"
    children: Mapping[str, LbPolicyConfig]

    def __eq__(self, other: object) -> bool:
        # Two priorities that changed places are a change, and dicts compare without their order.
        return isinstance(other, PriorityConfig) and list(self.children.items()) == list(other.children.items())

    def __hash__(self) -> int:
        return hash(tuple(self.children))


@dataclass(frozen=True, slots=True)
class OverrideHostConfig(LbPolicyConfig):
    """Its endpoints are all of the cluster's, DRAINING ones too; `child` has none of those (A55)."""

    policy: ClassVar[str] = "xds_override_host_experimental"
    cluster: str
    statuses: frozenset[HealthStatus]
    idle_timeout: float  # seconds
    child: LbPolicyConfig


@dataclass(frozen=True, slots=True)
class ClusterImplConfig(LbPolicyConfig):
    """`limited_by` is how the resource stands that sets `max_requests`, `dropped_by` the one that has `drops`.

    `hostname` is that of all hosts, where a DNS name is all there is (A81). With `lrs`, load is reported.
    """

    policy: ClassVar[str] = "xds_cluster_impl_experimental"
    cluster: str
    service: str  # the EDS service name; with the cluster's it names the count of RPCs in flight
    child: LbPolicyConfig
    drops: tuple[DropOverload, ...] = ()
    max_requests: int = DEFAULT_MAX_REQUESTS
    tls: UpstreamTls | None = None
    hostname: str = ""
    lrs: LoadReporting | None = None
    limited_by: ResourceStatus | None = None
    dropped_by: ResourceStatus | None = None


@dataclass(frozen=True, slots=True)
class OutlierDetectionConfig(LbPolicyConfig):
    """Without `rules` the policy only passes on what its child says (A50). A service config asks for it as well."""

    policy: ClassVar[str] = "outlier_detection_experimental"
    rules: OutlierDetectionSettings | None
    child: LbPolicyConfig


@dataclass(frozen=True, slots=True)
class CdsConfig(LbPolicyConfig):
    """One cluster, by name; what its resources say is beside it (`config/snapshot.py`, ClusterEntry)."""

    policy: ClassVar[str] = "cds_experimental"
    cluster: str


@dataclass(frozen=True, slots=True)
class ClusterManagerConfig(LbPolicyConfig):
    """The clusters that there are, by name."""

    policy: ClassVar[str] = "xds_cluster_manager_experimental"
    clusters: tuple[str, ...]
