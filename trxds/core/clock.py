"""A `Clock` converts times on Trio's clock to the time of day.

Trio's clock is monotonic and good for measuring, but people and their logs have the time of day. The difference of the
two may change while a program runs, when the machine's clock is set or it was suspended. So an event that is shown
later uses the difference at the time when it happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import trio
from msgspec import Struct

from .determinism import wall_clock

TimeOfDay: TypeAlias = Callable[[float], str]
"""A function from a time on Trio's clock to the time of day in ISO form, to the second."""


class Clock(Struct, frozen=True):
    """A `Clock` knows the time of day at 0 on Trio's clock: `epoch`, in seconds since 1970."""

    epoch: float

    @classmethod
    def now(cls) -> Clock:
        """Return the clock with the present difference."""
        return cls(wall_clock()() - trio.current_time())

    def stamp(self, timestamp: Any, at: float) -> None:
        """Fill in a protobuf Timestamp; `-inf`, for an event that has not happened, leaves it empty."""
        if at != -math.inf:
            # Rounded once for both fields, because the nanoseconds alone might round to a whole second.
            timestamp.seconds, timestamp.nanos = divmod(round((self.epoch + at) * 1e9), 10**9)

    def text(self, at: float) -> str:
        """Return the time of day in UTC, as in logs: "2026-11-21T03:12:45Z"."""
        return datetime.fromtimestamp(int(self.epoch + at), UTC).isoformat()[:19] + "Z"


def time_of_day(at: float) -> str:
    """Return the time of day, in UTC, of an event that happens now."""
    return Clock.now().text(at)


since_1970: TimeOfDay = Clock(0.0).text
"""The `TimeOfDay` for tests and tools without a clock: Trio's clock begins at 1970."""
