"""The config selector (A31): which route and which cluster for this RPC. Plain, once per RPC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol, TypeAlias

from trxds.core.draws import RandomCopies
from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resources.matchers import header_value
from trxds.resources.route_match import RouteMatch
from trxds.resources.units import MILLION

from .clusters import RouteTable
from .request_hash import request_hash
from .route_explanation import Explanation, explain_chosen, explain_passed
from .routes import BoundCluster, BoundRoute, BoundRoutes

_MAX_CACHED_PATHS = 1024  # paths; programs call few


@dataclass(slots=True)  # not frozen: many are made, and freezing costs more than the rest of it
class Selection:
    """Where an RPC goes, before its filters have had their say; nobody changes it.

    `hash` is None without a hash policy that yields one (A42).
    """

    route: BoundRoute
    cluster: BoundCluster
    table: RouteTable
    hash: int | None = None


@dataclass(frozen=True, slots=True)
class RouteError:
    """Nowhere. With `may_change`, RPCs that wait for ready wait for the next configuration."""

    status: Status
    retryable: bool
    route: BoundRoute | None = None  # that matches


Explained: TypeAlias = tuple[Explanation, Selection | None]  # without a selection the RPC ends there


@dataclass(frozen=True, slots=True)
class ConfigSelector:
    """One version of the routes; `channel_id` is what a hash policy may ask for (A42).

    `settled` has the paths whose first route asks for nothing but the path, has one cluster and hashes
    nothing: what there is to choose for them is chosen once.
    """

    routes: BoundRoutes
    table: RouteTable
    random: Random
    channel_id: int = 0
    path_cache: dict[str, Selection] = field(default_factory=dict, init=False, repr=False, compare=False)

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError:
        settled = self.path_cache.get(path)
        return self._choose(path, metadata, self.random) if settled is None else settled

    def _choose(self, path: str, metadata: Metadata, random: Random) -> Selection | RouteError:
        routes = self.routes
        candidates = routes.candidates(path)
        values: dict[str, str | None] = {}  # of headers, each looked up once however many routes ask for it
        for position in candidates:
            match = routes.routes[position].match
            if not match.headers and match.fraction is None:
                is_first = position == candidates[0]
                return self._select(routes.route_at(position), path, metadata, random, first=is_first)
            if _accepts(match, metadata, values, random):
                return self._select(routes.route_at(position), path, metadata, random)
        return RouteError(routes.no_route(path), False)

    def _select(
        self, bound: BoundRoute, path: str, metadata: Metadata, random: Random, *, first: bool = False
    ) -> Selection | RouteError:
        if not bound.clusters:
            return RouteError(self.routes.no_action(path), False, bound)
        hashed = request_hash(bound.hash_policies, metadata, self.channel_id) if bound.hash_policies else None
        selection = Selection(bound, bound.pick_cluster(random), self.table, hashed)
        if first and len(bound.clusters) == 1 and not bound.hash_policies and len(self.path_cache) < _MAX_CACHED_PATHS:
            self.path_cache[path] = selection
        return selection

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        routes, random = self.routes, copies.of(self.random)
        found = self._choose(path, metadata, random)
        passed = found.route.number if found.route is not None else len(routes.routes)
        drawn = iter(random.numbers)
        told = explain_passed(routes, path, metadata, passed, drawn)
        if isinstance(found, RouteError):
            return replace(told, refusal=found.status), None
        chosen = explain_chosen(routes, path, metadata, found.route, found.cluster, found.hash, drawn)
        return replace(told, chosen=chosen), found

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.routes.warnings


def _accepts(match: RouteMatch, metadata: Metadata, values: dict[str, str | None], random: Random) -> bool:
    """The path matches; do the headers, and is the RPC among the share that is to go here?"""
    for header in match.headers:  # no `all`: its generator would cost more than the comparison
        name = header.name
        if name not in values:
            values[name] = header_value(metadata, name)
        if not header.accepts(values[name]):
            return False
    return match.fraction is None or random.randrange(MILLION) < match.fraction


@dataclass(frozen=True, slots=True)
class ErrorSelector:
    """Stands in while the listener or the routes are in error.

    `present` tells the error of the moment: what was wrong when this came into force may be over, and the rest of
    the next configuration be awaited.
    """

    error: Status
    present: Callable[[], Status] | None = None

    @property
    def status(self) -> Status:
        """Why RPCs fail now."""
        return self.error if self.present is None else self.present()

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError:
        return RouteError(self.status, True)

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        return Explanation(path, refusal=self.status, may_change=True), None

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()


class Selector(Protocol):
    """What the calls of a channel ask first. There is a third kind, for targets without routes (`methods.py`)."""

    def choose(self, path: str, metadata: Metadata) -> Selection | RouteError: ...

    def explain(self, path: str, metadata: Metadata, copies: RandomCopies) -> Explained:
        """Choose once more and say why; what is drawn is drawn from copies."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the configuration, though calls can be made by it."""
        ...
