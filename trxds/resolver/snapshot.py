"""One consistent picture of everything a channel needs (A74): a value, complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from trxds.core.resource_status import ResourceStatus
from trxds.core.status import Status
from trxds.resources.cluster import Cluster
from trxds.resources.endpoint import ClusterLoadAssignment, HealthStatus, Locality
from trxds.resources.listener import Listener
from trxds.resources.route import VirtualHost


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster with its endpoints; `endpoints` None and `note` say that EDS or DNS failed, and why.

    How the resources stand is for messages about what they say.
    """

    cluster: Cluster
    endpoints: ClusterLoadAssignment | None
    note: str = ""
    cluster_standing: ResourceStatus | None = None
    endpoints_standing: ResourceStatus | None = None


@dataclass(frozen=True, slots=True)
class ClusterError:
    """A cluster without a usable resource: absent, refused, in error, or an aggregate without leaves."""

    name: str
    status: Status


@dataclass(frozen=True, slots=True)
class AggregateConfig:
    """An aggregate, flattened: clusters with endpoints, the most preferred first; there is at least one.

    `left_out` are those in error, and `note` says why (A74).
    """

    name: str
    leaves: tuple[ClusterConfig, ...]
    note: str = ""
    skipped_clusters: tuple[str, ...] = ()


ClusterResult: TypeAlias = ClusterConfig | AggregateConfig | ClusterError


def can_serve(cluster: ClusterResult) -> bool:
    """Return whether any endpoint takes new requests, reachable or not.

    DRAINING endpoints do not count: sessions may still use them, and nobody else ever will (A55).
    """
    match cluster:
        case ClusterError():
            return False
        case AggregateConfig(_, leaves):
            return any(map(can_serve, leaves))
        case ClusterConfig(_, endpoints):
            priorities = endpoints.priorities if endpoints is not None else ()
            return any(_serves(locality) for localities in priorities for locality in localities)
        case _ as never:
            assert_never(never)


def _serves(locality: Locality) -> bool:
    return any(endpoint.health is not HealthStatus.DRAINING for endpoint in locality.endpoints)


@dataclass(frozen=True, slots=True)
class XdsConfig:
    """Listener, the virtual host of our authority, and each cluster that is routed to or held, or a part of one.

    `routes_standing` is that of the resource that has the virtual host.
    """

    listener: Listener
    virtual_host: VirtualHost
    clusters: Mapping[str, ClusterResult]
    routes_standing: ResourceStatus | None = None


@dataclass(frozen=True, slots=True)
class ConfigError:
    """No routes: LDS or RDS is in error. Clusters that are still held are kept all the same."""

    status: Status
    clusters: Mapping[str, ClusterResult]


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """What one cluster's policies are given: what its resources say, as a whole.

    `given_up`: no route names it and it cannot serve, so RPCs that it would fail are dropped (A31).
    """

    cluster: ClusterResult
    deleted: bool = False

    def same_as(self, cluster: ClusterResult, given_up: bool) -> bool:
        # By identity: what did not change is the same object, and to compare ten thousand endpoints takes long.
        return self.cluster is cluster and self.deleted is given_up


@dataclass(frozen=True, slots=True)
class ClusterEntries:
    """Of several clusters, by name: each is read by its own cluster's policy and by nobody above it (A74)."""

    by_name: Mapping[str, ClusterEntry]

    def part(self, name: str) -> ClusterEntry:
        """That cluster's."""
        return self.by_name[name]


@dataclass(frozen=True, slots=True)
class Missing:
    """Not everything has been answered yet; what was in force stays."""

    names: tuple[tuple[str, str], ...]  # (kind, resource name)
