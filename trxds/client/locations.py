"""Where a host is: its cluster, and the locality under which that lists it. For who watches RPCs and connections.

They know addresses. What is found is kept as long as the cluster has the same endpoints, so that who asks for each
RPC finds a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trxds.core.observe import NOWHERE, Location
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntries
from trxds.resources.endpoint import ClusterLoadAssignment, LocalityId

from .dataplane import LiveDataPlane


class Locations:
    """Of the hosts of one channel, as its tree is configured now."""

    def __init__(self, data_plane: LiveDataPlane) -> None:
        self._data_plane = data_plane
        self._of: Mapping[str, tuple[ClusterLoadAssignment, dict[str, Location]]] = {}
        self._endpoints: object = None  # that `_of` is of

    def __call__(self, address: str, backend: str = "") -> Location:
        """Of that cluster's host, or of the first cluster's that lists the address."""
        tree = self._data_plane.tree
        endpoints = tree.endpoints if tree is not None else None
        if endpoints is not self._endpoints:
            self._endpoints, self._of = endpoints, dict(self._renewed(endpoints))
        if backend:
            _, hosts = self._of.get(backend, (None, {}))
            return hosts.get(address) or Location(backend)
        return next((hosts[address] for _, hosts in self._of.values() if address in hosts), NOWHERE)

    def _renewed(self, endpoints: object) -> Iterator[tuple[str, tuple[ClusterLoadAssignment, dict[str, Location]]]]:
        for cluster in _clusters(endpoints):
            name, its = cluster.cluster.name, cluster.endpoints
            if its is None:
                continue
            known = self._of.get(name)
            yield name, known if known is not None and known[0] is its else (its, _hosts(name, its))


def _clusters(endpoints: object) -> Iterator[ClusterConfig]:
    if not isinstance(endpoints, ClusterEntries):
        return  # without a control plane there are no clusters
    for entry in endpoints.by_name.values():
        match entry.cluster:
            case ClusterConfig():
                yield entry.cluster
            case AggregateConfig(_, leaves):
                yield from leaves


def _hosts(backend: str, endpoints: ClusterLoadAssignment) -> dict[str, Location]:
    found: dict[str, Location] = {}
    for localities in endpoints.priorities:
        for locality in localities:
            at = Location(backend, str(locality.id) if locality.id != LocalityId() else "")
            for endpoint in locality.endpoints:
                found.update(dict.fromkeys(endpoint.addresses, at))
    return found
