"""`Calls` are the counts of calls that channelz shows (A14), added up on request.

Only rare events are counted, or those that are noted anyway, so that a successful call pays as little as possible.
"""

from __future__ import annotations

import math

from msgspec import Struct


class Calls(Struct, frozen=True):
    """The numbers of calls, and the start of the last in seconds on Trio's clock; open calls are only `started`."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    last_started: float = -math.inf

    def __add__(self, other: Calls) -> Calls:
        return Calls(
            self.started + other.started,
            self.succeeded + other.succeeded,
            self.failed + other.failed,
            max(self.last_started, other.last_started),
        )
