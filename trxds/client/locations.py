"""`Locations` finds the cluster and locality of an address, for observers of RPCs and connections (A78, A94).

Observers know addresses only. The result is kept as long as the cluster has the same endpoints, so that an observer
that asks for each RPC costs a look-up in a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeAlias

from trxds.core.observe import NOWHERE, Location
from trxds.resolver.snapshot import ClusterEntries
from trxds.resources.endpoint import ClusterLoadAssignment

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
        # Without a control plane there are no clusters.
        entries = endpoints.by_name.values() if isinstance(endpoints, ClusterEntries) else ()
        for leaf in chain.from_iterable(entry.cluster.leaves for entry in entries):
            name, assignment = leaf.cluster.name, leaf.endpoints
            if assignment is None:
                continue
            # An update keeps the objects of unchanged clusters, so identity tells which have to be read again.
            known = self._by_cluster.get(name)
            if known is None or known[0] is not assignment:
                known = assignment, _hosts(name, assignment)
            yield name, known


def _hosts(backend: str, endpoints: ClusterLoadAssignment) -> dict[str, Location]:
    found: dict[str, Location] = {}
    for localities in endpoints.priorities:
        for locality in localities:
            at = Location(backend, str(locality.id))
            for endpoint in locality.endpoints:
                found.update(dict.fromkeys(endpoint.addresses, at))
    return found
