"""The messages that one end of a stream sends.

A message waits here until the windows and the connection's buffer have room for it; then the connection's `SendQueue`
has it appended. No task of a stream touches the socket.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from .framing import MAX_COPIED_MESSAGE, frame, frame_large
from .http2_connection import Http2Connection
from .outgoing_frames import Octets
from .waiter import Waiter

_NOTHING = b""


class OutgoingMessages:
    """The sending half of a stream. One task may send at a time."""

    __slots__ = ("_http2", "_is_ending", "_uncounted", "_unsent", "_unsent_tail", "_waiter", "id", "is_open", "was_cut")

    def __init__(self, http2: Http2Connection, stream_id: int = 0) -> None:
        self.id = stream_id
        """The stream's identifier; 0 until it is opened, while messages wait."""
        self.is_open = True
        """Whether our half of the stream has not ended."""
        self.was_cut = False
        """Whether the stream ended before all messages that were handed over had gone out."""
        self._http2 = http2
        self._unsent: Octets = _NOTHING  # unsent bytes of the present message
        self._unsent_tail: Octets = _NOTHING  # the uncopied part of a large message, behind those
        self._uncounted = 0  # messages that were handed over before the stream was opened
        self._is_ending = False  # whether our half ends behind them, or has ended so
        self._waiter: Waiter | None = None

    def send_nowait(self, message: bytes, *, end: bool = False) -> bool:
        """Hand over a message of any size; False if the stream has ended for sending.

        `trio.WouldBlock` while an earlier message waits.
        """
        if self._is_ending or not self.is_open:
            return False
        if self._unsent:
            raise trio.WouldBlock
        if len(message) <= MAX_COPIED_MESSAGE:
            self._unsent = frame(message)
        else:
            self._unsent, self._unsent_tail = frame_large(message)
        self._is_ending = end
        if self.id:
            self._http2.counts.count_sent(1)
        else:  # it may still move to another connection
            self._uncounted += 1
        self._http2.push(self)
        return True

    def send_many(self, messages: Sequence[bytes]) -> bool:
        """Send messages of bounded size behind those that wait, without waiting; later messages wait for them."""
        if self._is_ending or not self.is_open:
            return False
        if messages:
            self._unsent = b"".join((self._unsent, self._unsent_tail, *map(frame, messages)))
            self._unsent_tail = _NOTHING
            if self.id:
                self._http2.counts.count_sent(len(messages))
            else:
                self._uncounted += len(messages)
            self._http2.push(self)
        return True

    async def wait_taken(self) -> None:
        """Wait until windows and buffer have taken all messages that were handed over. Always a checkpoint."""
        waiter = self._waiter = self._waiter or Waiter()
        await waiter.wait(self._is_taken)

    def end(self) -> None:
        """End our half of the stream behind the messages sent so far. Idempotent."""
        if self.is_open:
            self._is_ending = True
            self._http2.push(self)

    def on_opened(self, http2: Http2Connection, stream_id: int) -> None:
        """Send the messages that waited for the stream's headers to leave, maybe on another connection (A105)."""
        self._http2, self.id = http2, stream_id
        if self._uncounted:
            http2.counts.count_sent(self._uncounted)
        if self._unsent or self._is_ending:
            self._http2.push(self)

    def stop(self) -> None:
        """End our half now; messages that wait are dropped."""
        self.is_open = self._is_ending = False
        # The rest of a message that has partly left is useless, because the stream is reset.
        if self._unsent:
            self.was_cut = True
            self._http2.send_queue.forget(self)
            self._unsent = self._unsent_tail = _NOTHING
        if self._waiter is not None:
            self._waiter.wake_if()

    # -- the connection's side

    @property
    def waits_for_room(self) -> bool:
        return bool(self._unsent)

    def push(self, limit: int) -> None:
        """Append at most `limit` bytes of the unsent message to the connection's buffer."""
        written = self._http2.engine.write(
            self.id, self._unsent, end=self._is_ending and not self._unsent_tail, limit=limit
        )
        # A small message is bytes, and this slice copies it: it is cut so seldom that a memoryview costs more.
        self._unsent = self._unsent[written:] if written < len(self._unsent) else _NOTHING
        if not self._unsent and self._unsent_tail:
            self._unsent, self._unsent_tail = self._unsent_tail, _NOTHING
        elif not self._unsent:
            self.is_open = not self._is_ending
            if self._waiter is not None:
                self._waiter.wake_if()

    def _is_taken(self) -> bool:
        return not self._unsent
