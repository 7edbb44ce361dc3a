"""The filters of a route: those of the listener, with the overrides of virtual host, route and cluster (A39).

Nothing is merged field by field: the most specific scope that names a filter replaces its whole configuration. An
override of another type of filter is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from trxds.resources.filter_config import FilterConfig
from trxds.resources.filters import HttpFilter, RouterConfig
from trxds.resources.listener import Listener
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import WeightedCluster

from .filter_mistakes import has_type_of

# The client makes it from a route's merged configurations; it is opaque here.
FilterChain: TypeAlias = Any
MakeChain: TypeAlias = Callable[[tuple[FilterConfig, ...]], FilterChain]


class EffectiveFilter(Struct, frozen=True):
    """A filter as one route has it; `scope` is the source of its configuration."""

    name: str
    config: FilterConfig
    scope: str

    def __str__(self) -> str:
        return f"{self.name} (from the {self.scope}): {self.config}"


class ClusterSelection(FilterConfig, frozen=True):
    """The internal filter before the router, which holds the cluster and releases the route table (A60)."""

    def __str__(self) -> str:
        return "from here on the cluster stands"


_CLUSTER_SELECTION = EffectiveFilter("cluster selection", ClusterSelection(), "client itself")


class FilterChains:
    """The filters of a virtual host's routes; routes with equal configurations share one chain."""

    def __init__(self, listener: Listener, host: VirtualHost, make: MakeChain) -> None:
        self._filters = tuple(each for each in listener.http_filters if not isinstance(each.config, RouterConfig))
        # The router filter does not run: the call itself does its work. `explain` shows it.
        self._router = tuple(each for each in listener.http_filters if isinstance(each.config, RouterConfig))
        self._host = host.filter_overrides
        self._make = make
        self._chains: dict[tuple[FilterConfig, ...], FilterChain] = {}

    def chain(self, route: Route, cluster: WeightedCluster) -> FilterChain:
        configs = tuple(use.config for use in self._merged_filters(route, cluster))
        # Thousands of routes usually have the same few configurations, so their chains are shared.
        if configs not in self._chains:
            self._chains[configs] = self._make(configs)
        return self._chains[configs]

    def effective_filters(self, route: Route, cluster: WeightedCluster) -> tuple[EffectiveFilter, ...]:
        """Return the filters that `explain` shows, with the two that end every chain."""
        router = (EffectiveFilter(each.name, each.config, "listener") for each in self._router)
        return (*self._merged_filters(route, cluster), _CLUSTER_SELECTION, *router)

    def _merged_filters(self, route: Route, cluster: WeightedCluster) -> tuple[EffectiveFilter, ...]:
        """Return the filters in the listener's order, without those that are disabled there and have no override."""
        scopes = (
            ("weighted cluster", cluster.filter_overrides),
            ("route", route.filter_overrides),
            ("virtual host", self._host),
        )
        merged = (_merge(each, scopes) for each in self._filters)
        return tuple(use for use in merged if use is not None)


def _merge(
    http_filter: HttpFilter, scopes: tuple[tuple[str, Mapping[str, FilterConfig]], ...]
) -> EffectiveFilter | None:
    # A39: the scopes are in order, the most specific first, and the first one that has the filter wins.
    for scope, overrides in scopes:
        override = overrides.get(http_filter.name)
        if override is not None and has_type_of(override, http_filter):
            return EffectiveFilter(http_filter.name, override.applied_to(http_filter.config), scope)
    return None if http_filter.disabled else EffectiveFilter(http_filter.name, http_filter.config, "listener")
