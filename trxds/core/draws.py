"""Chance, for those who explain what an RPC meets: they draw what the next RPC will draw, and say which numbers."""

from __future__ import annotations

from random import Random


class RandomCopy(Random):
    """Goes on from where `original` stands, and keeps what was drawn."""

    def __init__(self, original: Random) -> None:
        super().__init__()
        self.setstate(original.getstate())
        self.numbers: list[int] = []
        self.fractions: list[float] = []

    getrandbits = Random.getrandbits  # or a subclass with a `random` would have `randrange` draw otherwise

    def random(self) -> float:
        self.fractions.append(fraction := super().random())
        return fraction

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.numbers.append(number := super().randrange(start, stop, step))
        return number


class RandomCopies:
    """One copy of each generator."""

    def __init__(self) -> None:
        self._copies: dict[int, RandomCopy] = {}

    def of(self, random: Random) -> RandomCopy:
        """Return the copy of `random`; the same one each time, so that a second draw differs from the first."""
        return self._copies.get(id(random)) or self._copies.setdefault(id(random), RandomCopy(random))
