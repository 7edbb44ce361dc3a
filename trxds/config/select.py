"""The config selector (A31): which route and which cluster for this RPC. Plain, once per RPC."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, TypeAlias

from trxds.ground.metadata import Metadata
from trxds.ground.status import Status, unavailable
from trxds.resources.filters import FilterConfig, HttpFilter, RouterConfig
from trxds.resources.listener import Listener
from trxds.resources.route import Route, RouteAction, VirtualHost, WeightedCluster

from .clusters import RouteTable

# Built above this floor from the merged configurations of a route's filters; opaque here.
Chain: TypeAlias = Any
MakeChain: TypeAlias = Callable[[tuple[FilterConfig, ...]], Chain]

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class BoundCluster:
    """A cluster of a route, with the filters as they are configured for it."""

    name: str
    chain: Chain


@dataclass(frozen=True, slots=True)
class BoundRoute:
    """A route made ready for RPCs; `clusters` is empty where the action is none that gRPC knows.

    `limit`: seconds an RPC may take from its start, `inf` for no limit (A31).
    """

    route: Route
    limit: float
    clusters: tuple[BoundCluster, ...]
    bounds: tuple[int, ...]  # running sums of the weights

    def has(self, cluster: str) -> bool:
        """May a cookie send an RPC of this route to that cluster? (A60)"""
        return any(bound.name == cluster for bound in self.clusters)

    def draw(self, random: Random) -> BoundCluster:
        if len(self.clusters) == 1:
            return self.clusters[0]
        return self.clusters[bisect(self.bounds, random.randrange(self.bounds[-1]))]


@dataclass(frozen=True, slots=True)
class Selection:
    """Where an RPC goes, before its filters have had their say."""

    route: BoundRoute
    cluster: BoundCluster
    table: RouteTable


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nowhere. With `may_change`, RPCs that wait for ready wait for the next configuration."""

    status: Status
    may_change: bool


@dataclass(frozen=True, slots=True)
class ConfigSelector:
    virtual_host: str
    routes: tuple[BoundRoute, ...]
    table: RouteTable
    random: Random

    def choose(self, path: str, metadata: Metadata) -> Selection | Refusal:
        for bound in self.routes:
            if self._matches(bound.route, path, metadata):
                return self._select(bound, path)
        return Refusal(unavailable(f'no route matches {path} in virtual host "{self.virtual_host}"'), False)

    def _matches(self, route: Route, path: str, metadata: Metadata) -> bool:
        match = route.match
        return (
            match.path.matches(path)
            and all(header.matches(metadata) for header in match.headers)
            and (match.fraction is None or self.random.randrange(_MILLION) < match.fraction)
        )

    def _select(self, bound: BoundRoute, path: str) -> Selection | Refusal:
        if not bound.clusters:
            where = f'{path} in virtual host "{self.virtual_host}"'
            return Refusal(unavailable(f"the route that matches {where} has an action unknown to gRPC"), False)
        return Selection(bound, bound.draw(self.random), self.table)


@dataclass(frozen=True, slots=True)
class ErrorSelector:
    """Stands in while the listener or the routes are in error."""

    status: Status

    def choose(self, path: str, metadata: Metadata) -> Selection | Refusal:
        return Refusal(self.status, True)


Selector: TypeAlias = ConfigSelector | ErrorSelector


def bind_routes(listener: Listener, host: VirtualHost, make_chain: MakeChain) -> tuple[BoundRoute, ...]:
    """Merge filters and limits of each route once, so that an RPC only looks them up."""
    chains = _Chains(listener.http_filters, host.filter_overrides, make_chain)
    return tuple(_bind(route, listener.max_stream_duration, chains) for route in host.routes)


def _bind(route: Route, listener_limit: float | None, chains: _Chains) -> BoundRoute:
    if route.action is None:
        return BoundRoute(route, math.inf, (), ())
    clusters = route.action.clusters
    return BoundRoute(
        route,
        limit(route.action, listener_limit),
        tuple(BoundCluster(cluster.name, chains.chain(route, cluster)) for cluster in clusters),
        tuple(accumulate(cluster.weight for cluster in clusters)),
    )


def limit(action: RouteAction, listener_limit: float | None) -> float:
    """The first that is set counts, and 0 means no limit (final A31)."""
    for seconds in (action.grpc_timeout_header_max, action.max_stream_duration, listener_limit):
        if seconds is not None:
            return seconds or math.inf
    return math.inf


class _Chains:
    """Filter chains by merged configuration; routes that configure alike share one."""

    def __init__(self, filters: tuple[HttpFilter, ...], host: Mapping[str, FilterConfig], make: MakeChain) -> None:
        self._filters = tuple(f for f in filters if not isinstance(f.config, RouterConfig))
        self._host = host
        self._make = make
        self._made: dict[tuple[FilterConfig, ...], Chain] = {}

    def chain(self, route: Route, cluster: WeightedCluster) -> Chain:
        scopes = (cluster.filter_overrides, route.filter_overrides, self._host)
        merged = tuple(config for f in self._filters if (config := _merge(f, scopes)) is not None)
        if merged not in self._made:
            self._made[merged] = self._make(merged)
        return self._made[merged]


def _merge(http_filter: HttpFilter, scopes: tuple[Mapping[str, FilterConfig], ...]) -> FilterConfig | None:
    """The most specific scope that names the filter wins entirely; None if it is off."""
    for overrides in scopes:
        if http_filter.name in overrides:
            return overrides[http_filter.name]
    return None if http_filter.disabled else http_filter.config
