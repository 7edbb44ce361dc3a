"""An explanation of an RPC's way: the selector's decision, with its reasons.

The selector decides as for an RPC, with a copy of its generator; then each skipped route gets its reason. Filters and
policies add their own steps, which `pick_outcomes.py` defines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from trxds.core.metadata import Metadata
from trxds.core.plural import plural
from trxds.core.status import Status
from trxds.resources.matchers import describe_matcher, header_value
from trxds.resources.route_match import RouteMatch

from .as_plain_data import as_plain_data
from .http_filters import EffectiveFilter
from .pick_outcomes import (
    FaultStep,
    FilterDecision,
    FilterStep,
    Outcome,
    PickDropped,
    PickedSubchannel,
    PickFailed,
    SessionStep,
    TraceStep,
)
from .route_timeout import RouteTimeout
from .routes import BoundCluster, BoundRoute, BoundRoutes

MAX_SHOWN = 20  # skipped routes in `str`


class SkippedRoute(Struct, frozen=True):
    """A route that does not match; `number` counts from 0 in its virtual host."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"route {self.number} does not match: {self.reason}"


class WeightedChoice(Struct, frozen=True):
    """A random choice among weighted clusters: `number` is the draw, below the sum of the weights."""

    weights: tuple[tuple[str, int], ...]
    number: int

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {weight}" for name, weight in self.weights)
        return f"drew {self.number} of {sum(weight for _, weight in self.weights)} ({shares})"


class MatchedRoute(Struct, frozen=True):
    """The route that matches, and its effect on the RPC.

    `draw` is None if the route has one cluster. `entry` is the position among the route's clusters, since one may be
    there twice with different filters. `limit` is the timeout (A31). `filters` are in the order in which they run; a
    stateful session filter among them may still choose another cluster of the route (A60). `hash` is None if no hash
    policy yields one (A42). `mirrors` are the copies that the channel makes of the route's RPCs.
    """

    number: int
    reason: str
    cluster: str
    entry: int
    draw: WeightedChoice | None
    limit: RouteTimeout
    filters: tuple[EffectiveFilter, ...]
    hash: int | None
    mirrors: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"route {self.number} matches: {self.reason}"
        yield f"cluster {self.cluster}" + (f": {self.draw}" if self.draw else "")
        yield f"time: {self.limit}"
        for use in self.filters:
            yield f"filter {use}"
        if self.hash is not None:
            yield f"hash: {self.hash:#018x}"
        for mirror in self.mirrors:
            yield f"copies: {mirror}"


class Explanation(Struct, frozen=True):
    """The way of an RPC: a `chosen` route or a `refusal`. `str` shows it line by line.

    A refusal that `may_change` depends on the state of the configuration: an RPC that waits for ready waits for another
    configuration. `filters` are the decisions of the HTTP filters, in the order in which they run, up to one that ends
    the RPC; `faults` and `sessions` are those of the fault and the session filters, which may choose another cluster
    than `chosen` has. `steps` are the policies that the RPC passes, from the root of the tree to its `outcome`.
    `unsticky` says why no session filter takes part, if the RPC has a session or a cookie. `stale` says which resources
    are from the cache on disk, because no control plane has answered.
    """

    method: str
    virtual_host: str = ""
    passed: tuple[SkippedRoute, ...] = ()
    chosen: MatchedRoute | None = None
    refusal: Status | None = None
    may_change: bool = False
    filters: tuple[FilterDecision, ...] = ()
    steps: tuple[TraceStep, ...] = ()
    unsticky: str = ""
    stale: str = ""

    @property
    def faults(self) -> tuple[FaultStep, ...]:
        """Return the effects of the fault filters."""
        return tuple(each for each in self.filters if isinstance(each, FaultStep))

    @property
    def sessions(self) -> tuple[SessionStep, ...]:
        """Return what the session filters read."""
        return tuple(each for each in self.filters if isinstance(each, SessionStep))

    @property
    def outcome(self) -> Outcome | None:
        """Return the RPC's outcome; None only if the explanation does not include the policies."""
        if self.refusal is not None:
            return PickFailed(self.refusal) if self.may_change else PickDropped(self.refusal)
        match self.filters[-1:]:
            case (FaultStep(status=Status() as status) | FilterStep(status=Status() as status),):
                return PickDropped(status)
        return self.steps[-1].outcome if self.steps else None

    @property
    def host(self) -> str:
        """Return the address that the RPC would be sent to now; empty if it waits or fails."""
        return self.outcome.address if isinstance(self.outcome, PickedSubchannel) else ""

    def as_data(self) -> dict[str, Any]:
        """Return the explanation in JSON's types: its fields by name, faults, sessions, the outcome and the host."""
        data = {name: as_plain_data(getattr(self, name)) for name in self.__struct_fields__}
        of_types = {name: as_plain_data(getattr(self, name)) for name in ("faults", "sessions")}
        return data | of_types | {"outcome": as_plain_data(self.outcome), "host": self.host}

    def __repr__(self) -> str:
        if self.chosen is None:
            return f"<Explanation {self.method}: {self.refusal}>"
        end = f", {self.outcome}" if self.outcome else ""
        where = f'route {self.chosen.number} of virtual host "{self.virtual_host}"'
        return f"<Explanation {self.method}: {where}, cluster {self.chosen.cluster}, {self.chosen.limit}{end}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f'{self.method} in virtual host "{self.virtual_host}"' if self.virtual_host else self.method
        if self.stale:
            yield f"stale: {self.stale}"
        yield from map(str, self.passed[:MAX_SHOWN])
        if len(self.passed) > MAX_SHOWN:
            yield f"{len(self.passed) - MAX_SHOWN} more routes do not match"
        if self.chosen is not None:
            yield from self.chosen.lines()
        yield from map(str, self.filters)
        if self.unsticky:
            yield f"not sticky: {self.unsticky}"
        yield from map(str, self.steps)
        if self.refusal is not None:
            yield str(self.refusal)
        elif self.outcome is not None:
            yield f"so the RPC {self.outcome}"


