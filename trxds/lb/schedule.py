"""Whose turn it is, by weight: the earliest deadline first (A58).

Each one's deadlines are a period apart that is the inverse of its weight, so turns are spread
evenly and not drawn. Weights change all the time; they are read anew once in a while, by the
pick whose time it is, so that a cluster without RPCs costs no wake-ups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heapreplace
from random import Random


class Schedule:
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
        self._deadlines: list[tuple[float, int]] = []

    def next(self, now: float) -> int:
        """The position, in the list of weights, of the one whose turn it is."""
        if now >= self._due:
            self._renew(now)
        deadline, position = self._deadlines[0]
        heapreplace(self._deadlines, (deadline + 1 / self._in_force[position], position))
        return position

    def peek(self, now: float) -> tuple[int, float]:
        """The same, with its weight, and the turn is not taken."""
        if now >= self._due:
            self._renew(now)
        position = self._deadlines[0][1]
        return position, self._in_force[position]

    def _renew(self, now: float) -> None:
        self._due = now + self._period
        known = self._weights(now)
        if self._renewed is not None:
            self._renewed(known, now)
        weights = completed(known)
        if weights == self._in_force:
            return  # nobody's turn is put off or brought forward
        self._in_force = weights
        # A random start, or all clients would call the same host at the same time.
        self._deadlines = [(self._random.random() / weight, position) for position, weight in enumerate(weights)]
        heapify(self._deadlines)


def completed(weights: list[float]) -> list[float]:
    """The mean for one whose weight is not known; all alike when fewer than two are known."""
    known = [weight for weight in weights if weight]
    if len(known) < 2:
        return [1.0] * len(weights)
    mean = math.fsum(known) / len(known)
    return [weight or mean for weight in weights]
