"""One cluster becomes the configuration of its subtree (A75), and the endpoints beside it.

    cds -> outlier_detection -> cluster_impl -> override_host -> priority -> localities by weight -> endpoints

An aggregate becomes a failover over such trees: cds -> priority -> cds for each of its clusters.
Priorities are children with names, and a child keeps its connections. So the names follow the
localities and not their rank: a locality that moves to another priority takes its name along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TypeAlias

from trxds.core.resource_status import ResourceStatus
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntries, ClusterEntry
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds, LogicalDns
from trxds.resources.endpoint import Endpoint, HealthStatus, Locality, LocalityId
from trxds.resources.lb_policy import CustomPolicy, RandomSubsetting, WrrLocality
from trxds.resources.leaf_policy import LbPolicyConfig, PickFirst, RingHash

from .configs import (
    CdsConfig,
    ClusterImplConfig,
    ClusterManagerConfig,
    OutlierDetectionConfig,
    OverrideHostConfig,
    PriorityConfig,
    Target,
    WeightedTargetConfig,
)
from .endpoint_set import Endpoints
from .weights import endpoint_weights

_Serving: TypeAlias = tuple[Locality, tuple[Endpoint, ...]]  # those of its endpoints that take new requests
_WEIGHED = (PickFirst, RingHash, CustomPolicy)  # who goes by the weights that the control plane gives


@dataclass(frozen=True, slots=True)
class Update:
    """What a node of the tree is given: the configuration of its policy, and what is beside that."""

    config: LbPolicyConfig
    endpoints: Endpoints | ClusterEntries


class PriorityNames:
    """Remembers which localities each child had at the last update (docs/grfc-map.md, Balancing)."""

    def __init__(self) -> None:
        self._localities: dict[int, frozenset[LocalityId]] = {}
        self._fresh = count()

    def assign(self, priorities: Iterable[Iterable[LocalityId]]) -> list[int]:
        """A number for each priority, the one that any of its localities had before if it can be."""
        owners = {place: number for number, places in self._localities.items() for place in places}
        assigned: dict[int, frozenset[LocalityId]] = {}
        for priority in priorities:
            places = tuple(priority)
            number = next((owners[place] for place in places if place in owners), None)
            if number is None:
                number = next(self._fresh)
            # Taken: neither this number nor these localities count for a later priority.
            gone = self._localities.get(number, frozenset()).union(places)
            owners = {place: its for place, its in owners.items() if place not in gone}
            assigned[number] = frozenset(places)
        self._localities = assigned
        return list(assigned)


# -- above the clusters


def clusters(entries: Mapping[str, ClusterEntry]) -> Update:
    """What the root is given, where a control plane says what there is."""
    return Update(ClusterManagerConfig(tuple(entries)), ClusterEntries(entries))


def failover(aggregate: AggregateConfig) -> Update:
    """An aggregate's: a cds for each of its clusters, with all that this brings, affinity too (A75)."""
    leaves = {leaf.cluster.name: ClusterEntry(leaf) for leaf in aggregate.leaves}
    return Update(PriorityConfig({name: CdsConfig(name) for name in leaves}), ClusterEntries(leaves))


# -- one cluster


def subtree(config: ClusterConfig, names: PriorityNames) -> Update:
    """What everything below the cluster's `cds` node is given."""
    cluster = config.cluster
    # A cluster without endpoints has one empty priority, so that what stands above it exists.
    priorities: Sequence[Sequence[Locality]] = (config.endpoints and config.endpoints.priorities) or ((),)
    note = _note(config)
    numbers = names.assign([locality.id for locality in localities] for localities in priorities)
    built = {
        f"{{cluster={cluster.name}, child_number={number}}}": balanced(cluster.lb_policy, localities, note)
        for number, localities in zip(numbers, priorities, strict=True)
    }
    override = OverrideHostConfig(
        cluster=cluster.name,
        statuses=cluster.override_statuses,
        idle_timeout=cluster.idle_timeout,
        child=PriorityConfig({name: its for name, (its, _) in built.items()}),
    )
    drops = config.endpoints.drops if config.endpoints else ()
    limits = ClusterImplConfig(
        cluster.name,
        _service(cluster),
        override,
        drops,
        cluster.max_concurrent_requests,
        tls=cluster.tls,
        hostname=cluster.discovery.host if isinstance(cluster.discovery, LogicalDns) else "",
        lrs=cluster.lrs,
        limited_by=config.cluster_standing,
        # Only with drops: it changes with each version of the endpoints, and then the configuration does.
        dropped_by=config.endpoints_standing if drops else None,
    )
    localities = tuple(chain.from_iterable(priorities))
    endpoints = Endpoints(
        tuple(chain.from_iterable([place.endpoints for place in localities])),
        parts={name: its for name, (_, its) in built.items()},
        localities=localities,
    )
    return Update(OutlierDetectionConfig(cluster.ejection, limits), endpoints)


def _service(cluster: Cluster) -> str:
    """The name of its endpoints' resource; those of a LOGICAL_DNS cluster are no resource."""
    return cluster.discovery.service_name if isinstance(cluster.discovery, Eds) else ""


def _note(config: ClusterConfig) -> str:
    if config.note:
        return config.note
    standing = config.endpoints_standing or ResourceStatus("EDS", _service(config.cluster))
    if config.endpoints is None or not config.endpoints.priorities:
        # Forgotten weights are how a cluster that looks well in the file comes to be empty.
        return f"{standing}: it has no localities, of which one without load_balancing_weight is none; add endpoints"
    return f"{standing}: none of its endpoints takes new requests; they are UNHEALTHY or DRAINING, or it lists none"


# -- one priority, or a target without a control plane


def balanced(form: LbPolicyConfig, localities: Sequence[Locality], note: str) -> tuple[LbPolicyConfig, Endpoints]:
    """What a policy in its checked form comes to over these localities: its configuration and its endpoints.

    `note` says why there are no endpoints, should there be none: with some it would only make updates differ.
    """
    # DRAINING never reaches the child, whatever override_host_status says (A55).
    serving = [(place, endpoints) for place in localities if (endpoints := _serving(place))]
    return _balanced(form, serving, "" if serving else note)


def _serving(locality: Locality) -> tuple[Endpoint, ...]:
    return tuple([e for e in locality.endpoints if e.health is not HealthStatus.DRAINING])  # faster from a list


def _balanced(form: LbPolicyConfig, serving: Sequence[_Serving], note: str) -> tuple[LbPolicyConfig, Endpoints]:
    match form:
        case WrrLocality(child):
            return _by_locality(child, serving, note)
        case RandomSubsetting() | OutlierDetectionConfig():
            config, endpoints = _balanced(form.child, serving, note)
            return replace(form, child=config), endpoints
    weights = endpoint_weights(serving) if isinstance(form, _WEIGHED) else ()
    return form, Endpoints(_all(serving), note, weights)


def _by_locality(child: LbPolicyConfig, serving: Sequence[_Serving], note: str) -> tuple[LbPolicyConfig, Endpoints]:
    built = {str(at.id): (at.weight, *_balanced(child, [(at, its)], note)) for at, its in serving}
    targets = {name: Target(weight, config) for name, (weight, config, _) in built.items()}
    parts = {name: endpoints for name, (_, _, endpoints) in built.items()}
    return WeightedTargetConfig(targets), Endpoints(_all(serving), note, parts=parts)


def _all(serving: Sequence[_Serving]) -> tuple[Endpoint, ...]:
    return serving[0][1] if len(serving) == 1 else tuple(chain.from_iterable([its for _, its in serving]))
