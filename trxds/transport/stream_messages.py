"""The messages of one end of a stream: those it sends, until they leave, and those that come, until they are taken.

A message that is sent waits until the windows and the connection's buffer have room for it; then the connection's
`SendQueue` has it appended. No task of a stream touches the socket.

Where messages arrive, the subtle point is when the stream's window is opened again. Bytes of messages that the
application has not taken are held back, so a slow application bounds its own memory. But while it waits for a message
that is not complete, the bytes received so far are given back at once: otherwise a message larger than the window could
never arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import trio

from trxds.core.status import Status

from .compression import Compressed, decompress
from .events import DataReceived, Octets
from .framing import MAX_COPIED_MESSAGE, PREFIX_SIZE, Deframer, frame, frame_large
from .http2_connection import Http2Connection
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
