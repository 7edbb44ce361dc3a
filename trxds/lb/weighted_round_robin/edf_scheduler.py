"""The EDF scheduler gives turns by weight, the earliest deadline first (A58).

The deadlines of a host are apart by a period that is the inverse of its weight, so turns are spread
evenly and not drawn. Weights change all the time; they are read again after each update period, by the
first pick after it, so a cluster without RPCs causes no wake-ups.

Whatever the weights are, each host gets turns: no weight counts for less than a hundredth of the mean nor for more
than ten times as much, as in the C++ client. Without the lower bound a host that reports too little would never get
another RPC by which to correct itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heapreplace
from random import Random

from msgspec import Struct

from ..pick import Complete, Explainable, PickArgs, PickResult

MIN_RATIO, MAX_RATIO = 0.01, 10.0  # times the mean


class EdfScheduler:
    """A schedule of positions.

    `weights(now)` returns the weights, 0 for an unknown one; `on_update` is called with them. `shares(now)`, for hosts
    in slow start, says by how much each of them counts.
    """

    def __init__(
        self,
        weights: Callable[[float], list[float]],
        period: float,
        random: Random,
        on_update: Callable[[list[float], float], object] | None = None,
        shares: Callable[[float], list[float]] | None = None,
    ) -> None:
        self._weights = weights
        self._on_update = on_update
        self._shares = shares
        self._period = period  # seconds
        self._random = random
        self._update_at = -math.inf
        self._current_weights: list[float] = []
        self._periods: list[float] = []  # by position; 1 is the heaviest one's
        self._deadlines: list[tuple[float, int]] = []

    def next(self, now: float) -> int:
        """Return the position, in the list of weights, of the next host."""
        if now >= self._update_at:
            self._update(now)
        deadline, position = self._deadlines[0]
        heapreplace(self._deadlines, (deadline + self._periods[position], position))
        return position

    def copy(self, random_copy: Callable[[Random], Random]) -> EdfScheduler:
        """Return an independent schedule that goes on from here; it does not call `on_update`."""
        other = EdfScheduler(self._weights, self._period, random_copy(self._random), shares=self._shares)
        other._update_at, other._current_weights = self._update_at, self._current_weights
        other._periods, other._deadlines = self._periods, self._deadlines.copy()
        return other

    def weight(self, position: int) -> float:
        """Return the weight in force of the host at `position`."""
        return self._current_weights[position]

    def _update(self, now: float) -> None:
        self._update_at = now + self._period
        known = self._weights(now)
        if self._on_update is not None:
            self._on_update(known, now)
        weights = fill_unknown_weights(known)
        if self._shares is not None:
            # A100: a host without a weight of its own starts slowly too. The bounds hold for what it counts.
            scaled = [weight * share for weight, share in zip(weights, self._shares(now), strict=True)]
            weights = fill_unknown_weights(scaled)
        if weights == self._current_weights:
            return  # the deadlines stay: a new random start would disturb an even schedule
        self._current_weights = weights
        # As ratios, because the inverse of a very small weight would be infinite.
        heaviest = max(weights)
        self._periods = [heaviest / weight for weight in weights]
        # A random start, or all clients would call the same host at the same time.
        self._deadlines = [(self._random.random() * period, position) for position, period in enumerate(self._periods)]
        heapify(self._deadlines)


class EdfPicker(Explainable, Struct, frozen=True):
    """A picker over the READY hosts in the order of a schedule; `why` explains a pick, the weight in its braces."""

    hosts: tuple[Complete, ...]
    schedule: EdfScheduler
    why: str

    def pick(self, call: PickArgs) -> PickResult:
        if call.trace is None:
            return self.hosts[self.schedule.next(call.now)]
        schedule = self.schedule.copy(call.trace.random)
        position = schedule.next(call.now)
        call.trace.note(self.why.format(schedule.weight(position)))
        return self.hosts[position]


def fill_unknown_weights(weights: list[float]) -> list[float]:
    """Return the weights with the mean for unknown ones, or equal weights if fewer than two are known (A58).

    A weight that is not positive or not finite is unknown. The result is bounded around the mean.
    """
    known = [weight for weight in weights if 0.0 < weight < math.inf]
    # A58: with fewer than two known weights there is nothing to compare, so it is round robin.
    if len(known) < 2:
        return [1.0] * len(weights)
    maximum = max(known)
    # Scaled before they are summed, because the sum of very large weights would be infinite.
    mean = maximum * (math.fsum(weight / maximum for weight in known) / len(known))
    lowest, highest = mean * MIN_RATIO, mean * MAX_RATIO
    return [min(max(weight, lowest), highest) if 0.0 < weight < math.inf else mean for weight in weights]
