"""Whose turn it is, by weight: the earliest deadline first (A58).

Each one's deadlines are a period apart that is the inverse of its weight, so turns are spread
evenly and not drawn. Weights change all the time; they are read anew once in a while, by the
pick whose time it is, so that a cluster without RPCs costs no wake-ups.

Whatever the weights are, everyone gets turns: no weight counts for less than a hundredth of the mean nor for more
than ten times as much, as in the C++ client. Without the first bound a host that reports too little would never be
sent another RPC by which to correct itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heapreplace
from random import Random

LEAST, MOST = 0.01, 10.0  # times the mean


class EdfScheduler:
    """`weights` tells those of the moment, 0 for one that is not known; `renewed` is told when they are read."""

    def __init__(
        self,
        weights: Callable[[float], list[float]],
        period: float,
        random: Random,
        renewed: Callable[[list[float], float], object] | None = None,
    ) -> None:
        self._weights = weights
        self._renewed = renewed
        self._period = period  # seconds
        self._random = random
        self._due = -math.inf
        self._in_force: list[float] = []
        self._periods: list[float] = []  # by position; 1 is the heaviest one's
        self._deadlines: list[tuple[float, int]] = []

    def next(self, now: float) -> int:
        """The position, in the list of weights, of the one whose turn it is."""
        if now >= self._due:
            self._renew(now)
        deadline, position = self._deadlines[0]
        heapreplace(self._deadlines, (deadline + self._periods[position], position))
        return position

    def copy(self, random_copy: Callable[[Random], Random]) -> EdfScheduler:
        """Return one that goes on from here apart from this one; nobody is told when it reads the weights."""
        other = EdfScheduler(self._weights, self._period, random_copy(self._random))
        other._due, other._in_force = self._due, self._in_force
        other._periods, other._deadlines = self._periods, self._deadlines.copy()
        return other

    def weight(self, position: int) -> float:
        """The one in force."""
        return self._in_force[position]

    def _renew(self, now: float) -> None:
        self._due = now + self._period
        known = self._weights(now)
        if self._renewed is not None:
            self._renewed(known, now)
        weights = completed(known)
        if weights == self._in_force:
            return  # nobody's turn is put off or brought forward
        self._in_force = weights
        # Ratios: the inverse of a weight may be out of range.
        heaviest = max(weights)
        self._periods = [heaviest / weight for weight in weights]
        # A random start, or all clients would call the same host at the same time.
        self._deadlines = [(self._random.random() * period, position) for position, period in enumerate(self._periods)]
        heapify(self._deadlines)


def completed(weights: list[float]) -> list[float]:
    """The mean for one whose weight is not known; all alike when fewer than two are known.

    A weight that is not positive or not finite is not known. None that is returned is far from the mean.
    """
    known = [weight for weight in weights if 0.0 < weight < math.inf]
    if len(known) < 2:
        return [1.0] * len(weights)
    largest = max(known)
    mean = largest * (math.fsum(weight / largest for weight in known) / len(known))  # their sum may be out of range
    least, most = mean * LEAST, mean * MOST
    return [min(max(weight, least), most) if 0.0 < weight < math.inf else mean for weight in weights]
