"""Long parses in slices, so that ten thousand endpoints do not hold up every RPC.

A parser is a generator: it yields where it may pause, and returns its value. A caller in a task makes a checkpoint at
some of the yields.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]

MAX_ITEMS_PER_SLICE = 64  # routes or endpoints, which take less than 2 ms


class TimeSlice:
    """A counter of a resource's items, over all of its lists, that tells when a slice is full."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items = 0

    def is_used_up(self) -> bool:
        """Count one more item, and return whether it is time to yield."""
        self._items += 1
        return self._items % MAX_ITEMS_PER_SLICE == 0


def run_at_once(slices: Slices[T]) -> T:
    """Return the result of a parse without pauses."""
    # A for loop would lose the generator's return value.
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: T = end.value
            return value
