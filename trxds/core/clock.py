"""The time of day of what was noted on Trio's clock.

Trio's clock is good for measuring and means nothing to people, whose logs have the time of day. How far the
two are apart may change while a program runs, when the machine's clock is set or it was asleep: so what is to be
told later is told by the difference at the time that it happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import trio

TimeOfDay: TypeAlias = Callable[[float], str]
"""In ISO form, to the second, of a time on Trio's clock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`epoch` is the time of day, in seconds, at 0 on Trio's clock."""

    epoch: float

    @classmethod
    def now(cls) -> Clock:
        return cls(time.time() - trio.current_time())

    def stamp(self, timestamp: Any, at: float) -> None:
        """Fill in a Timestamp; what has not happened yet leaves it empty."""
        if at != -math.inf:
            # One rounding for both fields, or the nanoseconds might come to a whole second.
            timestamp.seconds, timestamp.nanos = divmod(round((self.epoch + at) * 1e9), 10**9)

    def text(self, at: float) -> str:
        """In UTC, as logs have it: "2026-11-21T03:12:45Z"."""
        return datetime.fromtimestamp(int(self.epoch + at), UTC).isoformat()[:19] + "Z"


def time_of_day(at: float) -> str:
    """Of something that happens just now."""
    return Clock.now().text(at)


since_1970: TimeOfDay = Clock(0.0).text
"""For who has no time of day: as if Trio's clock had begun then."""
