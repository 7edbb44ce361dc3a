"""Why an RPC goes where it goes: the selector's decision once more, with its reasons.

What happens behind the route is told by those above this floor; `steps.py` has its words.
The routes are tried one by one here and not by the index, so that each can say why it was
passed. What is left to chance is drawn as it is for an RPC, so two explanations may differ.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any

from trxds.ground.metadata import Metadata
from trxds.ground.status import Status

from .chains import FilterUse
from .data import plain
from .limits import Limit
from .reasons import judge
from .request_hash import request_hash
from .routes import BoundRoute, BoundRoutes
from .steps import Drops, Fails, FaultStep, Outcome, SessionStep, Step, ToHost

_SHOWN = 20  # of the routes that were passed, by `str`


@dataclass(frozen=True, slots=True)
class Passed:
    """A route that does not match; `number` counts from 0 in its virtual host."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"route {self.number} does not match: {self.reason}"


@dataclass(frozen=True, slots=True)
class Draw:
    """Which of the clusters, by weight: the one that `number` falls to, out of the sum of the weights."""

    weights: tuple[tuple[str, int], ...]
    number: int

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {weight}" for name, weight in self.weights)
        return f"drew {self.number} of {sum(weight for _, weight in self.weights)} ({shares})"


@dataclass(frozen=True, slots=True)
class Chosen:
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
    draw: Draw | None
    limit: Limit
    filters: tuple[FilterUse, ...]
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
    passed: tuple[Passed, ...] = ()
    chosen: Chosen | None = None
    refusal: Status | None = None
    may_change: bool = False
    faults: tuple[FaultStep, ...] = ()
    sessions: tuple[SessionStep, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """What the RPC comes to; None only where the tree was not asked."""
        if self.refusal is not None:
            return Fails(self.refusal) if self.may_change else Drops(self.refusal)
        if self.faults and self.faults[-1].status is not None:
            return Drops(self.faults[-1].status)
        return self.steps[-1].outcome if self.steps else None

    @property
    def host(self) -> str:
        """The address that the RPC would be sent to now; empty if it waits or fails."""
        return self.outcome.address if isinstance(self.outcome, ToHost) else ""

    def as_data(self) -> dict[str, Any]:
        """For programs, as JSON has it: the fields by name, the outcome and the host."""
        data = {each.name: plain(getattr(self, each.name)) for each in fields(self)}
        return data | {"outcome": plain(self.outcome), "host": self.host}

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


def explain(routes: BoundRoutes, path: str, metadata: Metadata, random: Random, channel_id: int) -> Explanation:
    """Draws from `random` what `ConfigSelector.choose` would draw, in the same order."""
    passed: list[Passed] = []
    for number, route in enumerate(routes.routes):
        verdict = judge(route.match, path, metadata, random)
        if not verdict.matches:
            passed.append(Passed(number, verdict.reason))
            continue
        found = Explanation(path, routes.virtual_host, tuple(passed))
        if route.action is None:
            return replace(found, refusal=routes.no_action(path))
        return replace(found, chosen=_chosen(routes, number, verdict.reason, metadata, random, channel_id))
    return Explanation(path, routes.virtual_host, tuple(passed), refusal=routes.no_route(path))


def _chosen(
    routes: BoundRoutes, number: int, reason: str, metadata: Metadata, random: Random, channel_id: int
) -> Chosen:
    bound = routes.bound(number)
    draw = _draw(bound, random) if len(bound.clusters) > 1 else None
    index = bisect(bound.bounds, draw.number) if draw else 0
    return Chosen(
        number,
        reason,
        bound.clusters[index].name,
        index,
        draw,
        routes.limit(bound.route),
        routes.filters(bound.route, index),
        request_hash(bound.hash_policies, metadata, channel_id),
    )


def _draw(bound: BoundRoute, random: Random) -> Draw:
    clusters = bound.route.action.clusters if bound.route.action else ()
    weights = tuple((cluster.name, cluster.weight) for cluster in clusters)
    return Draw(weights, random.randrange(bound.bounds[-1]))
