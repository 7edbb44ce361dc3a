"""The flow control of received data: when the peer's windows are opened again, and how far (RFC 9113 §5.2, §6.9).

The connection's window is opened again as bytes arrive, so a stream that the application does not read never delays the
others. `IncomingMessages` decides when a stream's own window is opened; `WindowEstimate` measures how large it should
be.
"""

from __future__ import annotations

import trio

from .engine import Http2Engine
from .options import WireOptions
from .window_estimate import WindowEstimate

BDP_PING = b"how far?"


class FlowControl:
    """The receive windows of one connection."""

    def __init__(self, engine: Http2Engine, options: WireOptions) -> None:
        self.stream_threshold = options.stream_window // 2
        """The least that a stream's window is opened by. The peer has the other half to send meanwhile."""
        self._engine = engine
        self._connection_window = options.connection_window
        # A quarter of the window, because an engine keeps back up to a half for streams that have ended.
        self._threshold = options.connection_window // 4
        self._unacked_bytes = 0
        self._total_acked = 0  # bytes of the connection's window given back so far
        self._estimate = WindowEstimate(options.stream_window, options.max_stream_window)

    def is_measuring(self) -> bool:
        """Return whether a PING that measures the round trip is unanswered."""
        return self._estimate.ping_sent_at is not None

    def count_received(self, size: int) -> None:
        """Count bytes of DATA that have come on any stream, and open the connection's window again."""
        self._unacked_bytes += size
        # A WINDOW_UPDATE for each DATA frame would be a write for each, and a flood to some peers (RFC 9113 §10.5).
        if self._unacked_bytes >= self._threshold:
            self._engine.increment_window(0, self._unacked_bytes)
            self._total_acked += self._unacked_bytes
            self._unacked_bytes = 0

    def open_stream_window(self, stream_id: int, size: int) -> None:
        """Let the peer send `size` more bytes on a stream, and measure the round trip if it is time to."""
        self._engine.increment_window(stream_id, size)
        # The estimate counts from before this window: a server that was at its end has sent all of it by now.
        if self._estimate.begin_sample(self._total_acked + self._unacked_bytes - size, trio.current_time()):
            self._engine.ping(BDP_PING)

    def ping_acked(self, payload: bytes) -> None:
        """Widen all windows if the answer shows that they slowed the peer down."""
        if payload != BDP_PING:
            return
        estimate = self._estimate
        if estimate.end_sample(self._total_acked + self._unacked_bytes, trio.current_time()):
            # The connection's window is at least two streams wide: a stream that fills its own leaves half to others.
            self._engine.update_initial_window(estimate.window)
            self.stream_threshold = estimate.window // 2
            if 2 * estimate.window > self._connection_window:
                self._engine.increment_window(0, 2 * estimate.window - self._connection_window)
                self._connection_window = 2 * estimate.window
