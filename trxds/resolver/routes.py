"""The routes of a virtual host, prepared for RPCs (A28, A31).

A table may have ten thousand routes of which a program uses three. So a route is bound, its filters merged and its
weights summed, when the first RPC takes it.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import TypeAlias

from msgspec import Struct

from trxds.core.lifetime import Lifetime
from trxds.core.resource_status import ResourceStatus, error_with_note
from trxds.core.status import Status
from trxds.resources.hash_policy import HashPolicy
from trxds.resources.listener import Listener
from trxds.resources.request_mirror import MirrorPolicies
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction

from .filter_mistakes import find_filter_mistakes
from .http_filters import EffectiveFilter, FilterChain, FilterChains, MakeChain
from .index import RouteIndex
from .method_config import NO_METHOD_CONFIG, MethodConfig, RouteMirrors
from .route_timeout import NO_LIMIT, RouteTimeout, TimeoutRule, max_stream_duration

FindCluster: TypeAlias = Callable[[str], Lifetime | None]
BindMirrors: TypeAlias = Callable[[MirrorPolicies, FindCluster], RouteMirrors]


class BoundCluster(Struct, frozen=True):
    """A cluster of a route, with the filters as they are configured for it."""

    name: str
    filters: FilterChain


class BoundRoute(Struct, frozen=True):
    """A route prepared for RPCs; `clusters` is empty if gRPC does not know its action.

    `limit` is the time that an RPC may take from its start, in seconds, `inf` for no limit (A31). `config` has what
    else a service config could say of the method: from xDS it is the retry policy (A44). With `auto_host_rewrite` the
    picked host's name becomes `:authority` (A81).
    """

    route: Route
    limit: float
    clusters: tuple[BoundCluster, ...]
    bounds: tuple[int, ...]  # running sums of the weights
    hash_policies: tuple[HashPolicy, ...] = ()
    config: MethodConfig = NO_METHOD_CONFIG
    standing: ResourceStatus | None = None  # the status of the route's resource
    number: int = 0  # its position in the virtual host
    auto_host_rewrite: bool = False

    def allows_cluster(self, cluster: str) -> bool:
        """Return whether a cookie may send an RPC of this route to that cluster (A60)."""
        # A60: a cookie is the client's word, so it chooses among the route's clusters only.
        return any(bound.name == cluster for bound in self.clusters)

    def annotate_filter_status(self, status: Status) -> Status:
        """Return the status with which a filter fails an RPC, with the resource that configures it."""
        if self.standing is None:
            return status
        return replace(status, note=f"on a route of {self.standing}")

    def pick_cluster(self, random: Random) -> BoundCluster:
        """Return a random cluster by weight alone; whether its hosts can be reached does not count (A31)."""
        if len(self.clusters) == 1:
            return self.clusters[0]
        # `bisect` goes right of an equal bound, so each cluster has as many numbers as its weight.
        return self.clusters[bisect(self.bounds, random.randrange(self.bounds[-1]))]


class BoundRoutes:
    """The routes of one version of a virtual host; `standing` is the status of the resource that has it.

    `mirror` returns the copies of a route's RPCs; None if the channel copies no calls.
    """

    def __init__(
        self,
        listener: Listener,
        host: VirtualHost,
        make_chain: MakeChain,
        limits: TimeoutRule = max_stream_duration,
        standing: ResourceStatus | None = None,
        mirror: Callable[[MirrorPolicies], RouteMirrors] | None = None,
    ) -> None:
        self.virtual_host = host.name
        self.routes = host.routes
        self.clusters = host.clusters
        self.candidates = RouteIndex(route.match for route in host.routes).candidates
        self._listener_limit = listener.max_stream_duration
        self._limits = limits
        self.standing = standing
        self.mistakes = find_filter_mistakes(listener, host)
        self._chains = FilterChains(listener, host, make_chain)
        self._bound: dict[int, BoundRoute] = {}
        self._mirror = mirror

    @property
    def warnings(self) -> tuple[str, ...]:
        """Describe the parts of the routes that are probably mistakes."""
        standing = f"{self.standing}: " if self.standing else ""
        return tuple(str(each) if each.in_listener else f"{standing}{each}" for each in self.mistakes)

    def route_at(self, position: int) -> BoundRoute:
        found = self._bound.get(position)
        if found is None:
            found = self._bound[position] = self._bind(self.routes[position], position)
        return found

    def _bind(self, route: Route, number: int) -> BoundRoute:
        # A28: its RPCs fail, but they may not go to a later route.
        if route.action is None:
            return BoundRoute(route, self.limit(route).seconds, (), (), number=number)
        clusters = route.action.clusters
        return BoundRoute(
            route,
            self.limit(route).seconds,
            tuple(BoundCluster(cluster.name, self._chains.chain(route, cluster)) for cluster in clusters),
            tuple(accumulate(cluster.weight for cluster in clusters)),
            route.action.hash_policies,
            self._method_config(route.action),
            self.standing,
            number,
            route.action.auto_host_rewrite,
        )

    def _method_config(self, action: RouteAction) -> MethodConfig:
        mirrors = self._mirror(action.mirrors) if self._mirror is not None and action.mirrors else None
        # RPCs compare it by identity, so that one without either costs nothing more.
        if action.retry_policy is None and mirrors is None:
            return NO_METHOD_CONFIG
        return MethodConfig(retry=action.retry_policy, mirrors=mirrors)

    def limit(self, route: Route) -> RouteTimeout:
        return NO_LIMIT if route.action is None else self._limits(route.action, self._listener_limit)

    def filters(self, route: Route, cluster: int) -> tuple[EffectiveFilter, ...]:
        """Return the filters as they are configured for that entry of the route's clusters."""
        assert route.action is not None
        return self._chains.effective_filters(route, route.action.clusters[cluster])

    def no_route(self, path: str) -> Status:
        where = f'virtual host "{self.virtual_host}"'
        remedy = 'add one there, or one with the prefix "" for the rest'
        reason = f"no route matches {path} in {where}; {remedy}"
        return error_with_note(self.standing, "No matching route found in xDS route config", reason)

    def no_action(self, path: str) -> Status:
        where = f'{path} in virtual host "{self.virtual_host}"'
        reason = f"the route that matches {where} has an action unknown to gRPC"
        return error_with_note(self.standing, "Matching route has inappropriate action", reason)
