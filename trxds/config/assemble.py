"""Many resources become one picture: recomputed from everything known, no bookkeeping (A74).

The walk begins at the listener and visits what it needs; what it visits is what has to be
watched. It yields a complete configuration, an error, or the names still missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trxds.ads.state import ResourceState
from trxds.ground.status import Status, unavailable
from trxds.resources.cluster import Cluster
from trxds.resources.endpoint import ClusterLoadAssignment
from trxds.resources.listener import Listener
from trxds.resources.route import RouteConfig, VirtualHost, find_virtual_host

from .snapshot import ClusterConfig, ClusterError, ConfigError, Missing, XdsConfig

Key: TypeAlias = tuple[str, str]  # kind ("LDS", "RDS", "CDS", "EDS") and resource name
Known: TypeAlias = Mapping[Key, ResourceState]


@dataclass(frozen=True, slots=True)
class Assembly:
    """`visited` are the resources to watch from now on, no others."""

    outcome: XdsConfig | ConfigError | Missing
    visited: frozenset[Key]


def assemble(known: Known, listener: str, authority: str, held: Iterable[str]) -> Assembly:
    """What `known` makes of the target; `held` are clusters that RPCs or route tables still need."""
    walk = _Walk(known)
    routing = walk.routing(listener, authority)
    names = set(held)
    if isinstance(routing, tuple):
        names.update(cluster.name for route in routing[1].routes if route.action for cluster in route.action.clusters)
    # Sorted, so that resources are asked for in an order that does not change from run to run.
    clusters = {name: config for name in sorted(names) if (config := walk.cluster(name)) is not None}
    return Assembly(_outcome(routing, clusters, walk.missing), frozenset(walk.visited))


def _outcome(
    routing: tuple[Listener, VirtualHost] | Status | None,
    clusters: dict[str, ClusterConfig | ClusterError],
    missing: list[Key],
) -> XdsConfig | ConfigError | Missing:
    if isinstance(routing, Status):
        return ConfigError(routing, clusters)
    if routing is None or missing:
        return Missing(tuple(missing))
    return XdsConfig(routing[0], routing[1], clusters)


class _Walk:
    """Notes what it visits and what it misses. None means: not known yet."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.visited: set[Key] = set()
        self.missing: list[Key] = []

    def _look(self, kind: str, name: str) -> ResourceState | None:
        self.visited.add((kind, name))
        state = self._known.get((kind, name))
        if state is None:
            self.missing.append((kind, name))
        return state

    def routing(self, name: str, authority: str) -> tuple[Listener, VirtualHost] | Status | None:
        state = self._look("LDS", name)
        if state is None:
            return None
        if state.error is not None:
            return state.error
        listener = state.value
        assert isinstance(listener, Listener)
        if not listener.api:
            return unavailable(f'LDS resource "{name}" is no API listener; a client needs one with `api_listener` set')
        routes = listener.route_config or self._routes(listener.rds_name or "")
        if not isinstance(routes, RouteConfig):
            return routes
        host = find_virtual_host(routes.virtual_hosts, authority)
        if host is None:
            return unavailable(
                f'RDS resource "{routes.name}" has no virtual host for "{authority}"; '
                "add that domain to one of its virtual hosts"
            )
        return listener, host

    def _routes(self, name: str) -> RouteConfig | Status | None:
        state = self._look("RDS", name)
        if state is None:
            return None
        if state.error is not None:
            return state.error
        assert isinstance(state.value, RouteConfig)
        return state.value

    def cluster(self, name: str) -> ClusterConfig | ClusterError | None:
        state = self._look("CDS", name)
        if state is None:
            return None
        if state.error is not None:
            return ClusterError(name, state.error, state.absent)
        assert isinstance(state.value, Cluster)
        return self._with_endpoints(state.value)

    def _with_endpoints(self, cluster: Cluster) -> ClusterConfig | None:
        state = self._look("EDS", cluster.discovery.service_name)
        if state is None:
            return None
        if state.error is not None:
            return ClusterConfig(cluster, None, state.error.message)
        assert isinstance(state.value, ClusterLoadAssignment)
        return ClusterConfig(cluster, state.value)
