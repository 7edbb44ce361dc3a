"""Chance, for those who explain what an RPC meets: copies of the generators, and a record of what was drawn."""

from __future__ import annotations

from copy import copy
from random import Random
from typing import Any, Protocol


class Draws(Protocol):
    """What is drawn from: a generator, or a record of one."""

    def random(self) -> float: ...
    def randrange(self, stop: int, /) -> int: ...


class RandomCopies:
    """One copy of each generator, so that an explanation draws what the next RPC will draw."""

    def __init__(self) -> None:
        self._copies: dict[int, Random] = {}

    def of(self, random: Random) -> Random:
        """Return the copy of `random`; the same one each time, so that a second draw differs from the first."""
        return self._copies.setdefault(id(random), copy(random))


class RecordedDraws:
    """Draws from `random` and keeps the numbers."""

    def __init__(self, random: Random) -> None:
        self.numbers: list[Any] = []
        self._random = random

    def random(self) -> float:
        self.numbers.append(number := self._random.random())
        return number

    def randrange(self, stop: int, /) -> int:
        self.numbers.append(number := self._random.randrange(stop))
        return number
