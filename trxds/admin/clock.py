"""The time of day of what was noted on Trio's clock."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import trio


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
            timestamp.seconds, timestamp.nanos = divmod(round((self.epoch + at) * 1e9), 10**9)
