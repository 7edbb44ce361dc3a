"""The config builder turns a cluster's resources into the configuration and endpoints of its subtree (A75).

    cds -> outlier_detection -> cluster_impl -> override_host -> priority -> localities by weight -> endpoints

An aggregate becomes a failover over such trees: cds -> priority -> cds for each of its clusters.
Priorities are children with names, and a child keeps its connections. So the names follow the
localities and not their rank: a locality that moves to another priority takes its name along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

from msgspec import Struct, structs

from trxds.core.resource_status import ResourceStatus
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntries, ClusterEntry
from trxds.resources.cluster import DEFAULT_IDLE_TIMEOUT, DEFAULT_OVERRIDE_STATUSES, Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import Endpoint, HealthStatus, Locality, LocalityId
from trxds.resources.lb_policy import CustomPolicy, RandomSubsetting, WrrLocality
from trxds.resources.leaf_policy import LbPolicyConfig, PickFirst, RingHash

from .configs import (
    CdsConfig,
    ClusterImplConfig,
    ClusterManagerConfig,
    GracefulSwitchConfig,
    OutlierDetectionConfig,
    OverrideHostConfig,
    PriorityConfig,
    StickyPriorityConfig,
    Target,
    WeightedTargetConfig,
)
from .endpoint_set import Endpoints

# A locality and those of its endpoints that are not DRAINING.
_Serving: TypeAlias = tuple[Locality, tuple[Endpoint, ...]]

# The policies that read EDS weights; round_robin, for one, ignores them (A113).
_WEIGHTED_POLICIES = (PickFirst, RingHash, CustomPolicy)

# Weights are fixed-point numbers with 31 bits after the point, in whole steps as A113 has them.
_FIXED_POINT_ONE = 1 << 31

_hostname = attrgetter("hostname")  # without a frame of Python for each of ten thousand endpoints


class Update(Struct, frozen=True, gc=False):
    """A policy's configuration and the endpoints for it (above the clusters, the clusters' entries)."""

    config: LbPolicyConfig
    endpoints: Endpoints | ClusterEntries


class PriorityNames:
    """The names of a cluster's priorities, with the localities that each had at the last update (docs/grfc-map.md)."""

    def __init__(self) -> None:
        self._localities: dict[int, tuple[LocalityId, ...]] = {}
        self._next_number = 0

    def assign(self, priorities: Iterable[Iterable[LocalityId]]) -> list[int]:
        """Return a number for each priority: its first known locality's, unless an earlier priority took that."""
        owners = {locality: number for number, localities in self._localities.items() for locality in localities}
        assigned: dict[int, tuple[LocalityId, ...]] = {}
        for priority in priorities:
            localities = tuple(priority)
            number = next((owners[locality] for locality in localities if locality in owners), None)
            if number is None:
                number, self._next_number = self._next_number, self._next_number + 1
            # Neither this number nor these localities may decide the number of a later priority.
            for locality in (*self._localities.get(number, ()), *localities):
                owners.pop(locality, None)
            assigned[number] = localities
        self._localities = assigned
        return list(assigned)


# -- above the clusters


def build_root(entries: Mapping[str, ClusterEntry]) -> Update:
    """Build the update of the root, `cluster_manager`, from the entries of all clusters."""
    return Update(ClusterManagerConfig(tuple(entries)), ClusterEntries(entries))


def build_aggregate(aggregate: AggregateConfig, sticky: bool = False) -> Update:
    """Build the update below an aggregate's `cds`: a priority for each cluster, with its own session affinity (A75).

    If it is `sticky`, a session stays in its cluster when a more preferred one is back.
    """
    # A75: each cluster has a `cds` of its own, so a session keeps its cluster over a failover.
    leaves = {leaf.cluster.name: ClusterEntry(leaf) for leaf in aggregate.leaves}
    kind = StickyPriorityConfig if sticky else PriorityConfig
    return Update(kind({name: CdsConfig(name) for name in leaves}), ClusterEntries(leaves))


# -- one cluster


