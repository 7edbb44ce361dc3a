"""A `Probe` reads what one channel has applied. It is the one file here that knows a channel's private parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trxds.core.connectivity import Connectivity
from trxds.lb.endpoint_set import Endpoints
from trxds.resolver.config_selector import ConfigSelector
from trxds.resolver.snapshot import ClusterConfig, ClusterEntries
from trxds.resolver.xds_resolver import Settling
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.transport.health_watch import PATH as WATCH_PATH


class Probe:
    """The state of an xDS channel; `shared` is its xDS client, if others use it too."""

    def __init__(self, channel: Any, shared: Any = None) -> None:
        self._state = channel._state
        self._pool = channel._pool
        self._shared = shared

    @property
    def _resolver(self) -> Any:
        return self._state.first_wait.resolver

    # -- the configuration

    @property
    def is_settling(self) -> bool:
        """Whether a configuration is on its way through the tree, so that two are in use."""
        return isinstance(self._resolver._stage, Settling) if self._resolver is not None else False

    def routed_clusters(self, path: str) -> frozenset[str] | None:
        """Return the clusters to which new calls of the path may go; None without routes."""
        plane = self._state.data_plane.current
        if plane is None or not isinstance(plane.selector, ConfigSelector):
            return None
        routes = plane.selector.routes
        positions = routes.candidates(path).positions
        if not positions:
            return frozenset()
        return frozenset(bound.name for bound in routes.route_at(positions[0]).clusters)

    def leaves(self, cluster: str) -> tuple[ClusterConfig, ...]:
        """Return the clusters with hosts behind that name, as the tree has them."""
        return ClusterEntries(self._resolver._sent).leaves(cluster)

    def endpoints(self, cluster: str, leaf: str = "") -> Iterator[tuple[ClusterConfig, Endpoint]]:
        """Yield the endpoints of a cluster in force, or of one leaf of an aggregate, each with its leaf."""
        for config in self.leaves(cluster):
            if leaf in ("", config.cluster.name) and config.endpoints is not None:
                for priority in config.endpoints.priorities:
                    for locality in priority:
                        for endpoint in locality.endpoints:
                            yield config, endpoint

    @property
    def clusters_alive(self) -> set[str]:
        """The clusters that something holds."""
        return set(self._resolver._clusters.alive)

    @property
    def clusters_of_routes(self) -> frozenset[str]:
        """The clusters of the routes in force."""
        plane = self._state.data_plane.current
        if plane is None or not isinstance(plane.selector, ConfigSelector):
            return frozenset()
        return plane.selector.table.clusters

    @property
    def is_idle(self) -> bool:
        """Whether the channel has no tree, because there was no call for a while."""
        return self._state.data_plane.current is None

    # -- hosts

    @property
    def leased(self) -> set[str]:
        """The addresses that somebody leases."""
        return {each.address for each in self._pool.hosts}

    @property
    def listed(self) -> set[str]:
        """The addresses that are endpoints of any policy in the tree, with those that are kept warm."""
        return self._listed(lambda path: True)

    def listed_before_a_switch(self, leaf: str) -> set[str]:
        """Return the endpoints of policies of a cluster that others replace as soon as those can serve."""
        return self._listed(lambda path: f"/{leaf}/" in path and "(before)" in path)

    def _listed(self, wanted: Callable[[str], bool]) -> set[str]:
        tree = self._state.data_plane.tree
        nodes = tree.snapshot("root") if tree is not None else ()
        endpoints = [node.endpoints for node in nodes if isinstance(node.endpoints, Endpoints) and wanted(node.path)]
        return {address for each in endpoints for endpoint in each.all for address in endpoint.addresses}

    def states(self, address: str) -> set[Connectivity]:
        """Return the states of an address's subchannels; there are several if clusters differ in security."""
        return {each.state for each in self._pool.hosts if each.address == address}

    @property
    def streams(self) -> int:
        """The number of streams that are open on connections."""
        return sum(len(connection.streams) for connection in self._pool.connections) - len(self._health_checks)

    @property
    def _health_checks(self) -> list[Any]:
        """The streams by which hosts say their health (A17), which stay open."""
        open_streams = (stream for each in self._pool.connections for stream in each.streams.open.values())
        return [stream for stream in open_streams if stream.request.path == WATCH_PATH]

    # -- calls and sessions

    @property
    def open_calls(self) -> int:
        return len(self._state.calls.open)

    @property
    def open_sessions(self) -> int:
        return len(self._state.sessions.open)

    @property
    def pinned_hosts(self) -> int:
        return len(self._state.sessions.pinned.by_host)

    @property
    def calls_counted(self) -> dict[str, int]:
        """What circuit breakers count now, by cluster (A32); empty if the channel has an xDS client of its own."""
        counts = self._shared._limits._counts if self._shared is not None else {}
        return {cluster: counter.rpcs for (cluster, _), counter in sorted(counts.items()) if counter.rpcs}


@dataclass(frozen=True)
class _Cluster:
    """What a target without a control plane has in the place of a cluster."""

    name: str = ""
    override_statuses: frozenset[HealthStatus] = frozenset(HealthStatus)


@dataclass(frozen=True)
class _Leaf:
    cluster: _Cluster = _Cluster()
    endpoints: None = None


class PlainProbe(Probe):
    """The state of a channel without a control plane, to a fixed list of addresses."""

    is_settling = False
    clusters_alive: frozenset[str] = frozenset()
    clusters_of_routes: frozenset[str] = frozenset()

    def __init__(self, channel: Any, target: str, addresses: Iterable[str]) -> None:
        super().__init__(channel)
        self._target = target
        self._endpoints = tuple(Endpoint((address,)) for address in addresses)

    def routed_clusters(self, path: str) -> frozenset[str]:
        return frozenset([self._target])

    def leaves(self, cluster: str) -> tuple[ClusterConfig, ...]:
        return ()

    def endpoints(self, cluster: str, leaf: str = "") -> Iterator[tuple[Any, Endpoint]]:
        for endpoint in self._endpoints:
            yield _Leaf(), endpoint
