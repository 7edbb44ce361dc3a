"""RouteConfiguration: which RPC goes where (RDS; A28, A31, A60)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .action import ChannelIdHash, HashPolicy, HeaderHash, RouteAction, WeightedCluster
from .domains import find_virtual_host
from .filters import FilterConfig
from .matchers import HeaderMatch, PathMatch
from .retry import RetryPolicy

__all__ = [
    "ChannelIdHash",
    "HashPolicy",
    "HeaderHash",
    "RetryPolicy",
    "Route",
    "RouteAction",
    "RouteConfig",
    "RouteMatch",
    "VirtualHost",
    "WeightedCluster",
    "find_virtual_host",
]


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """All three must agree; `fraction` (RPCs per million) is drawn last, and 0 never matches."""

    path: PathMatch
    headers: tuple[HeaderMatch, ...] = ()
    fraction: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """`action` None is one that gRPC cannot do (a redirect, say): RPCs that match fail UNAVAILABLE."""

    match: RouteMatch
    action: RouteAction | None
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """The routes for some domains, in order; the first that matches wins."""

    name: str
    domains: tuple[str, ...]
    routes: tuple[Route, ...] = ()
    filter_overrides: Mapping[str, FilterConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouteConfig:
    """The virtual hosts of one name."""

    name: str
    virtual_hosts: tuple[VirtualHost, ...] = ()

    def __repr__(self) -> str:
        routes = sum(len(host.routes) for host in self.virtual_hosts)
        return f"<RouteConfig {self.name}: {len(self.virtual_hosts)} virtual hosts, {routes} routes>"