def build_cluster(config: ClusterConfig, names: PriorityNames) -> Update:
    """Build the update below a cluster's `cds`."""
    cluster = config.cluster
    # A cluster without endpoints gets one empty priority, so that the policies above have a child that fails RPCs.
    priorities: Sequence[Sequence[Locality]] = config.priorities or ((),)
    explain = partial(_explain_no_endpoints, config)
    numbers = names.assign([locality.id for locality in localities] for localities in priorities)
    built = {
        # C-core's form of the name.
        f"{{cluster={cluster.name}, child_number={number}}}": build_priority(cluster.lb_policy, localities, explain)
        for number, localities in zip(numbers, priorities, strict=True)
    }
    override = OverrideHostConfig(
        cluster=cluster.name,
        statuses=cluster.override_statuses,
        idle_timeout=cluster.idle_timeout,
        child=PriorityConfig({name: child for name, (child, _) in built.items()}),
    )
    localities = tuple(chain.from_iterable(priorities))
    endpoints = Endpoints(
        _all_endpoints([(locality, locality.endpoints) for locality in localities]),
        parts={name: part for name, (_, part) in built.items()},
        localities=localities,
    )
    # Drops are in EDS but apply to the cluster, so they are configuration of cluster_impl.
    drops = config.endpoints.drops if config.endpoints else ()
    limits = ClusterImplConfig(
        cluster.name,
        _service_name(cluster),
        override,
        drops,
        cluster.max_concurrent_requests,
        tls=cluster.tls,
        has_hostnames=any(map(_hostname, endpoints.all)),
        http_connect=cluster.http_connect,
        lrs=cluster.lrs,
        limited_by=config.cluster_standing,
        # Only with drops: it changes with each version of the endpoints, and then the configuration does.
        dropped_by=config.endpoints_standing if drops else None,
        max_connections=cluster.max_connections,
    )
    return Update(OutlierDetectionConfig(cluster.ejection, limits), endpoints)


def _service_name(cluster: Cluster) -> str:
    """Return the service_name of the cluster's own, as load reports have it (LRS); empty if there is none."""
    return cluster.discovery.service_name if isinstance(cluster.discovery, Eds) else ""


def _eds_resource_name(cluster: Cluster) -> str:
    """Return the name of the cluster's EDS resource; empty for LOGICAL_DNS, which has none."""
    return cluster.discovery.resource_name if isinstance(cluster.discovery, Eds) else ""


def _explain_no_endpoints(config: ClusterConfig) -> str:
    if config.note:
        return config.note
    standing = config.endpoints_standing or ResourceStatus("EDS", _eds_resource_name(config.cluster))
    if not config.priorities:
        # A forgotten weight is the usual mistake: the cluster looks complete in the file and is empty.
        remedy = "add one with endpoints, or give a locality its weight"
        return f"{standing}: it has no locality with a load_balancing_weight; {remedy}"
    return f"{standing}: none of its endpoints takes new requests; they are UNHEALTHY or DRAINING, or it lists none"


# -- one priority, or a target without a control plane


def build_priority(
    form: LbPolicyConfig, localities: Sequence[Locality], explain: Callable[[], str]
) -> tuple[LbPolicyConfig, Endpoints]:
    """Return the configuration and endpoints of a priority's policy, or of a target's without a control plane.

    `explain` says why there are no endpoints, and is called if there are none: otherwise its text would only make equal
    updates differ.
    """
    # DRAINING never reaches the child, whatever override_host_status says (A55).
    serving = [(locality, endpoints) for locality in localities if (endpoints := _serving_endpoints(locality))]
    total_weight = sum([locality.weight for locality in localities])
    return _build_policy(form, serving, "" if serving else explain(), total_weight)


def build_target(form: LbPolicyConfig, locality: Locality, note: str) -> Update:
    """Return the update of the root of a custom resolver's target, whose endpoints may be DRAINING."""
    config, endpoints = build_priority(form, (locality,), lambda: note)
    if len(endpoints) < len(locality.endpoints) and _has_override_host(form):
        # As in a cluster: sessions may use DRAINING endpoints, and override_host's child never gets them (A55).
        endpoints = Endpoints(locality.endpoints, parts={OverrideHostConfig.child_name: endpoints})
    return Update(GracefulSwitchConfig(config), endpoints)


