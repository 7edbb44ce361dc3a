"""The calls of a channel: those that are open, and how many there were (A14)."""

from __future__ import annotations

import math
from typing import Protocol

from trxds.core.calls import Calls


class RegisteredCall(Protocol):
    """A call, as far as the end of its channel is concerned."""

    def cancel(self, reason: str) -> None:
        """End the call, because its session or channel has ended."""


class CallRegistry:
    """Each call is counted once, with all its attempts. One that goes well costs two additions."""

    def __init__(self) -> None:
        self.open: set[RegisteredCall] = set()
        self.started = self.succeeded = 0
        self.last_started = -math.inf  # on Trio's clock

    @property
    def counts(self) -> Calls:
        """What came of all calls."""
        # What is not open any more and did not succeed has failed: so failures cost the calls nothing to count.
        return Calls(self.started, self.succeeded, self.started - self.succeeded - len(self.open), self.last_started)

    def cancel_all(self) -> None:
        """End every call, in whatever nursery it runs. Plain."""
        # A copy: a call that is cancelled may be closed, and leave the set, in the same step.
        for call in tuple(self.open):
            call.cancel("the channel has closed")
