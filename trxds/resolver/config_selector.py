"""The config selector (A31) chooses route and cluster of each RPC, once and without waiting."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar, Protocol, TypeAlias

from msgspec import Struct, field, structs

from trxds.core.metadata import Metadata
from trxds.core.random_copies import RandomCopies
from trxds.core.redacted_struct import RedactedStruct
from trxds.core.status import Status
from trxds.resources.matchers import header_value
from trxds.resources.route_match import RouteMatch
from trxds.resources.units import MILLION

from .clusters import RouteTable
from .request_hash import request_hash
from .route_explanation import Explanation, explain_chosen, explain_skipped
from .routes import BoundCluster, BoundRoute, BoundRoutes

_MAX_CACHED_PATHS = 1024  # programs call few paths


class Selection(Struct, frozen=True):
    """The route and cluster of an RPC before its filters run; it is never changed.

    `hash` is None unless a hash policy yields one (A42).
    """

    route: BoundRoute
    cluster: BoundCluster
    table: RouteTable
    hash: int | None = None


class RouteError(Struct, frozen=True):
    """The status of an RPC without a route. If it is `retryable`, RPCs that wait for ready wait for other routes."""

    status: Status
    retryable: bool
    route: BoundRoute | None = None  # the route that matches


Explained: TypeAlias = tuple[Explanation, Selection | None]  # without a selection the RPC ends there


class ConfigSelector(RedactedStruct, frozen=True, eq=False):
    """One version of the routes; `channel_id` is the hash of policies that hash by channel (A42).

    `path_cache` has the paths for which nothing is left to choose: their first route has no condition but the path, one
    cluster and no hash policy.
    """

    redacted: ClassVar[frozenset[str]] = frozenset({"path_cache"})
    routes: BoundRoutes
    table: RouteTable
    random: Random
    channel_id: int = 0
    path_cache: dict[str, Selection] = field(default_factory=dict)

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError:
        cached = self.path_cache.get(path)
        return self._choose(path, metadata, self.random) if cached is None else cached

    def _choose(self, path: str, metadata: Metadata, random: Random) -> Selection | RouteError:
        routes = self.routes
        candidates = routes.candidates(path)
        by_header = candidates.header_index
        values: dict[str, str | None] = {}  # of headers, each looked up once for all routes
        for position in candidates.positions if by_header is None else by_header.candidates(metadata):
            match = routes.routes[position].match
            if not match.headers and match.fraction is None:
                is_first = position == candidates.positions[0]
                return self._select(routes.route_at(position), path, metadata, random, first=is_first)
            if _accepts(match, metadata, values, random):
                return self._select(routes.route_at(position), path, metadata, random)
        return RouteError(routes.no_route(path), False)

    def _select(
        self, bound: BoundRoute, path: str, metadata: Metadata, random: Random, *, first: bool = False
    ) -> Selection | RouteError:
        # A28: a route whose action gRPC does not support matches, and fails the RPC.
        if not bound.clusters:
            return RouteError(self.routes.no_action(path), False, bound)
        hashed = request_hash(bound.hash_policies, metadata, self.channel_id) if bound.hash_policies else None
        # A31: the cluster is drawn here, once for the RPC, so retries stay in it and its connectivity does not count.
        selection = Selection(bound, bound.pick_cluster(random), self.table, hashed)
        if first and len(bound.clusters) == 1 and not bound.hash_policies and len(self.path_cache) < _MAX_CACHED_PATHS:
            self.path_cache[path] = selection
        return selection

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        routes, random = self.routes, copies.of(self.random)
        found = self._choose(path, metadata, random)
        passed = found.route.number if found.route is not None else len(routes.routes)
        # The reasons come from the same random numbers as the choice, in the order in which it drew them.
        drawn = iter(random.numbers)
        explanation = explain_skipped(routes, path, metadata, passed, drawn)
        if isinstance(found, RouteError):
            return structs.replace(explanation, refusal=found.status), None
        chosen = explain_chosen(routes, path, metadata, found.route, found.cluster, found.hash, drawn)
        return structs.replace(explanation, chosen=chosen), found

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.routes.warnings


def _accepts(match: RouteMatch, metadata: Metadata, values: dict[str, str | None], random: Random) -> bool:
    """Return whether headers and runtime fraction match; the path is known to match."""
    for header in match.headers:  # not `all()`: its generator costs more than the comparison
        name = header.name
        if name not in values:
            values[name] = header_value(metadata, name)
        if not header.accepts(values[name]):
            return False
    # A28: the fraction is drawn last, only for RPCs that match otherwise.
    return match.fraction is None or random.randrange(MILLION) < match.fraction


class ErrorSelector(Struct, frozen=True):
    """The selector while the listener or the routes are in error.

    `current_error` returns the error of the moment: the one with which it came into force may be over by now while the
    next configuration is incomplete.
    """

    current_error: Callable[[], Status]

    @property
    def status(self) -> Status:
        """Return the reason why RPCs fail now."""
        return self.current_error()

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError:
        # A resource in error may be repaired, so RPCs that wait for ready wait for it.
        return RouteError(self.status, True)

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        return Explanation(path, refusal=self.status, may_change=True), None

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()


class Selector(Protocol):
    """The interface of selectors. `service_config_selector.py` has the one for targets without routes."""

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError: ...

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        """Choose once more, with copies of the random generators, and give the reasons."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the flaws of the configuration that do not fail calls."""