def explain_skipped(
    routes: BoundRoutes, path: str, metadata: Metadata, number: int, drawn: Iterator[int]
) -> Explanation:
    """Explain why the selector skipped the first `number` routes, by the numbers that it drew."""
    reasons = (_match_reason(route.match, path, metadata, drawn) for route in routes.routes[:number])
    passed = tuple(SkippedRoute(number, reason) for number, reason in enumerate(reasons))
    return Explanation(path, routes.virtual_host, passed)


def explain_chosen(
    routes: BoundRoutes,
    path: str,
    metadata: Metadata,
    bound: BoundRoute,
    cluster: BoundCluster,
    hashed: int | None,
    drawn: Iterator[int],
) -> MatchedRoute:
    """Explain what the selector chose."""
    route = bound.route
    reason = _match_reason(route.match, path, metadata, drawn)
    entry = next(number for number, each in enumerate(bound.clusters) if each is cluster)
    weights = tuple((each.name, each.weight) for each in route.action.clusters) if route.action else ()
    draw = WeightedChoice(weights, next(drawn)) if len(bound.clusters) > 1 else None
    limit, filters = routes.limit(route), routes.filters(route, entry)
    copied = route.action.mirrors if route.action and bound.config.mirrors is not None else ()
    mirrors = tuple(str(each) for each in copied)
    return MatchedRoute(bound.number, reason, cluster.name, entry, draw, limit, filters, hashed, mirrors)


def _match_reason(match: RouteMatch, path: str, metadata: Metadata, drawn: Iterator[int]) -> str:
    """Return why the route matches, or the first condition that fails (A28).

    `drawn` yields the selector's random numbers.
    """
    if not match.path.matches(path):
        return f"the path is not {describe_matcher(match.path)}"
    reasons = [f"the path is {describe_matcher(match.path)}"]
    for header in match.headers:
        value = header_value(metadata, header.name)
        matches = header.accepts(value)
        wanted = ("not " if header.invert else "") + describe_matcher(header.test)
        reason = f"header {header.name} {_describe_presence(value, matches)} (wanted: {wanted})"
        if not matches:
            return reason
        reasons.append(reason)
    if match.fraction is not None:
        number = next(drawn)
        reason = f"drew {number} of a million (wanted: below {match.fraction})"
        if number >= match.fraction:
            return reason
        reasons.append(reason)
    return ", ".join(reasons)


def _describe_presence(value: str | None, matches: bool) -> str:
    """Describe a header without its value, which may be a token: explanations are pasted into tickets."""
    if value is None:
        return "is absent"
    return "matches" if matches else f"has {plural(len(value), 'character')} and does not match"
