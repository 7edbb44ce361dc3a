"""Slow start gives a host that has just become READY fewer turns, and more of them over time (the draft A100).

A new process has cold caches and compiles as it goes. Time counts from the moment in which a host becomes READY, so a
host that was lost, or was ejected, starts slowly again. Sessions are not slowed down: their host is no choice.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from trxds.core.connectivity import Connectivity
from trxds.resources.slow_start import SlowStart

from .endpoint_list import EndpointList, Key
from .policy import Decision, PolicyInputs

T = TypeVar("T")

_STEPS = 20  # updates of the shares within a window
_MIN_PERIOD, _MAX_PERIOD = 0.1, 1.0  # seconds between two updates


def update_period(rules: SlowStart) -> float:
    """Return the seconds after which shares are computed again."""
    return min(max(rules.window / _STEPS, _MIN_PERIOD), _MAX_PERIOD)


class WarmingHosts:
    """Since when each endpoint is READY, in seconds on Trio's clock; a policy updates it whenever it decides."""

    def __init__(self) -> None:
        self._since: dict[Key, float] = {}

    def update(self, ready: Iterable[Key], now: float) -> None:
        """Note the endpoints that are READY; the others will start slowly when they are."""
        since = self._since
        self._since = {key: since.get(key, now) for key in ready}

    def shares(self, keys: Iterable[Key], rules: SlowStart, now: float) -> list[float]:
        """Return by how much the weight of each of these endpoints counts."""
        return [rules.scale(now - self._since.get(key, now)) for key in keys]

    def end(self, rules: SlowStart) -> float:
        """Return when the last of them has started, on Trio's clock."""
        return max(self._since.values(), default=-math.inf) + rules.window

    def describe(self, rules: SlowStart | None, now: float) -> str:
        """Return how many endpoints start slowly, as the end of a description; empty for none."""
        number = sum(now - since < rules.window for since in self._since.values()) if rules is not None else 0
        return f", {number} in slow start" if number else ""


class ChoiceByShares(Generic[T]):
    """The choice that takes the place of a policy's own while a host starts slowly.

    `make` makes it of `shares(now)`, for endpoints in their order, and of the period after which they change.
    """

    def __init__(self, make: Callable[[Callable[[float], list[float]], float], T]) -> None:
        self._make = make
        self._warming = WarmingHosts()
        self._rules: SlowStart | None = None
        self._now = 0.0  # of the decision under way
        self._ready: tuple[Key, ...] = ()
        self._choice: T | None = None  # among these

    def decide(self, endpoints: EndpointList, inputs: PolicyInputs, now: float) -> Decision:
        """Return the decision of the endpoints, which calls `among`; it is made again when all have started."""
        rules: SlowStart | None = inputs.config.slow_start
        if rules != self._rules:
            # New rules hold for hosts that start slowly already.
            self._rules, self._choice = rules, None
            if rules is None:
                # Nobody notes meanwhile which hosts are READY, and none of them may pass for a new one later.
                self._warming.update((), now)
        self._now = now
        decision = endpoints.decide(inputs, now)
        if rules is None:
            return decision
        # `among` notes the READY endpoints, and is called only if there are some.
        if decision.state is not Connectivity.READY:
            self._warming.update((), now)
        end = self._warming.end(rules)
        return replace(decision, wake_at=min(decision.wake_at, end)) if end > now else decision

    def among(self, ready: Iterable[Key]) -> T | None:
        """Return the choice while one of these endpoints starts slowly, and None otherwise."""
        if self._rules is None:
            return None
        keys = tuple(ready)
        self._warming.update(keys, self._now)
        if self._warming.end(self._rules) <= self._now:
            self._choice = None
        elif self._choice is None or keys != self._ready:
            self._choice = self._make(partial(self._warming.shares, keys, self._rules), update_period(self._rules))
        self._ready = keys
        return self._choice

    def describe(self, now: float) -> str:
        """Return how many endpoints start slowly, as the end of a description; empty for none."""
        return self._warming.describe(self._rules, now)


class WeightedDraw:
    """Draws positions at random in proportion to shares, which are computed again after each period."""

    def __init__(self, shares: Callable[[float], list[float]], period: float) -> None:
        self._shares = shares
        self._period = period
        self._update_at = -math.inf
        self._sums: list[float] = []

    def draw(self, random: Random, now: float) -> int:
        """Return a position."""
        if now >= self._update_at:
            shares = self._shares(now)
            # Extreme settings may make all shares 0: then nobody starts more slowly than the others.
            self._sums = list(accumulate(shares if any(shares) else [1.0] * len(shares)))
            self._update_at = now + self._period
        # Rounding may draw the very end, which is the last one's.
        return min(bisect(self._sums, random.random() * self._sums[-1]), len(self._sums) - 1)

    def copy(self) -> WeightedDraw:
        """Return an independent draw, for an explanation."""
        return WeightedDraw(self._shares, self._period)
