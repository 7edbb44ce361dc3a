"""One cluster becomes the configuration of its subtree (A75).

    cds -> outlier_detection -> cluster_impl -> override_host -> priority -> localities by weight -> endpoints

An aggregate becomes a failover over such trees: cds -> priority -> cds for each of its clusters.
Priorities are children with names, and a child keeps its connections. So the names follow the
localities and not their rank: a locality that moves to another priority takes its name along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, count

from trxds.ground.standing import Standing
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds, LogicalDns
from trxds.resources.endpoint import Endpoint, Locality, LocalityId

from .balance import balance
from .policies import (
    CdsConfig,
    ClusterImplConfig,
    OutlierDetectionConfig,
    OverrideHostConfig,
    PriorityConfig,
    Reporting,
)
from .snapshot import AggregateConfig, ClusterConfig


class PriorityNames:
    """Remembers which localities each child had at the last update (SPEC 6.4)."""

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


def subtree(config: ClusterConfig, names: PriorityNames) -> OutlierDetectionConfig:
    """The configuration of everything below the cluster's `cds` node."""
    cluster = config.cluster
    # A cluster without endpoints has one empty priority, so that what stands above it exists.
    priorities: Sequence[Sequence[Locality]] = (config.endpoints and config.endpoints.priorities) or ((),)
    note = _note(config)
    numbers = names.assign([locality.id for locality in localities] for localities in priorities)
    children = {
        f"{{cluster={cluster.name}, child_number={number}}}": balance(cluster.lb_policy, localities, note)
        for number, localities in zip(numbers, priorities, strict=True)
    }
    override = OverrideHostConfig(
        cluster=cluster.name,
        endpoints=tuple(chain.from_iterable(place.endpoints for localities in priorities for place in localities)),
        statuses=cluster.override_statuses,
        idle_timeout=cluster.idle_timeout,
        child=PriorityConfig(children),
    )
    limits = ClusterImplConfig(
        cluster.name,
        _service(cluster),
        override,
        config.endpoints.drops if config.endpoints else (),
        cluster.max_concurrent_requests,
        tls=cluster.tls,
        hostnames=_hostnames(cluster, override.endpoints) if cluster.tls is not None and cluster.tls.auto_sni else {},
        reporting=Reporting(cluster.lrs, tuple(chain.from_iterable(priorities))) if cluster.lrs else None,
        limited_by=config.cluster_standing,
        dropped_by=config.endpoints_standing,
    )
    return OutlierDetectionConfig(override.endpoints, cluster.ejection, limits)


def _hostnames(cluster: Cluster, endpoints: Iterable[Endpoint]) -> dict[str, str]:
    """By address, for `auto_sni`. A DNS name is the one of all its addresses (A81)."""
    of_all = cluster.discovery.host if isinstance(cluster.discovery, LogicalDns) else ""
    return {address: of_all or endpoint.hostname for endpoint in endpoints for address in endpoint.addresses}


def failover(aggregate: AggregateConfig) -> PriorityConfig:
    """An aggregate's: a cds for each of its clusters, with all that this brings, affinity too (A75)."""
    return PriorityConfig({leaf.cluster.name: CdsConfig(leaf) for leaf in aggregate.leaves})


def _service(cluster: Cluster) -> str:
    """The name of its endpoints' resource; those of a LOGICAL_DNS cluster are no resource."""
    return cluster.discovery.service_name if isinstance(cluster.discovery, Eds) else ""


def _note(config: ClusterConfig) -> str:
    if config.note:
        return config.note
    standing = config.endpoints_standing or Standing("EDS", _service(config.cluster))
    if config.endpoints is None or not config.endpoints.priorities:
        # Forgotten weights are how a cluster that looks well in the file comes to be empty.
        return f"{standing}: it has no localities, of which one without load_balancing_weight is none; add endpoints"
    return f"{standing}: none of its endpoints takes new requests; they are UNHEALTHY or DRAINING, or it lists none"
