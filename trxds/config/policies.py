"""The configuration of each policy in the tree: frozen values, compared to skip what did not change.

Parents hold their children's configuration, so one value is a whole subtree. `policy` is the
name under which `lb/registry.py` knows the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from trxds.ground.standing import Standing
from trxds.resources.cluster import DEFAULT_MAX_REQUESTS
from trxds.resources.endpoint import Drop, Endpoint, HealthStatus, Locality
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.load_reporting import LoadReporting
from trxds.resources.outlier import EjectionRules
from trxds.resources.upstream_tls import UpstreamTls

from .snapshot import ClusterOutcome


@dataclass(frozen=True, slots=True)
class RoundRobinConfig:
    policy: ClassVar[str] = "round_robin"
    endpoints: tuple[Endpoint, ...]
    note: str = ""  # why there may be no endpoints, for the message of failed RPCs


@dataclass(frozen=True, slots=True)
class PickFirstConfig:
    """`weights` are the endpoints' shares; they count when `shuffle` puts the heavier ones first more often."""

    policy: ClassVar[str] = "pick_first"
    endpoints: tuple[Endpoint, ...]
    weights: tuple[int, ...]
    shuffle: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class RingHashConfig:
    """`weights` are the endpoints' shares of the ring, which has between `min_size` and `max_size` entries.

    `header` is the one that is hashed, where no route says what is (A76).
    """

    policy: ClassVar[str] = "ring_hash_experimental"
    endpoints: tuple[Endpoint, ...]
    weights: tuple[int, ...]
    min_size: int
    max_size: int
    note: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class LeastRequestConfig:
    policy: ClassVar[str] = "least_request_experimental"
    endpoints: tuple[Endpoint, ...]
    choice_count: int  # so many hosts are compared for each RPC
    note: str = ""


@dataclass(frozen=True, slots=True)
class WeightedRoundRobinConfig:
    policy: ClassVar[str] = "weighted_round_robin"
    endpoints: tuple[Endpoint, ...]
    rules: ClientSideWeightedRoundRobin
    note: str = ""


@dataclass(frozen=True, slots=True)
class CustomConfig:
    """Of a user's policy: its name, what its parser made of the resource, and where it stands.

    `weights` are the endpoints' shares.
    """

    policy: str
    settings: Any
    endpoints: tuple[Endpoint, ...]
    weights: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    weight: int
    config: LbConfig


@dataclass(frozen=True, slots=True)
class WeightedTargetConfig:
    policy: ClassVar[str] = "weighted_target_experimental"
    targets: Mapping[str, Target]
    note: str = ""


@dataclass(frozen=True, slots=True)
class RandomSubsettingConfig:
    """`child` has all endpoints; so many of them are left to it."""

    policy: ClassVar[str] = "random_subsetting_experimental"
    subset_size: int
    child: LbConfig


@dataclass(frozen=True, slots=True)
class PriorityConfig:
    """`children` by name, the names most preferred first."""

    policy: ClassVar[str] = "priority_experimental"
    children: Mapping[str, LbConfig]

    def __eq__(self, other: object) -> bool:
        # Two priorities that changed places are a change, and dicts compare without their order.
        return isinstance(other, PriorityConfig) and list(self.children.items()) == list(other.children.items())

    def __hash__(self) -> int:
        return hash(tuple(self.children))


@dataclass(frozen=True, slots=True)
class OverrideHostConfig:
    """`endpoints` are all of the cluster's, DRAINING ones too; `child` has none of those (A55)."""

    policy: ClassVar[str] = "xds_override_host_experimental"
    cluster: str
    endpoints: tuple[Endpoint, ...]
    statuses: frozenset[HealthStatus]
    idle_timeout: float  # seconds
    child: LbConfig


@dataclass(frozen=True, slots=True)
class Reporting:
    """How to report a cluster's load: RPCs are counted by the locality of their host."""

    rules: LoadReporting
    localities: tuple[Locality, ...]


@dataclass(frozen=True, slots=True)
class ClusterImplConfig:
    """`limited_by` is how the resource stands that sets `max_requests`, `dropped_by` the one that has `drops`."""

    policy: ClassVar[str] = "xds_cluster_impl_experimental"
    cluster: str
    service: str  # the EDS service name; with the cluster's it names the count of RPCs in flight
    child: LbConfig
    drops: tuple[Drop, ...] = ()
    max_requests: int = DEFAULT_MAX_REQUESTS
    tls: UpstreamTls | None = None
    hostnames: Mapping[str, str] = field(default_factory=dict)  # by address, where `tls` asks for them
    reporting: Reporting | None = None
    limited_by: Standing | None = None
    dropped_by: Standing | None = None


@dataclass(frozen=True, slots=True)
class OutlierDetectionConfig:
    """`endpoints` are all of the cluster's. Without `rules` the policy only passes on what its child says (A50)."""

    policy: ClassVar[str] = "outlier_detection_experimental"
    endpoints: tuple[Endpoint, ...]
    rules: EjectionRules | None
    child: LbConfig


@dataclass(frozen=True, slots=True)
class CdsConfig:
    """One cluster. `given_up`: no route names it and it cannot serve, so RPCs that it would fail are dropped (A31)."""

    policy: ClassVar[str] = "cds_experimental"
    cluster: ClusterOutcome
    given_up: bool = False

    def says(self, cluster: ClusterOutcome, given_up: bool) -> bool:
        return self.cluster is cluster and self.given_up is given_up


@dataclass(frozen=True, slots=True)
class ClusterManagerConfig:
    policy: ClassVar[str] = "xds_cluster_manager_experimental"
    children: Mapping[str, CdsConfig]


LbConfig: TypeAlias = (
    RoundRobinConfig
    | PickFirstConfig
    | RingHashConfig
    | LeastRequestConfig
    | WeightedRoundRobinConfig
    | WeightedTargetConfig
    | RandomSubsettingConfig
    | CustomConfig
    | PriorityConfig
    | OverrideHostConfig
    | ClusterImplConfig
    | OutlierDetectionConfig
    | CdsConfig
    | ClusterManagerConfig
)
