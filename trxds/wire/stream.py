"""A client's stream: one attempt of one call, from its headers to its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from trxds.ground.metadata import EMPTY, Headers, Metadata
from trxds.ground.status import Status, StatusCode

from .events import Answered, DataReceived, ErrorCode, HeadersReceived
from .framing import LARGE, PREFIX_SIZE, frame, frame_large, only_message
from .message_stream import MessageStream
from .outgoing_frames import Octets
from .request import Request
from .response import reset_status
from .seat import Seat

if TYPE_CHECKING:
    from .connection import Connection


class ClientStream(MessageStream):
    """Made by `Connection.open_stream`; over when `status` is set.

    Messages that came before the status can still be received. Whoever drops a stream before
    it is over calls `cancel()`.
    """

    __slots__ = (
        "_headers_lot",
        "_reply",
        "_single",
        "initial_metadata",
        "opened_at",
        "refused",
        "request",
        "status",
        "trailers_only",
        "trailing_metadata",
        "whole",
    )

    _link: Connection

    def __init__(self, connection: Connection, request: Request) -> None:
        super().__init__(connection, request.max_receive_size)
        message = request.message
        self.whole: Octets = b""
        """All that the call has to say, if that is known and not large: it may leave with the headers."""
        if message is not None:
            if len(message) <= LARGE:
                self.whole = self._rest = frame(message)
            else:
                self._rest, self._later = frame_large(message)
            self._ending = True
        self.request = request
        self.status: Status | None = None
        self.trailers_only = False
        """The answer was a status and nothing else, in one header block."""
        self.refused = False
        """The server certainly did not process the call: it may be sent again elsewhere."""
        self.initial_metadata: Metadata | None = None
        """The metadata of the server's headers; None until they came, and for trailers-only answers."""
        self.trailing_metadata = EMPTY
        """The metadata that came with the status; empty before."""
        self.opened_at = 0.0
        """When its headers were sent, on Trio's clock; 0 before."""
        self._single = request.one_reply  # one message and the status; anything else is the server's mistake
        self._reply: bytes | None = None  # to that caller, if it came together with the status
        self._headers_lot: trio.lowlevel.ParkingLot | None = None

    def __repr__(self) -> str:
        where = f"{self.id}" if self.id else "unopened"
        return f"<ClientStream {where} {self.request.path} at {self.peer}: {self.status or 'open'}>"

    # -- opening

    @property
    def opened(self) -> bool:
        """Whether it has left the queue for a place among the server's concurrent streams."""
        return self.id != 0

    @property
    def left(self) -> bool:
        """Whether its headers were handed to the transport; otherwise the server cannot have seen them."""
        return 0 < self.id <= self._link.last_taken

    async def wait_open(self) -> bool:
        """Wait for that; False if the stream ended in the queue, with `refused` set or cancelled."""
        await self._wait_to_send(self._opened_or_over)
        return self.opened

    def _opened_or_over(self) -> bool:
        return self.id != 0 or self.status is not None

    def begin(self, stream_id: int, *, said: bool) -> None:
        """The connection sent the headers, and if `said` the whole request with them."""
        self.id = stream_id
        if self._rest:
            self._link.messages_sent += 1
            self._link.last_sent = self.opened_at
        self.whole = b""
        if said:
            self._rest, self.sending = b"", False
        elif self._rest or self._ending:
            self._link.push(self)

    def left_queue(self) -> None:
        """It had to wait before it began."""
        self._look_to_send()

    # -- the answer

    async def wait_headers(self) -> None:
        """Wait until the server's headers came or the stream is over."""
        if self.initial_metadata is None and self.status is None:
            if self._headers_lot is None:
                self._headers_lot = trio.lowlevel.ParkingLot()
            self._link.turns.call_reader()
            await self._headers_lot.park()
        else:
            await trio.lowlevel.checkpoint()

    async def receive_only(self) -> bytes | None:
        """The one message of a call whose server sends one, when its status came too.

        Its caller is woken when all of it is there, or reads it by itself (`turns.py`). None if the call failed;
        a second message, or OK without one, is the server's mistake: the status is `SECOND_REPLY` or `NO_REPLY`.
        Always a checkpoint.
        """
        self._single = self._hungry = True  # for good: of this stream nobody wants anything else
        if self._arrived.messages:
            self._check_single()
        if self._held:
            self._give_back()
        turns = self._link.turns
        if not (turns.lent and turns.guest is None and self.status is None and await turns.read_for(self)):
            if self._receiver is None:
                self._receiver = Seat()
            await self._receiver.wait(self._is_over)
        message = self.receive_nowait() if self._reply is None else self._reply
        if self.status is None or not self.status.ok:
            return None
        if message is None:
            self.status = NO_REPLY
        elif self._arrived.messages:
            self.status = SECOND_REPLY
            return None
        return message

    def _is_over(self) -> bool:
        return self.status is not None

    def _check_single(self) -> None:
        # Any byte of a second message will do: its end might never come, for want of window.
        first = self._arrived.messages[0]
        if self.status is None and self._arrived.buffered > PREFIX_SIZE + len(first):
            self._abort(SECOND_REPLY)

    # -- what the connection reads

    def accept(self, event: DataReceived) -> None:
        self._take_in(event)
        if self._single and self._arrived.messages:
            self._check_single()

    def accept_headers(self, event: HeadersReceived) -> None:
        """Take in a HEADERS frame: the server's headers, its trailers, or both in one."""
        if event.end:
            self.trailers_only = self.initial_metadata is None
            self._end(event.headers)
        else:
            self._accept_initial(event.headers)

    def _end(self, trailers: Headers) -> None:
        status, trailing = self._link.answers.trailers(trailers)
        if status.ok and not self._arrived.between_messages:
            status = Status(StatusCode.INTERNAL, "the server said OK in the middle of a message")
        elif status.ok and self._single and not self._arrived.messages:
            status = NO_REPLY
        self._finish(status, trailing)

    def accept_answer(self, event: Answered) -> None:
        """Take in headers, data and trailers in one."""
        self._accept_initial(event.headers)
        if self.status is not None:
            return
        self._reply = only_message(event.data, self._max_receive_size) if self._single else None
        if self._reply is not None:
            self._link.messages_received += 1
            self._link.last_received = self._link.last_read
            self._finish(*self._link.answers.trailers(event.trailers))
            return
        problem = self._arriving().feed(event.data)
        if problem is not None:
            return self.refuse(problem)
        if self._single and self._arrived.messages:
            self._check_single()
        if self.status is None:
            self._end(event.trailers)

    def _accept_initial(self, headers: Headers) -> None:
        problem, self.initial_metadata, encoding = self._link.answers.initial(headers)
        if problem is not None:
            return self._abort(problem)
        if encoding:
            self._arriving().encoding = encoding
        if self.request.on_headers is not None:
            self.request.on_headers()
        if self._headers_lot is not None:
            self._headers_lot.unpark_all()

    def peer_ended(self) -> None:
        self._finish(Status(StatusCode.UNKNOWN, "the server ended the call without a status"))

    def refuse(self, problem: Status) -> None:
        if self.status is None:
            self._abort(problem)
        else:
            self.status = problem  # it had ended the call well before anybody took the message that is none

    def was_reset(self, code: int) -> None:
        if code == ErrorCode.CANCEL and self.request.deadline <= trio.current_time():
            # The server's timer was a little faster than the caller's.
            status = Status(StatusCode.DEADLINE_EXCEEDED, "the server gave up at the deadline")
        else:
            status = reset_status(code)
        self._break(status, refused=code == ErrorCode.REFUSED_STREAM)

    def fail(self, status: Status, *, refused: bool = False) -> None:
        self._break(status, refused=refused)

    # -- the end

    def cancel(self, code: int = ErrorCode.CANCEL) -> None:
        """End the call now; after its end, let go of what it still holds. Plain and idempotent."""
        if self.status is None:
            self._abort(Status(StatusCode.CANCELLED, "cancelled by the client"), code)
        self._reply = None
        while self._arrived.messages:
            self._arrived.take()

    def _abort(self, status: Status, code: int = ErrorCode.CANCEL) -> None:
        if self.id:
            self._link.reset(self.id, code)
        self._break(status)

    def _break(self, status: Status, *, refused: bool = False) -> None:
        """It ends otherwise than by the server's last word."""
        if self.status is None and self.id:
            self._link.streams_broken += 1
        self._finish(status, refused=refused)

    def _finish(self, status: Status, trailing: Metadata = EMPTY, *, refused: bool = False) -> None:
        if self.status is not None:
            return
        if self.id and self.sending:
            # The server has said all; it does not want the rest of the request (RFC 9113 §8.1).
            self._link.reset(self.id, ErrorCode.NO_ERROR)
        self.request.on_headers = None  # which leads back to us: without it, no cycle is left to the collector
        self.status = status
        self.refused = refused
        self.trailing_metadata = trailing
        self.stop()
        if self._headers_lot is not None:
            self._headers_lot.unpark_all()
        self._link.forget(self)


# gRPC's statuscodes.md: a response cardinality violation is UNIMPLEMENTED, and said by the client.
NO_REPLY = Status(StatusCode.UNIMPLEMENTED, "the server said OK, but sent no message")
SECOND_REPLY = Status(StatusCode.UNIMPLEMENTED, "the server sent a second message where the method has one")
