"""channelz shows counts of the messages and PINGs of one connection (A14)."""

from __future__ import annotations

import math
from collections.abc import Callable


class ConnectionCounts:
    """Counts of one connection, and times on Trio's clock, which `now` reads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.messages_sent = self.messages_received = self.pings_sent = 0
        self.last_sent = -math.inf
        """The time when the last message was handed over."""
        self.last_received = -math.inf
        """The time of the last read when the last message was taken."""

    def count_sent(self, messages: int) -> None:
        """Count messages that were handed over now."""
        self.messages_sent += messages
        self.last_sent = self.now()
