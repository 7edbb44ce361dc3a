"""Long pure work in slices, so that ten thousand endpoints do not hold up every RPC.

A parser is a generator: it yields where it may be put aside, and returns its value. Who has a
loop to care for takes a checkpoint at each yield, or drops it when something newer came.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]

ITEMS_A_SLICE = 64  # routes or endpoints: less than 2 ms of them


class TimeSlice:
    """Counts the items of a resource, in however many lists they come, and says when a slice is full."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items = 0

    def is_used_up(self) -> bool:
        """One more item is done: is it time to yield?"""
        self._items += 1
        return self._items % ITEMS_A_SLICE == 0


def at_once(slices: Slices[T]) -> T:
    """All of it in one go."""
    # Not a for loop, which would lose what the generator returns.
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: T = end.value
            return value
