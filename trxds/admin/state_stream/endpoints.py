"""Rows of endpoints: the control plane's view of each, and the state of its connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.policy_node_snapshot import NodeSnapshot
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry
from trxds.resources.endpoint import Endpoint, LocalityId

from .messages import EndpointRow


@dataclass(slots=True)
class _Cluster:
    """A cluster in use. `names` are its own and those of the aggregates above it: a session may know it by any."""

    names: set[str]
    places: Sequence[tuple[int, str, Sequence[Endpoint]]]  # priority, locality
    hosts: dict[str, SubchannelInterface] = field(default_factory=dict)
    ejected: set[str] = field(default_factory=set)


def endpoints(
    channel: str, target: str, tree: Sequence[NodeSnapshot], sessions: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, EndpointRow]]:
    """Return the rows.

    `sessions` has the hosts and clusters that sessions are on. `target` names the cluster of a channel without xDS.
    """
    on = Counter(sessions)
    for name, cluster in _clusters(target, tree).items():
        for priority, locality, group in cluster.places:
            for endpoint in group:
                row = _row(channel, name, cluster, priority, locality, endpoint, on)
                yield f"{channel}/{name}/{row['address']}", row


def _row(
    channel: str,
    name: str,
    cluster: _Cluster,
    priority: int,
    locality: str,
    endpoint: Endpoint,
    on: Counter[tuple[str, str]],
) -> EndpointRow:
    addresses = endpoint.addresses
    host = next((cluster.hosts[address] for address in addresses if address in cluster.hosts), None)
    row: EndpointRow = {
        "channel": channel,
        "address": addresses[0],
        "cluster": name,
        "priority": priority,
        "locality": locality,
        "health": endpoint.health.name,
        "state": None if host is None else host.state.name,
        "weight": endpoint.weight,
        "ejected": not cluster.ejected.isdisjoint(addresses),
        "sessions": sum(on[address, known] for address in addresses for known in cluster.names) if on else 0,
    }
    if len(addresses) > 1:
        row["more_addresses"] = list(addresses[1:])
    return row


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
        case ClusterEntry(cluster=ClusterConfig(its, assignment)):
            priorities = assignment.priorities if assignment is not None else ()
            places = [
                (number, place(locality.id), locality.endpoints)
                for number, localities in enumerate(priorities)
                for locality in localities
            ]
            cluster = found.setdefault(its.name, _Cluster(set(), places))
            cluster.names |= names
            return cluster
    if above is None and not names and isinstance(seen.endpoints, Endpoints):  # there is no control plane
        return found.setdefault(target, _Cluster({target}, [(0, "", seen.endpoints.all)]))
    return above


def place(at: LocalityId) -> str:
    """Return `region/zone/sub_zone` without the parts that are empty."""
    return "/".join(filter(None, (at.region, at.zone, at.sub_zone)))
