"""Trio's scheduler with an order that a seed decides. Only this file knows how.

Trio runs the tasks of one pass in a random order, so that no program relies on one. For tests it has a switch, which
pytest-trio and Hypothesis use too: then each batch is sorted by the numbers of its tasks before it is shuffled, and the
generator that shuffles can be seeded. Both are private, so a test holds that they are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from trio._core import _run

# By name, because `from` would copy the switch.
_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"
_RANDOM = "_r"


@contextmanager
def deterministic_scheduling(seed: str) -> Iterator[None]:
    """Let each `trio.run` of this block order its tasks by the seed."""
    random, was = getattr(_run, _RANDOM, None), getattr(_run, _SWITCH, None)
    if not isinstance(random, Random) or not isinstance(was, bool):
        raise RuntimeError("this Trio has another scheduler; use a version of it that trxds was tested with")
    state = random.getstate()
    setattr(_run, _SWITCH, True)
    random.seed(seed)
    try:
        yield
    finally:
        setattr(_run, _SWITCH, was)
        random.setstate(state)
