"""The window that keeps the path to the peer full is its bandwidth-delay product, which is measured here.

With a smaller window a large message waits for one round trip after the other; a larger one for all streams from the
beginning would let every slow reader hold as much. So windows begin small and are measured as in gRPC's other clients:
the bytes that arrive between a PING and its answer were on their way in that time. If they are near the window, and
came faster than ever, then the window was the limit.

Nothing is measured before a good part of a window has come on one stream, so small RPCs send no PING.

A peer that fills its window stops until it hears of us, so its bytes come in bursts, a round trip apart. The answer to
a PING comes just before the next burst. So the whole burst counts in which the PING left: counted from its middle, a
full window would look half empty, time after time.
"""

from __future__ import annotations

import math

from msgspec import Struct

_MAX_SKIPS = 63
# The part of a round trip in which bytes belong to one burst.
_BURST_FRACTION = 1 / 8
# The best bandwidth decays with each sample: one that was too good by chance must not stand for ever.
_DECAY = 0.9


class WindowEstimate(Struct, eq=False):
    """The estimated window. `window` is the bytes that a stream may be sent ahead; it grows up to `max_window`."""

    window: int
    max_window: int
    _bandwidth: float = 0.0  # the best so far, in bytes a second
    ping_sent_at: float | None = None  # the time when the unanswered PING was sent
    _received: int = 0  # the bytes before the burst in which the PING left
    _burst: tuple[int, float] = (0, -math.inf)  # the bytes before the present burst, and when it began
    _round_trip: float = math.inf  # the shortest so far, in seconds
    _skips: int = 0
    _skips_left: int = 0

    def begin_sample(self, received: int, now: float) -> bool:
        """Return whether to send a PING, after a good part of a window has come.

        `received` counts all bytes before that.
        """
        if self._round_trip == math.inf or now - self._burst[1] > self._round_trip * _BURST_FRACTION:
            self._burst = (received, now)
        if self.ping_sent_at is not None or self.window >= self.max_window:
            return False
        if self._skips_left:
            self._skips_left -= 1
            return False
        self.ping_sent_at, self._received = now, self._burst[0]
        return True

    def end_sample(self, received: int, now: float) -> bool:
        """Return whether `window` has grown, now that the PING was answered."""
        if self.ping_sent_at is None:
            return False
        sample, seconds = received - self._received, max(now - self.ping_sent_at, 1e-6)
        self.ping_sent_at = None
        self._round_trip = min(self._round_trip, seconds)
        bandwidth, best = sample / seconds, self._bandwidth
        self._bandwidth = max(bandwidth, _DECAY * best)
        # As in grpc-go's estimator: it grows only if two thirds of the window came, faster than before.
        if bandwidth < best or sample * 3 < self.window * 2:
            # After samples without growth PINGs get rarer, because servers count them (A8).
            self._skips_left = self._skips = min(2 * self._skips + 1, _MAX_SKIPS)
            return False
        self._skips = 0
        self.window = min(2 * sample, self.max_window)
        return True
