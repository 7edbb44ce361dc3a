"""Trio's scheduler with an order that a seed decides. Only this file knows how.

Trio runs the tasks of one pass in a random order, so that no program relies on one. For tests it has a switch, which
pytest-trio and Hypothesis use too: then each batch is sorted by the numbers of its tasks before it is shuffled, and the
generator that shuffles can be seeded. Both are private, so a test holds that they are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from trio._core import _run

_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"


@contextmanager
def deterministic_scheduling(seed: str) -> Iterator[None]:
    """Let the next `trio.run` of this block order its tasks by the seed."""
    run: Any = _run
    if not isinstance(getattr(run, "_r", None), Random) or not isinstance(getattr(run, _SWITCH, None), bool):
        raise RuntimeError(
            "this Trio has another scheduler; use a version of it that trxds was tested with"
        )
    was, state = getattr(run, _SWITCH), run._r.getstate()
    setattr(run, _SWITCH, True)
    run._r.seed(seed)
    try:
        yield
    finally:
        setattr(run, _SWITCH, was)
        run._r.setstate(state)
