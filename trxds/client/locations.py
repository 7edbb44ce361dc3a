"""`Locations` finds the cluster and locality of an address, for observers of RPCs and connections (A78, A94).

Observers know addresses only. The result is kept as long as the cluster has the same endpoints, so that an observer
that asks for each RPC costs a look-up in a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from trxds.core.observe import NOWHERE, Location
from trxds.resolver.snapshot import ClusterConfig, ClusterEntries
from trxds.resources.endpoint import ClusterLoadAssignment, LocalityId

from .dataplane import LiveDataPlane

ClusterHosts: TypeAlias = tuple[ClusterLoadAssignment, dict[str, Location]]


class Locations:
    """The locations of one channel's hosts, in the present configuration of its tree."""

    def __init__(self, data_plane: LiveDataPlane) -> None:
        self._data_plane = data_plane
        self._by_cluster: Mapping[str, ClusterHosts] = {}
        self._endpoints: object = None  # the source of `_by_cluster`

    def __call__(self, address: str, backend: str = "") -> Location:
        """Return the location of the address in cluster `backend`, or in the first cluster that lists it."""
        tree = self._data_plane.tree
        endpoints = tree.endpoints if tree is not None else None
        if endpoints is not self._endpoints:
            self._endpoints, self._by_cluster = endpoints, dict(self._read_clusters(endpoints))
        if backend:
            _, hosts = self._by_cluster.get(backend, (None, {}))
            return hosts.get(address) or Location(backend)
        return next((hosts[address] for _, hosts in self._by_cluster.values() if address in hosts), NOWHERE)

    def _read_clusters(self, endpoints: object) -> Iterator[tuple[str, ClusterHosts]]:
        for cluster in _clusters(endpoints):
            name, assignment = cluster.cluster.name, cluster.endpoints
            if assignment is None:
                continue
            # An update keeps the objects of unchanged clusters, so identity tells which have to be read again.
            known = self._by_cluster.get(name)
            unchanged = known is not None and known[0] is assignment
            yield name, known if known is not None and unchanged else (assignment, _hosts(name, assignment))


def _clusters(endpoints: object) -> Iterator[ClusterConfig]:
    if not isinstance(endpoints, ClusterEntries):
        return  # without a control plane there are no clusters
    for entry in endpoints.by_name.values():
        yield from entry.cluster.leaves


def _hosts(backend: str, endpoints: ClusterLoadAssignment) -> dict[str, Location]:
    found: dict[str, Location] = {}
    for localities in endpoints.priorities:
        for locality in localities:
            at = Location(backend, str(locality.id) if locality.id != LocalityId() else "")
            for endpoint in locality.endpoints:
                found.update(dict.fromkeys(endpoint.addresses, at))
    return found
