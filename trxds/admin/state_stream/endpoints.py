"""Rows of endpoints: the control plane's view of each, and the state of its connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from trxds.core.connectivity import Connectivity
from trxds.core.status import OK
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.fair_share import fair_shares
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.policy_node_snapshot import NodeSnapshot
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry
from trxds.resources.endpoint import Endpoint

from .messages import EndpointRow


class _Place(NamedTuple):
    """The endpoints of a locality, in one priority."""

    priority: int
    locality: str
    weight: int
    endpoints: Sequence[Endpoint]
    proxy: str = ""  # of those that have none of their own


@dataclass(slots=True)
class _Cluster:
    """A cluster in use. `names` are its own and those of the aggregates above it: a session may know it by any."""

    names: set[str]
    places: Sequence[_Place]
    hosts: dict[str, SubchannelInterface] = field(default_factory=dict)
    ejected: set[str] = field(default_factory=set)

    def host(self, endpoint: Endpoint) -> SubchannelInterface | None:
        """Return the connection of an endpoint, which has one at a time (A61)."""
        return next((self.hosts[address] for address in endpoint.addresses if address in self.hosts), None)

    def is_ready(self, endpoint: Endpoint) -> bool:
        """Return whether an endpoint is connected."""
        host = self.host(endpoint)
        return host is not None and host.state is Connectivity.READY

    def fair_shares(self) -> dict[Endpoint, float]:
        """Return the fair share of each endpoint that takes new sessions."""
        priorities = groupby(self.places, lambda each: each.priority)
        return dict(fair_shares(([(at.weight, at.endpoints) for at in each] for _, each in priorities), self.is_ready))


def endpoints(
    channel: str, target: str, tree: Sequence[NodeSnapshot], sessions: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, EndpointRow]]:
    """Return the rows.

    `sessions` has the hosts and clusters that sessions are on. `target` names the cluster of a channel without xDS.
    """
    on = Counter(sessions)
    for name, cluster in _clusters(target, tree).items():
        fair = cluster.fair_shares()
        for at in cluster.places:
            for endpoint in at.endpoints:
                row = _row(channel, name, cluster, at, endpoint, on, fair.get(endpoint, 0.0))
                yield f"{channel}/{name}/{row['address']}", row


def _row(
    channel: str,
    name: str,
    cluster: _Cluster,
    at: _Place,
    endpoint: Endpoint,
    on: Counter[tuple[str, str]],
    fair_share: float,
) -> EndpointRow:
    addresses, host = endpoint.addresses, cluster.host(endpoint)
    return {
        "channel": channel,
        "address": addresses[0],
        "cluster": name,
        "priority": at.priority,
        "locality": at.locality,
        "health": _health(endpoint, host),
        "state": None if host is None else host.state.name,
        "weight": endpoint.weight,
        "ejected": not cluster.ejected.isdisjoint(addresses),
        "sessions": sum(on[address, known] for address in addresses for known in cluster.names) if on else 0,
        "addresses": list(addresses),
        "fair_share": round(fair_share, 4),
        "security": "" if host is None else host.security,
        "hostname": endpoint.hostname,
        "proxy": endpoint.proxy or at.proxy,
    }


def _health(endpoint: Endpoint, host: SubchannelInterface | None) -> str:
    """Return what the control plane says, unless the host itself says that it takes no calls (A17)."""
    if host is not None and host.state is Connectivity.READY and host.health not in (OK, None):
        return "NOT_SERVING"
    return endpoint.health.name


def _clusters(target: str, tree: Sequence[NodeSnapshot]) -> dict[str, _Cluster]:
    """Return every cluster in use, with what its nodes know of its hosts."""
    found: dict[str, _Cluster] = {}
    above: dict[str, tuple[frozenset[str], _Cluster | None]] = {}  # by path: names of clusters, and the innermost
    for seen in tree:
        names, cluster = above[seen.parent] if seen.parent is not None else (frozenset(), None)
        if seen.warm:
            above[seen.path] = names, None
            continue
        names |= _named(seen)
        cluster = _begun(found, seen, names, target, cluster)
        above[seen.path] = names, cluster
        if cluster is not None:
            cluster.hosts.update(seen.hosts)
            cluster.ejected |= seen.ejected
    return found


def _named(seen: NodeSnapshot) -> frozenset[str]:
    match seen.endpoints:
        case ClusterEntry(cluster=AggregateConfig(name)):
            return frozenset({name})
        case ClusterEntry(cluster=ClusterConfig(its)):
            return frozenset({its.name})
    return frozenset()


def _begun(
    found: dict[str, _Cluster], seen: NodeSnapshot, names: frozenset[str], target: str, above: _Cluster | None
) -> _Cluster | None:
    """Return the cluster that this node belongs to: a new one if the node is a cluster, or else its parent's."""
    match seen.endpoints:
        case ClusterEntry(cluster=ClusterConfig(its) as config):
            places = [
                _Place(number, locality.id.path, locality.weight, locality.endpoints, locality.proxy)
                for number, localities in enumerate(config.priorities)
                for locality in localities
            ]
            cluster = found.setdefault(its.name, _Cluster(set(), places))
            cluster.names |= names
            return cluster
    if above is None and not names and isinstance(seen.endpoints, Endpoints):  # there is no control plane
        return found.setdefault(target, _Cluster({target}, [_Place(0, "", 1, seen.endpoints.all)]))
    return above
