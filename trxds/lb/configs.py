"""The configurations of the policies above the endpoints are frozen values, compared to skip unchanged subtrees (A75).

Parents hold their children's configuration, so one value is a whole subtree. `policy` is the name under which
`lb/built_in_policies.py` has the policy. All other policies are configured by the values that resources are parsed to
(`resources/leaf_policy.py` and `resources/lb_policy.py`). Endpoints travel apart (`lb/endpoint_set.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from trxds.core.resource_status import ResourceStatus
from trxds.resources.cluster import DEFAULT_MAX_REQUESTS, LoadReporting
from trxds.resources.endpoint import DropOverload, HealthStatus
from trxds.resources.leaf_policy import LbPolicyConfig
from trxds.resources.outlier_detection import OutlierDetectionSettings
from trxds.resources.upstream_tls import UpstreamTls


@dataclass(frozen=True, slots=True)
class Target:
    """A child of `weighted_target` and its share of the RPCs; the shares of all targets are relative to their sum."""

    weight: int
    config: LbPolicyConfig


@dataclass(frozen=True, slots=True)
class WeightedTargetConfig(LbPolicyConfig):
    """The configuration of `weighted_target` (A28): its targets by name."""

    policy: ClassVar[str] = "weighted_target_experimental"
    targets: Mapping[str, Target]


class PriorityConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of `priority` (A56): `children` by name, the most preferred one first."""

    policy: ClassVar[str] = "priority_experimental"
    children: Mapping[str, LbPolicyConfig]

    def __eq__(self, other: object) -> bool:
        # Two priorities that change places are a change, and dicts are compared without their order.
        return isinstance(other, PriorityConfig) and list(self.children.items()) == list(other.children.items())

    def __hash__(self) -> int:
        return hash(tuple(self.children))


class StickyPriorityConfig(PriorityConfig, frozen=True):
    """The configuration of `sticky_priority`: the leaves of an aggregate, the most preferred one first."""

    policy: ClassVar[str] = "sticky_priority"


class OverrideHostConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of `override_host`.

    Its endpoints are all of the cluster's; its child, of that name, has no DRAINING ones (A55).
    """

    policy: ClassVar[str] = "xds_override_host_experimental"
    child_name: ClassVar[str] = "everybody"
    cluster: str
    statuses: frozenset[HealthStatus]
    idle_timeout: float  # seconds
    child: LbPolicyConfig


class ClusterImplConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of `cluster_impl` (A32, A37).

    `limited_by` is the status of the resource that sets `max_requests`, `dropped_by` of the one that has `drops`.
    `has_hostnames`: endpoints have host names (A81). `http_connect`: they may have proxies (A86). With `lrs`, load is
    reported. `max_connections` is how many connections each host may have (A105), None if the resource does not say.
    """

    policy: ClassVar[str] = "xds_cluster_impl_experimental"
    cluster: str
    service: str  # its service_name, if it has one; with the cluster's name it names the count of RPCs in flight
    child: LbPolicyConfig
    drops: tuple[DropOverload, ...] = ()
    max_requests: int = DEFAULT_MAX_REQUESTS
    tls: UpstreamTls | None = None
    has_hostnames: bool = False
    http_connect: bool = False
    lrs: LoadReporting | None = None
    limited_by: ResourceStatus | None = None
    dropped_by: ResourceStatus | None = None
    max_connections: int | None = None


class OutlierDetectionConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of outlier detection, also from a service config. Without `rules` nothing is ejected (A50)."""

    policy: ClassVar[str] = "outlier_detection_experimental"
    rules: OutlierDetectionSettings | None
    child: LbPolicyConfig


class GracefulSwitchConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of `graceful_switch`: that of its one child, whose policy may change."""

    policy: ClassVar[str] = "graceful_switch"
    child: LbPolicyConfig


class CdsConfig(LbPolicyConfig, Struct, frozen=True, gc=False):
    """The configuration of `cds`: the cluster's name. Its resources travel apart (`resolver/snapshot.py`)."""

    policy: ClassVar[str] = "cds_experimental"
    cluster: str


class ClusterManagerConfig(LbPolicyConfig, Struct, frozen=True):
    """The configuration of `cluster_manager` (A31): the names of the clusters."""

    policy: ClassVar[str] = "xds_cluster_manager_experimental"
    clusters: tuple[str, ...]
