"""What differs from one run to the next comes from here: random generators and the machine's clocks.

A simulation (`trxds.testing.Simulation`) replaces all of them for the tasks that it starts. Each part takes what it
needs when it is made, so a call does no look-up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from random import Random

from msgspec import Struct


class Sources(Struct, frozen=True):
    """The sources of one program: `new_random` makes generators, and the clocks return seconds.

    `epoch` counts from 1970; `step_clock` measures how long a step takes, from any beginning.
    """

    new_random: Callable[[], Random]
    epoch: Callable[[], float]
    step_clock: Callable[[], float]


SOURCES: ContextVar[Sources] = ContextVar("trxds_sources")

_MACHINE = Sources(Random, time.time, time.perf_counter)


def _sources() -> Sources:
    return SOURCES.get(_MACHINE)


def new_random() -> Random:
    """Return a generator for one part of the program."""
    return _sources().new_random()


def wall_clock() -> Callable[[], float]:
    """Return the clock that gives the seconds since 1970."""
    return _sources().epoch


def step_clock() -> Callable[[], float]:
    """Return the clock that measures the steps of long computations."""
    return _sources().step_clock
