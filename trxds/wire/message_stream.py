"""Messages both ways over one HTTP/2 stream; the same at a client and at a server.

One task may send while another receives. Neither touches the socket: what is sent waits here
until windows and the connection's buffer have room (the connection comes for it), and what
arrives waits here until it is taken.

When a stream's window is given back is the one subtle thing. Bytes of messages that nobody has
taken are held back, so a slow application bounds its own memory. But while it waits for a message
that is not complete, what has come of it is given back at once: otherwise a message larger
than the window could never arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import trio

from trxds.ground.status import Status

from .compression import Compressed, decompress
from .events import DataReceived
from .framing import LARGE, NOTHING_ARRIVED, Deframer, frame, frame_large
from .http2_connection import Http2Connection
from .outgoing_frames import Octets
from .waiter import Waiter

_NOTHING = b""


class Link(Protocol):
    """The connection of a stream."""

    @property
    def http2(self) -> Http2Connection: ...


class MessageStream(ABC):
    """What a client's stream and a server's call have in common."""

    __slots__ = (
        "_arrived",
        "_ending",
        "_held",
        "_hungry",
        "_later",
        "_link",
        "_max_receive_size",
        "_owed",
        "_receiver",
        "_rest",
        "_sender",
        "id",
        "is_queued",
        "receiving",
        "sending",
    )

    def __init__(self, link: Link, max_receive_size: int) -> None:
        self._link = link
        self.id = 0  # until it is opened
        self.sending = True  # our half has not ended
        self.receiving = True  # the peer's half has not ended
        self.is_queued = False  # the connection comes for the rest when there is room
        self._rest: Octets = _NOTHING  # of the message being sent
        self._later: Octets = _NOTHING  # what of a large one comes after that
        self._ending = False  # our half ends after the rest, or has so ended
        self._sender: Waiter | None = None  # made for the first that waits; most calls say at once all they have to say
        self._receiver: Waiter | None = None
        self._max_receive_size = max_receive_size
        self._arrived = NOTHING_ARRIVED
        self._held = 0  # bytes of window to give back when messages are taken
        self._owed = 0  # bytes of window to give back as soon as they are worth a frame
        self._hungry = False  # the application waits for a message

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self._link.http2.peer

    # -- sending

    def send_nowait(self, message: bytes, *, end: bool = False) -> bool:
        """Hand over a message of any size; the connection sends it as there is room.

        False if the stream has ended for sending. `trio.WouldBlock` while an earlier message waits.
        """
        if self._ending or not self.sending:
            return False
        if self._rest:
            raise trio.WouldBlock
        if len(message) <= LARGE:
            self._rest = frame(message)
        else:
            self._rest, self._later = frame_large(message)
        self._ending = end
        if self.id:  # otherwise it counts when the stream opens
            self._link.http2.counts.sent(1)
        self._link.http2.push(self)
        return True

    def say(self, messages: Sequence[bytes]) -> None:
        """Hand over messages of bounded size at once, behind what waits already; what is sent later waits for them."""
        if self.sending and not self._ending and messages:
            self._rest = b"".join((self._rest, self._later, *map(frame, messages)))
            self._later = _NOTHING
            self._link.http2.counts.sent(len(messages))
            self._link.http2.push(self)

    async def send(self, message: bytes, *, end: bool = False) -> bool:
        """Send a message; returns when windows and buffer have taken all of it. Always a checkpoint.

        False if the stream ended first. A message whose send is cancelled still goes out whole,
        unless the stream is cancelled too: half a message would be no use to anyone.
        """
        await self._wait_to_send(self._rest_taken)
        if not self.send_nowait(message, end=end):
            return False
        if self._rest:
            await self._wait_to_send(self._rest_taken)
        return self.sending or self._ending

    def end(self) -> None:
        """End our half, after what was sent. Idempotent."""
        if self.sending and not self._ending:
            self._ending = True
            self._link.http2.push(self)

    def _rest_taken(self) -> bool:
        return not self._rest

    async def _wait_to_send(self, until: Callable[[], bool]) -> None:
        if self._sender is None:
            self._sender = Waiter()
        await self._sender.wait(until)

    def _look_to_send(self) -> None:
        if self._sender is not None:
            self._sender.wake_if()

    # -- the connection's side of sending

    @property
    def outgoing(self) -> MessageStream:
        """Itself: it is both halves."""
        return self

    @property
    def waits_for_room(self) -> bool:
        return bool(self._rest)

    def push(self, limit: int) -> None:
        """Append at most `limit` bytes of the rest to the connection's buffer."""
        written = self._link.http2.engine.write(self.id, self._rest, end=self._ending and not self._later, limit=limit)
        # What is not large may be bytes: cut off seldom enough to be copied then.
        self._rest = self._rest[written:] if written < len(self._rest) else _NOTHING
        if not self._rest and self._later:
            self._rest, self._later = self._later, _NOTHING
        elif not self._rest:
            self.sending = not self._ending
            self._look_to_send()

    # -- receiving

    def receive_nowait(self) -> bytes | None:
        """The next message if it has come whole. Never a checkpoint."""
        message = self._arrived.take()
        if message is not None:
            http2 = self._link.http2
            http2.counts.messages_received += 1
            http2.counts.last_received = http2.reader.last_read  # no clock is asked for it
            if self.receiving:
                self._give_back()
            if message.__class__ is Compressed:
                return self._decompressed(message)
        return message

    def _decompressed(self, message: bytes) -> bytes | None:
        whole = decompress(cast(Compressed, message), self._arrived.encoding, self._arrived.max_size)
        if isinstance(whole, Status):
            self.refuse(whole)
            while self._arrived.take() is not None:
                pass  # nobody shall see what comes after it
            return None
        return whole

    async def receive(self) -> bytes | None:
        """The next message; None when no more will come. Always a checkpoint."""
        await self._wait_hungrily(self._message_or_end)
        return self.receive_nowait()

    async def _wait_hungrily(self, until: Callable[[], bool]) -> None:
        self._hungry = True
        if self._held:
            self._give_back()
        if self._receiver is None:
            self._receiver = Waiter()
        try:
            await self._receiver.wait(until)
        finally:
            self._hungry = False

    def _message_or_end(self) -> bool:
        return bool(self._arrived.messages) or not self.receiving

    # -- the connection's side of receiving

    def accept(self, event: DataReceived) -> None:
        """Take in a DATA frame."""
        self._take_in(event)

    def _take_in(self, event: DataReceived) -> None:
        if not self.receiving:
            return
        problem = self._arriving().feed(event.data)
        if problem is not None:
            self.refuse(problem)
        elif event.end:
            self.peer_ended()
        else:
            size = len(event.data)
            self._held += size
            self._owed += event.flow_length - size  # padding
            if self._held + self._owed >= self._link.http2.flow.stream_threshold:  # otherwise nothing would come of it
                self._give_back()
        self._look_to_receive()

    def _look_to_receive(self) -> None:
        if self._receiver is not None:
            self._receiver.wake_if()

    def _arriving(self) -> Deframer:
        """Takes in what arrives; made for the first bytes."""
        if self._arrived is NOTHING_ARRIVED:
            self._arrived = Deframer(self._max_receive_size)
        return self._arrived

    def _give_back(self) -> None:
        kept = 0 if self._hungry and not self._arrived.messages else self._arrived.buffered
        if self._held > kept:
            self._owed += self._held - kept
            self._held = kept
        if self.receiving and self._owed >= self._link.http2.flow.stream_threshold:
            self._link.http2.open_stream_window(self.id, self._owed)
            self._owed = 0

    def stop(self) -> None:
        """Both halves end now, and what waits to be sent is dropped; messages that came stay."""
        self.sending = self.receiving = self._ending = False
        if self._rest:
            self._link.http2.send_queue.forget(self)
            self._rest = self._later = _NOTHING
        if self._sender is not None:
            self._sender.wake_if()
        if self._receiver is not None:
            self._receiver.wake_if()

    @abstractmethod
    def peer_ended(self) -> None:
        """The peer's half ended with a DATA frame."""

    @abstractmethod
    def refuse(self, problem: Status) -> None:
        """The peer sent what cannot be a message."""

    @abstractmethod
    def was_reset(self, code: int) -> None:
        """The peer ended the stream at once."""

    @abstractmethod
    def fail(self, status: Status) -> None:
        """The connection is over."""
