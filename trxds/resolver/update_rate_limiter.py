"""A limit on changes of the configuration: at first they are immediate, in the long run 20 a second.

Each change is a step of the whole tree, and a control plane that sends changes without end must not take the time of
the RPCs. Nothing is lost in between, since only the newest configuration counts.
"""

from __future__ import annotations

BURST = 100  # changes without a delay
INTERVAL = 0.05  # seconds between later changes


class UpdateRateLimiter:
    """A bucket of `BURST` tokens that gets one more every `INTERVAL`."""

    def __init__(self) -> None:
        # The time at which the bucket is full again tells its level, so no timer has to refill it.
        self._full_at = 0.0

    def ready_at(self, now: float) -> float:
        """Return when the next change may be made: `now` or later."""
        return max(now, self._full_at - (BURST - 1) * INTERVAL)

    def take(self, now: float) -> None:
        """Take the token of one change."""
        self._full_at = max(self._full_at, now) + INTERVAL
