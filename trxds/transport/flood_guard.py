"""A peer that floods the connection with frames that carry nothing of a call is disconnected (RFC 9113 §10.5).

SETTINGS, PING, GOAWAY, PRIORITY, WINDOW_UPDATE, empty DATA, header blocks that are no answer, resets of closed streams,
and frames of unknown types cost their sender next to nothing. An honest peer sends most of them because of frames from
us: it gives back the windows that our data uses, and measures the round trip by PINGs while data comes. So each HEADERS
or DATA frame of ours earns the peer some, and each second earns it a few more, for an idle connection.

Envoy allows ten WINDOW_UPDATE for a DATA frame, nghttp2 a thousand resets at once, C-core and Go ten thousand frames
that wait for an answer, Jetty 128 such frames a second.
"""

from __future__ import annotations

EARNED_PER_FRAME = 10
"""The frames of overhead that each frame of ours earns the peer."""

SETTINGS_BYTES_PER_FRAME = 32 * 6
"""The bytes of SETTINGS that count as one more frame: 32 settings, which nghttp2 allows in a frame."""

# Earned frames are kept up to this many seconds of the rate.
_MAX_SAVED_SECONDS = 10


class FloodGuard:
    """A token bucket: the peer may send `rate` frames of overhead a second, and those that our frames earn it."""

    __slots__ = ("_capacity", "_frames_sent", "_tokens", "_updated_at", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._capacity = rate * _MAX_SAVED_SECONDS
        self._tokens = rate
        self._updated_at = 0.0
        self._frames_sent = 0

    def admits(self, overhead: int, frames_sent: int, now: float) -> bool:
        """Return whether `overhead` more frames are still no flood; `frames_sent` counts all frames of ours so far."""
        left = self._tokens
        # Time refills only up to one second of the rate; what our frames earned above it stays.
        if left < self.rate:
            left = min(self.rate, left + (now - self._updated_at) * self.rate)
        earned = (frames_sent - self._frames_sent) * EARNED_PER_FRAME
        self._tokens = min(left + earned, self._capacity) - overhead
        self._updated_at, self._frames_sent = now, frames_sent
        return self._tokens >= 0
