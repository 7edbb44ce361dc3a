"""When a peer says too much that says nothing: frames that belong to no call, or change nothing of one.

SETTINGS, PING, GOAWAY, PRIORITY, WINDOW_UPDATE, empty DATA, header blocks that are no answer, resets of streams that
are closed, and frames of unknown kinds cost their sender next to nothing. An honest peer has reasons for them, and all
of those but a few are in what we send: it gives back the windows that our data uses, and measures how far we are by
PINGs while data comes. So each frame of headers or data that we send earns the peer some, and it has some more
each second, of which an idle connection needs none.

Envoy allows ten WINDOW_UPDATE for a DATA frame, nghttp2 a thousand resets at once, C-core and Go ten thousand frames
that wait for an answer, Jetty 128 such frames a second.
"""

from __future__ import annotations

EARNED = 10
"""Frames of overhead, for each frame of ours."""

MANY_SETTINGS = 32 * 6
"""So many bytes of SETTINGS count as a frame more; nghttp2 allows no more than 32 settings in one."""

_MOST_SECONDS = 10  # what is earned is kept up to the rate times this


class FloodGuard:
    """Lets a peer have `rate` frames of overhead a second, and those that our frames earn it: a token bucket."""

    __slots__ = ("_at", "_frames_sent", "_left", "_most", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._most = rate * _MOST_SECONDS
        self._left = rate
        self._at = 0.0
        self._frames_sent = 0

    def admits(self, overhead: int, frames_sent: int, now: float) -> bool:
        """Whether so many more frames are still no flood; `frames_sent` are all of ours so far."""
        left = self._left
        if left < self.rate:
            left = min(self.rate, left + (now - self._at) * self.rate)
        earned = (frames_sent - self._frames_sent) * EARNED
        self._left = min(left + earned, self._most) - overhead
        self._at, self._frames_sent = now, frames_sent
        return self._left >= 0
