"""One consistent configuration of a channel (A74): a value, complete or not there at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeAlias

from msgspec import Struct

from trxds.core.resource_status import ResourceStatus
from trxds.core.status import Status
from trxds.resources.cluster import Cluster
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, HealthStatus, Locality
from trxds.resources.listener import Listener
from trxds.resources.route import VirtualHost


class ClusterConfig(Struct, frozen=True, gc=False):
    """A cluster with its endpoints. If EDS or DNS failed, `endpoints` is None and `note` has the reason.

    The statuses of the two resources are for messages about their content.
    """

    cluster: Cluster
    endpoints: ClusterLoadAssignment | None
    note: str = ""
    cluster_standing: ResourceStatus | None = None
    endpoints_standing: ResourceStatus | None = None

    @property
    def leaves(self) -> tuple[ClusterConfig, ...]:
        """Return the cluster alone; an aggregate has several."""
        return (self,)

    @property
    def priorities(self) -> tuple[tuple[Locality, ...], ...]:
        """Return the localities of each priority; none if EDS or DNS failed."""
        return self.endpoints.priorities if self.endpoints is not None else ()


class ClusterError(Struct, frozen=True, gc=False):
    """A cluster without a usable resource: absent, rejected, in error, or an aggregate without leaves."""

    name: str
    status: Status
    leaves: ClassVar[tuple[ClusterConfig, ...]] = ()


class AggregateConfig(Struct, frozen=True, gc=False):
    """A flattened aggregate: clusters with endpoints, the most preferred first; there is at least one.

    `skipped_clusters` are those in error, and `note` has the reasons (A74).
    """

    name: str
    leaves: tuple[ClusterConfig, ...]
    note: str = ""
    skipped_clusters: tuple[str, ...] = ()


ClusterResult: TypeAlias = ClusterConfig | AggregateConfig | ClusterError


def can_serve(cluster: ClusterResult) -> bool:
    """Return whether any endpoint takes new requests, reachable or not.

    DRAINING endpoints do not count: only sessions may use them (A55).
    """
    # Unhealthy endpoints are left out where EDS is read, so the others take requests.
    return any(endpoint.health is not HealthStatus.DRAINING for endpoint in endpoints_of(cluster))


def endpoints_of(cluster: ClusterResult) -> Iterator[Endpoint]:
    """Yield every endpoint, also those that are DRAINING."""
    for leaf in cluster.leaves:
        for localities in leaf.priorities:
            for locality in localities:
                yield from locality.endpoints


class XdsConfig(Struct, frozen=True):
    """The listener, the virtual host of the target, and every cluster that is routed to, held, or part of such a one.

    `routes_standing` is the status of the resource that has the virtual host.
    """

    listener: Listener
    virtual_host: VirtualHost
    clusters: Mapping[str, ClusterResult]
    routes_standing: ResourceStatus


class ConfigError(Struct, frozen=True):
    """A configuration without routes: LDS or RDS is in error. Clusters that are still held stay in it."""

    status: Status
    clusters: Mapping[str, ClusterResult]


class ClusterEntry(Struct, frozen=True, gc=False):
    """The input of one cluster's policies: everything that its resources say.

    `deleted` means that no route names it and it cannot serve, so RPCs that it would fail are dropped (A31).
    """

    cluster: ClusterResult
    deleted: bool = False


class ClusterEntries(Struct, frozen=True):
    """The entries of several clusters by name; only a cluster's own policy reads its entry (A74)."""

    by_name: Mapping[str, ClusterEntry]

    def leaves(self, name: str) -> tuple[ClusterConfig, ...]:
        """Return the clusters behind that name, the most preferred one first; none if it is unknown or in error."""
        entry = self.by_name.get(name)
        return entry.cluster.leaves if entry is not None else ()

    def part(self, name: str) -> ClusterEntry:
        """Return the entry of that cluster."""
        return self.by_name[name]
