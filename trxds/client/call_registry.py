"""A `CallRegistry` holds the open calls of a channel and counts all of them (A14)."""

from __future__ import annotations

import math
from typing import Protocol

from trxds.core.calls import Calls


class RegisteredCall(Protocol):
    """A call that can be cancelled when its session ends, or its channel."""

    def cancel(self, reason: str) -> None:
        """End the call, because its session or channel has ended."""


class CallRegistry:
    """The registry counts each call once, with all its attempts. A successful call costs two additions."""

    def __init__(self) -> None:
        self.open: dict[RegisteredCall, None] = {}  # in order, so that a simulation cancels them in the same
        self.started = self.succeeded = 0
        self.last_started = -math.inf  # on Trio's clock

    @property
    def counts(self) -> Calls:
        """Return how many calls were started, succeeded and failed."""
        # A call that is neither open nor successful has failed: so failures need no counter on the path of an RPC.
        return Calls(self.started, self.succeeded, self.started - self.succeeded - len(self.open), self.last_started)

    def cancel_all(self) -> None:
        """Cancel every open call, in whatever nursery it runs. Synchronous."""
        # A copy: a call that is cancelled may be closed, and leave the set, in the same step.
        for call in tuple(self.open):
            call.cancel("the channel has closed")
