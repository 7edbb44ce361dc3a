"""A `Timeline` calls plain functions at times of the simulation's clock, in a fixed order, from one task.

A task for each message on its way would be a cancel scope and two scheduler steps for each.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import trio


class Timeline:
    """Functions to be called, by their times. Those of one time are called in the order in which they were added."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._added = 0
        self._next = math.inf  # when the task wakes
        self._task: trio.lowlevel.Task | None = None
        self._scope = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Timeline {len(self._due)} due>"

    def call_at(self, at: float, function: Callable[[], object]) -> None:
        """Call `function` at that time, in seconds on Trio's clock."""
        self._added += 1
        heapq.heappush(self._due, (at, self._added, function))
        if at < self._next:
            self._next = at
            self._scope.deadline = at

    async def run(self) -> None:
        """Call the functions as their times come, until cancelled."""
        while True:
            # The scope is made before the look, so that a function that adds another moves the deadline.
            self._scope, self._next = trio.CancelScope(), math.inf
            now = trio.current_time()
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            if self._due:
                self._next = self._scope.deadline = self._due[0][0]
            with self._scope:
                await trio.sleep_forever()
