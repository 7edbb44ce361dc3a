"""Why an RPC goes where it goes: the selector's decision, with its reasons.

The selector decides as for an RPC, with a copy of its generator; then each route says in words why it was passed. What
happens behind the route is told by those above this floor; `steps.py` has its words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from trxds.core.metadata import Metadata
from trxds.core.status import Status

from .as_plain_data import as_plain_data
from .http_filters import EffectiveFilter
from .match_reasons import match_verdict
from .pick_outcomes import FaultStep, Outcome, PickDropped, PickedSubchannel, PickFailed, SessionStep, TraceStep
from .route_timeout import RouteTimeout
from .routes import BoundCluster, BoundRoute, BoundRoutes

_SHOWN = 20  # of the routes that were passed, by `str`


@dataclass(frozen=True, slots=True)
class SkippedRoute:
    """A route that does not match; `number` counts from 0 in its virtual host."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"route {self.number} does not match: {self.reason}"


@dataclass(frozen=True, slots=True)
class WeightedChoice:
    """Which of the clusters, by weight: the one that `number` falls to, out of the sum of the weights."""

    weights: tuple[tuple[str, int], ...]
    number: int

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {weight}" for name, weight in self.weights)
        return f"drew {self.number} of {sum(weight for _, weight in self.weights)} ({shares})"


@dataclass(frozen=True, slots=True)
class MatchedRoute:
    """The route that matches, and what it means for the RPC.

    `draw` is None where the route has one cluster; `entry` counts the route's clusters, since one may stand there
    twice, with other filters. `filters` are in the order in which they run;
    a stateful session filter among them may still send the RPC to another cluster of the route
    (A60). `hash` is None where no hash policy yields one (A42).
    """

    number: int
    reason: str
    cluster: str
    entry: int
    draw: WeightedChoice | None
    limit: RouteTimeout
    filters: tuple[EffectiveFilter, ...]
    hash: int | None

    def lines(self) -> Iterator[str]:
        yield f"route {self.number} matches: {self.reason}"
        yield f"cluster {self.cluster}" + (f": {self.draw}" if self.draw else "")
        yield f"time: {self.limit}"
        for use in self.filters:
            yield f"filter {use}"
        if self.hash is not None:
            yield f"hash: {self.hash:#018x}"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What becomes of an RPC: a `chosen` route, or else a `refusal`. `str` tells it line by line.

    A refusal that `may_change` is one of the configuration's state, and an RPC that waits for ready waits for another.
    `faults` are what fault filters do to it, and may end it there. `sessions` are what session filters read, and
    may send the RPC to another cluster than the one of `chosen`; `steps` are the policies that the RPC passes,
    from the root of the tree to its `outcome`.
    """

    method: str
    virtual_host: str = ""
    passed: tuple[SkippedRoute, ...] = ()
    chosen: MatchedRoute | None = None
    refusal: Status | None = None
    may_change: bool = False
    faults: tuple[FaultStep, ...] = ()
    sessions: tuple[SessionStep, ...] = ()
    steps: tuple[TraceStep, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """What the RPC comes to; None only where the tree was not asked."""
        if self.refusal is not None:
            return PickFailed(self.refusal) if self.may_change else PickDropped(self.refusal)
        if self.faults and self.faults[-1].status is not None:
            return PickDropped(self.faults[-1].status)
        return self.steps[-1].outcome if self.steps else None

    @property
    def host(self) -> str:
        """The address that the RPC would be sent to now; empty if it waits or fails."""
        return self.outcome.address if isinstance(self.outcome, PickedSubchannel) else ""

    def as_data(self) -> dict[str, Any]:
        """For programs, as JSON has it: the fields by name, the outcome and the host."""
        data = {each.name: as_plain_data(getattr(self, each.name)) for each in fields(self)}
        return data | {"outcome": as_plain_data(self.outcome), "host": self.host}

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
        yield from map(str, self.passed[:_SHOWN])
        if len(self.passed) > _SHOWN:
            yield f"{len(self.passed) - _SHOWN} more routes do not match"
        if self.chosen is not None:
            yield from self.chosen.lines()
        yield from map(str, self.faults)
        yield from map(str, self.sessions)
        yield from map(str, self.steps)
        if self.refusal is not None:
            yield str(self.refusal)
        elif self.outcome is not None:
            yield f"so the RPC {self.outcome}"


def explain_passed(
    routes: BoundRoutes, path: str, metadata: Metadata, number: int, drawn: Iterator[int]
) -> Explanation:
    """Say why the selector passed the first `number` routes, by the numbers that it drew."""
    reasons = (match_verdict(route.match, path, metadata, drawn).reason for route in routes.routes[:number])
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
    """Say what the selector chose, and why."""
    route = bound.route
    reason = match_verdict(route.match, path, metadata, drawn).reason
    entry = next(number for number, each in enumerate(bound.clusters) if each is cluster)
    weights = tuple((each.name, each.weight) for each in route.action.clusters) if route.action else ()
    draw = WeightedChoice(weights, next(drawn)) if len(bound.clusters) > 1 else None
    limit, filters = routes.limit(route), routes.filters(route, entry)
    return MatchedRoute(bound.number, reason, cluster.name, entry, draw, limit, filters, hashed)
