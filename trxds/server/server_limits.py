"""One client must not cost the others too much: the limits of a server, and the budget for streams that are reset.

Rapid reset (CVE-2023-44487): a stream that is opened and reset at once is no longer counted as open, but its request
has been read and its handler begun. MadeYouReset (CVE-2025-8671): the same, but the client breaks a rule, so that the
server resets. Both cost the budget. nghttp2 allows 1000 resets at once and 33 a second; Envoy ends a connection when
more than half of its streams are reset early. Here a call that was served pays for one that was reset, so a client that
hedges, or whose deadlines are short, may go on for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits on one client of a server. Times are in seconds; `math.inf` means no limit, where that is allowed."""

    handshake_timeout: float = 10.0
    """The seconds for the TLS handshake."""

    preface_timeout: float = 10.0
    """The seconds until the client's preface and SETTINGS have come, after the TLS handshake."""

    max_pending_connections: float = 256
    """The connections that may not have sent their preface, and those that may have sent no request since. A
    further one closes the oldest. Connections that have sent a request do not count: an idle client is healthy."""

    max_resets: float = 1000
    """The calls of one connection that may be reset before they are answered, or refused, at once. One more ends the
    connection with ENHANCE_YOUR_CALM."""

    resets_per_second: float = 33
    """The resets that are forgiven in a second. Each call that is served pays for one more."""

    def __post_init__(self) -> None:
        for name in ("handshake_timeout", "preface_timeout", "max_pending_connections", "max_resets"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be above 0")
        if not 0 <= self.resets_per_second < math.inf:
            raise ValueError(f"resets_per_second is {self.resets_per_second!r}; it must be 0 or above, and finite")


class ResetBudget:
    """A token bucket of one connection: `burst` resets at once, `rate` in a second."""

    __slots__ = ("_burst", "_rate", "_tokens", "_updated_at")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst = self._tokens = burst
        self._rate = rate
        self._updated_at = now

    def spend(self, now: float) -> bool:
        """Pay for a call that was reset; False if the budget is used up."""
        self._tokens = min(self._burst, self._tokens + (now - self._updated_at) * self._rate) - 1
        self._updated_at = now
        return self._tokens >= 0

    def earn(self) -> None:
        """Add to the budget for a call that was served."""
        self._tokens = min(self._burst, self._tokens + 1)
