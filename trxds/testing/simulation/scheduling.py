"""Trio's scheduler with an order that a seed decides. Only this file knows how.

Trio runs the tasks of one pass in a random order, so that no program relies on one. For tests it has a switch, which
pytest-trio and Hypothesis use too: then each batch is sorted by the numbers of its tasks before it is shuffled, and the
generator that shuffles can be seeded. Both are private, so a test holds that they are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from threading import Lock, get_ident

from trio._core import _run

# By name, because `from` would copy the switch.
_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"
_RANDOM = "_r"


@contextmanager
def deterministic_scheduling(seed: str) -> Iterator[None]:
    """Let each `trio.run` that this thread starts in the block order its tasks by the seed."""
    _seeded.add(get_ident(), Random(seed))
    try:
        yield
    finally:
        _seeded.remove(get_ident())


class _SeededThreads:
    """The threads whose order a seed decides. Trio has one generator for all threads, which stands aside meanwhile."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._generators: dict[int, Random] = {}
        self._before: tuple[Random, bool] | None = None

    def add(self, thread: int, generator: Random) -> None:
        with self._lock:
            if self._before is None:
                random, switch = getattr(_run, _RANDOM, None), getattr(_run, _SWITCH, None)
                if not isinstance(random, Random) or not isinstance(switch, bool):
                    raise RuntimeError(
                        "this Trio has another scheduler; use a version of it that trxds was tested with"
                    )
                self._before = random, switch
                setattr(_run, _RANDOM, _RandomOfThread(self._generators, random))
                setattr(_run, _SWITCH, True)
            self._generators[thread] = generator

    def remove(self, thread: int) -> None:
        with self._lock:
            del self._generators[thread]
            if not self._generators and self._before is not None:
                random, switch = self._before
                setattr(_run, _RANDOM, random)
                setattr(_run, _SWITCH, switch)
                self._before = None


class _RandomOfThread(Random):
    """Draws from the generator of the thread that asks, or else from Trio's own.

    With one for all, a Trio in another thread would draw numbers too, and a run could not be had again.
    """

    def __init__(self, generators: dict[int, Random], other: Random) -> None:
        super().__init__()
        self._generators = generators
        self._other = other

    def random(self) -> float:
        return self._generators.get(get_ident(), self._other).random()

    def getrandbits(self, k: int, /) -> int:
        return self._generators.get(get_ident(), self._other).getrandbits(k)


_seeded = _SeededThreads()
