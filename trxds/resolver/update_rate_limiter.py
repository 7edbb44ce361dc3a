"""How often a configuration may change: at once as a rule, and twenty times a second if it never stops.

Each change is a step of the whole tree. A control plane that goes mad must not take the time of the RPCs; what it
says in between is not lost, since only the newest counts.
"""

from __future__ import annotations

BURST = 100  # changes that may follow each other at once
INTERVAL = 0.05  # seconds between those after that


class UpdateRateLimiter:
    """A bucket of `BURST` tokens, one more every `INTERVAL`."""

    def __init__(self) -> None:
        # When the bucket would be full again says how much is in it now: no count has to be topped up by a timer.
        self._full_at = 0.0

    def ready_at(self, now: float) -> float:
        """When the next change may be made: `now` or later."""
        return max(now, self._full_at - (BURST - 1) * INTERVAL)

    def take(self, now: float) -> None:
        """One is made."""
        self._full_at = max(self._full_at, now) + INTERVAL
