"""The messages that arrive on a stream, until the application takes them.

The subtle point is when the stream's window is opened again. Bytes of messages that the application has not taken are
held back, so a slow application bounds its own memory. But while it waits for a message that is not complete, the bytes
received so far are given back at once: otherwise a message larger than the window could never arrive.
"""

from __future__ import annotations

from typing import cast

from trxds.core.status import Status

from .compression import Compressed, decompress
from .events import DataReceived
from .framing import PREFIX_SIZE, Deframer
from .http2_connection import Http2Connection
from .waiter import Waiter


class IncomingMessages:
    """The receiving half of a stream. One task may receive at a time."""

    __slots__ = ("_buffered", "_http2", "_unacked_bytes", "_waiter", "deframer", "id", "is_open", "is_reading")

    def __init__(self, http2: Http2Connection, stream_id: int, max_size: int) -> None:
        self.id = stream_id
        self.is_open = True
        """Whether the peer may send more data."""
        self.is_reading = False
        """Whether the application waits for a message."""
        self.deframer = Deframer(max_size)
        self._http2 = http2
        self._buffered = 0  # bytes held back until messages are taken
        self._unacked_bytes = 0  # bytes to give back as soon as they are worth a frame
        self._waiter: Waiter | None = None

    def on_opened(self, http2: Http2Connection, stream_id: int) -> None:
        """Receive on the connection on which the stream was opened, which may be another one (A105)."""
        self._http2, self.id = http2, stream_id

    def take(self) -> bytes | Status | None:
        """Return the next message if it is complete; a `Status` if it cannot be decompressed, which ends the messages.

        Never a checkpoint.
        """
        deframer = self.deframer
        message = deframer.take()
        if message is None:
            return None
        http2 = self._http2
        counts = http2.counts
        counts.messages_received += 1
        counts.last_received = http2.reader.last_read  # cheaper than the clock
        # With less to give back the window stays as it is, so most messages need not ask.
        if self._buffered + self._unacked_bytes - deframer.buffered >= http2.flow.stream_threshold:
            self._open_window()
        if message.__class__ is Compressed:
            return self._decompress(message)
        return message

    def _decompress(self, message: bytes) -> bytes | Status:
        whole = decompress(cast(Compressed, message), self.deframer.encoding, self.deframer.max_size)
        if isinstance(whole, Status):
            self.drop()  # messages behind an unreadable one are not delivered
        return whole

    def drop(self) -> None:
        """Drop the messages that wait."""
        while self.deframer.take() is not None:
            pass

    @property
    def next_size(self) -> int:
        """The size of the next message as it came, compressed or not; 0 if there is none."""
        return len(self.deframer.messages[0]) if self.deframer.messages else 0

    @property
    def has_more_than_one(self) -> bool:
        """Whether any byte of a second message has come, behind a complete first one."""
        # One byte is enough: without window, the rest of the second message might never come.
        messages = self.deframer.messages
        return bool(messages) and self.deframer.buffered > PREFIX_SIZE + len(messages[0])

    async def wait(self) -> None:
        """Wait for a message or the end of the messages. Always a checkpoint."""
        self.read_on()
        waiter = self._waiter = self._waiter or Waiter()
        try:
            await waiter.wait(self._has_message_or_end)
        finally:
            self.is_reading = False

    def read_on(self) -> None:
        """Note that the application waits for a message, and open the window for the rest of it."""
        self.is_reading = True
        if self._buffered + self._unacked_bytes >= self._http2.flow.stream_threshold:
            self._open_window()

    def _has_message_or_end(self) -> bool:
        return bool(self.deframer.messages) or not self.is_open

    # -- the connection's side

    def accept(self, event: DataReceived) -> Status | None:
        """Take in a DATA frame; a `Status` says why it cannot be part of a message."""
        problem = self.deframer.feed(event.data)
        if problem is not None:
            return problem
        if not event.end:  # after the end the peer needs no window
            size = len(event.data)
            self._buffered += size
            self._unacked_bytes += event.flow_length - size  # padding is never held back
            if self._buffered + self._unacked_bytes >= self._http2.flow.stream_threshold:  # less is not worth a frame
                self._open_window()
        if self._waiter is not None:
            self._waiter.wake_if()
        return None

    def stop(self) -> None:
        """End the peer's half; complete messages stay."""
        self.is_open = False
        if self._waiter is not None:
            self._waiter.wake_if()

    def _open_window(self) -> None:
        # A message larger than the window could never be completed if the bytes received so far were held back.
        kept = 0 if self.is_reading and not self.deframer.messages else self.deframer.buffered
        if self._buffered > kept:
            self._unacked_bytes += self._buffered - kept
            self._buffered = kept
        if self.is_open and self._unacked_bytes >= self._http2.flow.stream_threshold:
            self._http2.open_stream_window(self.id, self._unacked_bytes)
            self._unacked_bytes = 0
