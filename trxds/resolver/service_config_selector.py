"""The selector of a target without routes (A31): a service config has the options of its calls.

It looks to the call path like one route for each method, all with one cluster that has the target's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from trxds.core.metadata import Metadata
from trxds.core.random_copies import RandomCopies
from trxds.resources.matchers import Prefix
from trxds.resources.route import Route
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

from .clusters import RouteTable
from .config_selector import Explained, Selection
from .http_filters import EffectiveFilter, FilterChain
from .method_config import MethodConfig
from .route_explanation import Explanation, MatchedRoute
from .route_timeout import NO_LIMIT, RouteTimeout
from .routes import BoundCluster, BoundRoute
from .service_config import ServiceConfig

# How many methods are cached before the cache is cleared; programs call few.
MAX_CACHED_METHODS = 65_536


class MethodSelector:
    """The selector of one target. `table` has the one cluster, `target`; `chain` has the `filters` of all calls.

    `warn` returns what is wrong with the target at present and fails no calls.
    """

    def __init__(
        self,
        config: ServiceConfig,
        target: str,
        table: RouteTable,
        filters: tuple[EffectiveFilter, ...],
        chain: FilterChain,
        warn: Callable[[], tuple[str, ...]],
    ) -> None:
        self.table = table
        self._filters = filters
        self._config = config
        self._target = target
        self._route = Route(RouteMatch(Prefix("")), RouteAction((WeightedCluster(target),)))
        self._cluster = BoundCluster(target, chain)
        self._selections: dict[str, Selection] = {}  # by path: only the method's configuration differs
        self._warn = warn

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._warn()

    def choose(self, path: str, metadata: Metadata) -> Selection:
        return self._selections.get(path) or self._select(path)

    def _select(self, path: str) -> Selection:
        # A program may make paths from input, so the cache has a bound.
        if len(self._selections) >= MAX_CACHED_METHODS:
            self._selections.clear()
        config = self._config.method(path)
        limit = _limit(config).seconds
        route = BoundRoute(self._route, limit, (self._cluster,), (1,), config=config)
        selection = self._selections[path] = Selection(route, self._cluster, self.table)
        return selection

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        reason = "a target without a control plane has one, and every call takes it"
        limit = _limit(self._config.method(path))
        chosen = MatchedRoute(0, reason, self._target, 0, None, limit, self._filters, None)
        return Explanation(path, chosen=chosen), self.choose(path, metadata)


def _limit(config: MethodConfig) -> RouteTimeout:
    if config.timeout is None or config.timeout == math.inf:
        return NO_LIMIT
    return RouteTimeout(config.timeout, "the service config's timeout")