def _has_override_host(form: LbPolicyConfig) -> bool:
    return isinstance(form.child if isinstance(form, OutlierDetectionConfig) else form, OverrideHostConfig)


def add_override_host(
    form: LbPolicyConfig, target: str, statuses: frozenset[HealthStatus] = DEFAULT_OVERRIDE_STATUSES
) -> LbPolicyConfig:
    """Return the policy of a target without a control plane with override_host above it, for its sessions (A55).

    `target` stands for the cluster; `statuses` are those of hosts that sessions may use.
    """
    # As in a cluster: outlier detection is above override_host, so that the RPCs of sessions count for it. Not below a
    # subset: that has another seed after an idle timeout, and sessions would lose the hosts that are not in it.
    if isinstance(form, OutlierDetectionConfig):
        return structs.replace(form, child=add_override_host(form.child, target, statuses))
    return OverrideHostConfig(target, statuses, DEFAULT_IDLE_TIMEOUT, form)


def _serving_endpoints(locality: Locality) -> tuple[Endpoint, ...]:
    # From a list, which is faster than from a generator: there may be ten thousand.
    serving = [e for e in locality.endpoints if e.health is not HealthStatus.DRAINING]
    return locality.endpoints if len(serving) == len(locality.endpoints) else tuple(serving)


def _build_policy(
    form: LbPolicyConfig, serving: Sequence[_Serving], note: str, total_weight: int
) -> tuple[LbPolicyConfig, Endpoints]:
    match form:
        case WrrLocality(child):
            return _build_localities(child, serving, note, total_weight)
        case RandomSubsetting() | OutlierDetectionConfig() | OverrideHostConfig():
            config, endpoints = _build_policy(form.child, serving, note, total_weight)
            return structs.replace(form, child=config), endpoints
    weights = endpoint_weights(serving, total_weight) if isinstance(form, _WEIGHTED_POLICIES) else ()
    return form, Endpoints(_all_endpoints(serving), note, weights)


def endpoint_weights(serving: Sequence[_Serving], total_weight: int) -> tuple[int, ...]:
    """Return for each endpoint the share of its locality times its own share in the locality (A113).

    `total_weight` is that of all localities of the priority. DRAINING endpoints count, too: no other share changes when
    one begins to drain, and the ring is that of the C++ client.
    """
    shares = ((locality.weight * _FIXED_POINT_ONE // total_weight, locality, each) for locality, each in serving)
    return tuple(chain.from_iterable(_endpoint_shares(*share) for share in shares))


def _endpoint_shares(share: int, locality: Locality, endpoints: Sequence[Endpoint]) -> Iterable[int]:
    total = sum(endpoint.weight for endpoint in locality.endpoints)
    # Rounded down, but never to 0: a listed endpoint has to get some traffic (A113).
    return [(share * (endpoint.weight * _FIXED_POINT_ONE // total) >> 31) or 1 for endpoint in endpoints]


def _build_localities(
    child: LbPolicyConfig, serving: Sequence[_Serving], note: str, total_weight: int
) -> tuple[LbPolicyConfig, Endpoints]:
    built = {str(at.id): (at, *_build_policy(child, [(at, each)], note, total_weight)) for at, each in serving}
    targets = {name: Target(at.weight, config) for name, (at, config, _) in built.items()}
    parts = {name: endpoints for name, (_, _, endpoints) in built.items()}
    return WeightedTargetConfig(targets), Endpoints(_all_endpoints(serving), note, parts=parts)


def _all_endpoints(serving: Sequence[_Serving]) -> tuple[Endpoint, ...]:
    # With one locality its own tuple, so that an unchanged list is the same object.
    return serving[0][1] if len(serving) == 1 else tuple(chain.from_iterable([endpoints for _, endpoints in serving]))
