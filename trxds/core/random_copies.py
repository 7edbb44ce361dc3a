"""Copies of random generators let an explanation draw the numbers of the next RPC, and report them."""

from __future__ import annotations

from random import Random


class RandomCopy(Random):
    """A copy continues from the state of `original`, without changing it, and records the numbers it draws."""

    def __init__(self, original: Random) -> None:
        super().__init__()
        self.setstate(original.getstate())
        self.numbers: list[int] = []
        self.fractions: list[float] = []

    getrandbits = Random.getrandbits  # without it, `randrange` of a class with its own `random` draws other numbers

    def random(self) -> float:
        self.fractions.append(fraction := super().random())
        return fraction

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.numbers.append(number := super().randrange(start, stop, step))
        return number


class RandomCopies:
    """`RandomCopies` has one copy of each generator."""

    def __init__(self) -> None:
        self._copies: dict[int, RandomCopy] = {}

    def of(self, random: Random) -> RandomCopy:
        """Return the copy of `random`: always the same one, so that a second draw differs from the first."""
        return self._copies.get(id(random)) or self._copies.setdefault(id(random), RandomCopy(random))
