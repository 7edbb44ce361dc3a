"""The routes in force: a selector, and the configuration that it was made from (A31)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random

from msgspec import Struct

from trxds.core.status import Status

from .clusters import Clusters
from .config_selector import ConfigSelector, ErrorSelector, Selector
from .resolver_result_handler import ResolverResultHandler
from .routes import BoundRoutes
from .snapshot import ConfigError, XdsConfig

_log = logging.getLogger("trxds.resolver")


class Routing(Struct, frozen=True):
    """One version of the routes. It holds their clusters until it is released (A31, A60)."""

    config: XdsConfig | ConfigError
    selector: Selector

    def has_routes_of(self, config: XdsConfig | ConfigError) -> bool:
        """Return whether a selector made from `config` would do the same."""
        mine = self.config
        if isinstance(mine, XdsConfig) and isinstance(config, XdsConfig):
            # Only `where` counts: a resource may come anew with this virtual host unchanged.
            return (
                mine.listener == config.listener
                and mine.virtual_host == config.virtual_host
                and mine.routes_standing.where == config.routes_standing.where
            )
        return isinstance(mine, ConfigError) and isinstance(config, ConfigError) and mine.status == config.status

    def clusters_among(self, alive: Iterable[str]) -> frozenset[str]:
        """Return the clusters that a route may name.

        Without routes that is all of them: nobody can say which are unused.
        """
        return self.selector.table.clusters if isinstance(self.selector, ConfigSelector) else frozenset(alive)

    def release(self) -> None:
        """Release the clusters that nothing else holds."""
        if isinstance(self.selector, ConfigSelector):
            self.selector.table.lifetime.initial_hold.release()


class RoutingFactory(Struct, frozen=True):
    """The maker of one channel's routings. `error` returns the reason why there are no routes, while there are none."""

    handler: ResolverResultHandler
    clusters: Clusters
    random: Random
    channel_id: int
    error: Callable[[], Status]

    def make(self, config: XdsConfig | ConfigError, in_force: Routing | None) -> Routing:
        """Return the routing in force if it does what `config` says, otherwise one with a route table of its own."""
        if in_force is not None and in_force.has_routes_of(config):
            return in_force
        if isinstance(config, ConfigError):
            _log.warning("no routes: %s", config.status.message)
            return Routing(config, ErrorSelector(self.error))
        handler, host = self.handler, config.virtual_host
        routes = BoundRoutes(config.listener, host, handler.make_chain, handler.limits, config.routes_standing)
        # RPCs are made in spite of such a mistake, so without this log nobody would notice it.
        _log_warnings(routes, in_force)
        mirrored = routes.mirror_clusters if handler.bind_mirrors is not None else frozenset()
        # The new table holds its clusters before the old one is released, so those that are in both live on.
        table = self.clusters.route_table(sorted(routes.clusters | mirrored))
        if handler.bind_mirrors is not None:
            routes.mirror(handler.bind_mirrors, table.find_cluster)
        return Routing(config, ConfigSelector(routes, table, self.random, self.channel_id))


def _log_warnings(routes: BoundRoutes, in_force: Routing | None) -> None:
    """Log the mistakes that the routes in force did not have, so that unchanged ones are not logged again."""
    selector = in_force.selector if in_force is not None else None
    before = selector.routes.mistakes if isinstance(selector, ConfigSelector) else ()
    for each, warning in zip(routes.mistakes, routes.warnings, strict=True):
        if each not in before:
            _log.warning("%s", warning)
