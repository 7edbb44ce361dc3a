"""A client's HTTP/2 stream carries one attempt of one call, from its headers to its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from trxds.core.metadata import EMPTY, Headers, Metadata
from trxds.core.observe import AttemptObserver
from trxds.core.status import CANCELLED, Status, StatusCode

from .compression import Compressed
from .events import DataReceived, ErrorCode, HeadersReceived, UnaryResponse
from .framing import frame
from .http2_connection import Http2Connection
from .inline_read import InlineReads
from .request import Request
from .response import NO_REPLY, NO_STATUS, SECOND_REPLY, ResponseHeaderParser, failed_status, rst_stream_status
from .stream_messages import IncomingMessages, OutgoingMessages
from .waiter import Waiter


class StreamOwner(Protocol):
    """The connection of a client's stream, as far as the stream knows it."""

    @property
    def http2(self) -> Http2Connection: ...

    @property
    def response_parser(self) -> ResponseHeaderParser: ...

    @property
    def inline_reads(self) -> InlineReads: ...

    @property
    def last_taken(self) -> int:
        """The identifier of the last stream whose headers were handed to the transport."""

    def forget(self, stream: ClientStream, *, broken: bool) -> None:
        """Remove a stream that has ended; `broken` unless the server's last frame ended it."""

    def on_identifiers_exhausted(self) -> None:
        """Open no more streams, because no stream identifier is left (RFC 9113 §5.1.1)."""


class ClientStream:
    """One attempt of a call, made by `Connection.open_stream`. It has ended when `status` is set.

    Messages that came before the status can still be received. A caller that drops a stream before it has ended calls
    `cancel()`.
    """

    __slots__ = (
        "_headers_lot",
        "_reply",
        "_waiter",
        "connection",
        "id",
        "incoming",
        "initial_metadata",
        "opened_at",
        "outgoing",
        "refused",
        "request",
        "status",
        "trailers_only",
        "trailing_metadata",
    )

    def __init__(self, connection: StreamOwner, request: Request) -> None:
        self.request = request
        self.id = 0  # until it is opened
        self.opened_at = 0.0
        """The time when its headers were sent, on Trio's clock; 0 before."""
        self.status: Status | None = None
        self.trailers_only = False
        """Whether the answer was only a status, in one header block (PROTOCOL-HTTP2, "Trailers-Only")."""
        self.refused = False
        """Whether the server certainly did not process the call, so that it may be sent again (A6)."""
        self.initial_metadata: Metadata | None = None
        """The metadata of the server's headers; None until they came, and for trailers-only answers."""
        self.trailing_metadata = EMPTY
        """The metadata that came with the status; empty before."""
        self.connection = connection
        # Most calls send and receive one message, each in one piece, and need neither half.
        self.outgoing = OutgoingMessages(connection.http2) if request.message is None else None
        """The sending half; None if the whole request leaves with the headers."""
        self.incoming: IncomingMessages | None = None
        """The receiving half; made when the first bytes come, or a task receives."""
        self._reply: bytes | None = None  # the single message, if it came together with the status
        self._waiter: Waiter | None = None  # of the task that waits for the opening, and then for the end
        self._headers_lot: trio.lowlevel.ParkingLot | None = None

    def __repr__(self) -> str:
        where = f"{self.id}" if self.id else "unopened"
        return f"<ClientStream {where} {self.request.path} at {self.peer}: {self.status or 'open'}>"

    @property
    def peer(self) -> str:
        """The address of the server."""
        return self.connection.http2.peer

    # -- opening

    @property
    def has_left(self) -> bool:
        """Whether its headers were handed to the transport; otherwise the server cannot have seen the call."""
        return 0 < self.id <= self.connection.last_taken

    async def wait_open(self) -> bool:
        """Wait until the stream is open; False if it ended in the queue, with `refused` set or cancelled."""
        if self.id or self.status is not None:
            await trio.lowlevel.checkpoint()
        waiter = self._waiter = self._waiter or Waiter()
        while not self.id and self.status is None:
            await waiter.park()
        return self.id != 0

    def move_to(self, connection: StreamOwner) -> None:
        """Belong to another connection to the host, which has room first (A105). Only while it waits in the queue."""
        self.connection = connection

    def begin(self, stream_id: int, now: float, *, complete: bool) -> None:
        """Note that the connection sent the headers, and if `complete` the whole request with them."""
        self.id, self.opened_at = stream_id, now
        request = self.request
        if self.incoming is not None:
            self.incoming.on_opened(self.connection.http2, stream_id)
        if self.outgoing is not None:
            self.outgoing.on_opened(self.connection.http2, stream_id)
        elif request.message is not None:
            if request.observer is not None:
                # Not earlier: in the queue the call may still move to another connection, which would count it again.
                _notify_sent(request.observer, request.message)
            if complete:
                counts = self.connection.http2.counts
                counts.messages_sent += 1
                counts.last_sent = now
            else:
                self.outgoing = OutgoingMessages(self.connection.http2, stream_id)
                self.outgoing.send_nowait(request.message, end=True)
        if self._waiter is not None:
            self._waiter.wake()

    # -- the request

    def send_nowait(self, message: bytes, *, end: bool = False) -> bool:
        """Hand over a message of any size; the connection sends it when windows and buffer allow.

        False if the stream has ended for sending. `trio.WouldBlock` while an earlier message waits.
        """
        taken = self.outgoing is not None and self.outgoing.send_nowait(message, end=end)
        if taken and self.request.observer is not None:
            _notify_sent(self.request.observer, message)
        return taken

    def send_many(self, messages: Sequence[bytes]) -> bool:
        """Send messages of bounded size behind those that wait, without waiting; later messages wait for them.

        False if the stream has ended for sending.
        """
        taken = self.outgoing is not None and self.outgoing.send_many(messages)
        if taken and self.request.observer is not None:
            for message in messages:
                _notify_sent(self.request.observer, message)
        return taken

    async def send(self, message: bytes, *, end: bool = False) -> bool:
        """Send a message; return when windows and buffer have taken all of it. Always a checkpoint.

        False if the stream ended first. A message whose send is cancelled still goes out whole,
        unless the stream is cancelled too: half a message would be no use to anyone.
        """
        outgoing = self.outgoing
        if outgoing is not None and outgoing.waits_for_room:
            await outgoing.wait_taken()
        else:
            await trio.lowlevel.checkpoint()
        try:
            if outgoing is None or not self.send_nowait(message, end=end):
                return False
        except trio.WouldBlock:
            raise trio.BusyResourceError("another task is sending; a call has one sender at a time") from None
        if outgoing.waits_for_room:
            await outgoing.wait_taken()
        # The stream may have ended right behind a message that went out whole.
        return not outgoing.was_cut

    def end(self) -> None:
        """End the client's half of the stream behind the messages sent so far. Idempotent."""
        if self.outgoing is not None:
            self.outgoing.end()

    # -- the answer

    async def wait_headers(self) -> None:
        """Wait until the server's headers have come or the stream has ended."""
        if self.initial_metadata is None and self.status is None:
            if self._headers_lot is None:
                self._headers_lot = trio.lowlevel.ParkingLot()
            # A leader returns only at the end of its own call, which may be long after these headers.
            self.connection.inline_reads.reclaim()
            await self._headers_lot.park()
        else:
            await trio.lowlevel.checkpoint()

    async def receive(self) -> bytes | None:
        """Return the next message; None when no more will come. Always a checkpoint."""
        await (self.incoming or self.make_incoming()).wait()
        return self.receive_nowait()

    def receive_nowait(self) -> bytes | None:
        """Return the next message if it is complete, otherwise None. Never a checkpoint."""
        incoming, observer = self.incoming, self.request.observer
        if incoming is None:
            return None
        # Before the message is taken: A66 also counts the compressed size.
        size = incoming.next_size if observer is not None else 0
        message = incoming.take()
        if isinstance(message, Status):
            self.refuse(message)
            return None
        if message is not None and observer is not None:
            observer.received(len(message), size)
        return message

    async def receive_unary(self) -> bytes | None:
        """Return the only message of the call once the status has come too; None if the call failed.

        The caller is woken once, when all of the answer is there, or reads it in its own task (`inline_read.py`). If
        the request has `one_reply`, a second message, or OK without one, is the server's mistake: the status is
        `SECOND_REPLY` or `NO_REPLY`. Always a checkpoint.
        """
        inline = self.connection.inline_reads
        if self.incoming is not None:
            self.incoming.read_on()  # for the rest of the stream, as no second message may come
        can_lead = inline.is_delegated and inline.leader is None and self.status is None
        if not (can_lead and await inline.read_as_leader(self)):
            if self.status is not None:
                await trio.lowlevel.checkpoint()
            waiter = self._waiter = self._waiter or Waiter()
            while self.status is None:
                await waiter.park()
        message = self._reply
        if message is None:
            message = self.receive_nowait()
        elif self.request.observer is not None:
            self.request.observer.received(len(message), len(message))
        if self.status is None or not self.status.ok:
            return None
        return message

    # -- what the connection reads

    def accept_answer(self, event: UnaryResponse) -> None:
        """Take in headers, data and trailers that came as one event."""
        self._accept_initial(event.headers)
        if self.status is not None:
            return
        if self.request.one_reply and len(event.message) <= self.request.max_receive_size:
            self._reply = event.message
            http2 = self.connection.http2
            http2.counts.messages_received += 1
            http2.counts.last_received = http2.reader.last_read
            status, trailing = self.connection.response_parser.trailers(event.trailers)
            if not status.ok:
                status = failed_status(status, event.trailers, deadline_passed=_is_past_deadline(self.request))
            return self._finish(status, trailing)
        (self.incoming or self.make_incoming()).is_open = False  # its end has come, so opening its window has no use
        data = frame(event.message)
        self.accept(DataReceived(event.stream_id, data, len(data), False))
        if self.status is None:
            self._accept_trailers(event.trailers)

    def accept_headers(self, event: HeadersReceived) -> None:
        """Take in a HEADERS frame: the server's headers, its trailers, or both in one."""
        # PROTOCOL-HTTP2: a status alone is one HEADERS frame with END_STREAM ("Trailers-Only").
        if event.end:
            self.trailers_only = self.initial_metadata is None
            self._accept_trailers(event.headers)
        else:
            self._accept_initial(event.headers)

    def accept(self, event: DataReceived) -> None:
        """Take in a DATA frame."""
        incoming = self.incoming or self.make_incoming()
        problem = incoming.accept(event)
        if problem is not None:
            self.refuse(problem)
        elif event.end:
            # PROTOCOL-HTTP2: a response ends with trailers, not with DATA.
            self._finish(failed_status(NO_STATUS, (), deadline_passed=_is_past_deadline(self.request)))
        elif self.request.one_reply and incoming.has_more_than_one:
            self.fail(SECOND_REPLY, reset=ErrorCode.CANCEL)

    def make_incoming(self) -> IncomingMessages:
        """Make the receiving half of the stream."""
        incoming = IncomingMessages(self.connection.http2, self.id, self.request.max_receive_size)
        self.incoming = incoming
        incoming.is_open = self.status is None
        # A unary call's caller may wait already, so a message larger than the window must not be held back.
        is_waiting = self._waiter is not None and self._waiter.is_parked
        incoming.is_reading = is_waiting or self.connection.inline_reads.leader is self
        return incoming

    def _accept_initial(self, headers: Headers) -> None:
        problem, self.initial_metadata, encoding = self.connection.response_parser.initial(headers)
        if problem is not None:
            problem = failed_status(problem, headers, deadline_passed=_is_past_deadline(self.request))
            return self.fail(problem, reset=ErrorCode.CANCEL)
        if encoding:
            (self.incoming or self.make_incoming()).deframer.encoding = encoding
        # A6: headers commit the call. A Trailers-Only answer does not: a retry policy may still repeat the call.
        if self.request.on_headers is not None:
            self.request.on_headers()
        if self._headers_lot is not None:
            self._headers_lot.unpark_all()

    def _accept_trailers(self, trailers: Headers) -> None:
        incoming = self.incoming
        status, trailing = self.connection.response_parser.trailers(trailers)
        if not status.ok:
            status = failed_status(status, trailers, deadline_passed=_is_past_deadline(self.request))
        elif incoming is not None and not incoming.deframer.between_messages:
            status = Status(StatusCode.INTERNAL, "the server said OK in the middle of a message")
        elif self.request.one_reply and (incoming is None or not incoming.deframer.messages):
            status = NO_REPLY
        self._finish(status, trailing)

    # -- the end

    def cancel(self) -> None:
        """End the call now; after its end, drop the messages that it still holds. Plain and idempotent."""
        if self.status is None:
            self.fail(CANCELLED, reset=ErrorCode.CANCEL)
        self._reply = None
        if self.incoming is not None:
            self.incoming.drop()

    def refuse(self, problem: Status) -> None:
        """End the call because the server sent something that cannot be part of it, or cannot be read."""
        if self.status is None:
            self.fail(problem, reset=ErrorCode.CANCEL)
        else:
            self.status = problem  # the status had come before the application took the invalid message

    def was_reset(self, code: int) -> None:
        """End the call because the server reset the stream."""
        is_past = _is_past_deadline(self.request)
        # grpc-java's server resets every stream after a GOAWAY that ends the connection, and the reason is there.
        status = rst_stream_status(code, deadline_passed=is_past, hint=self.connection.http2.loss_hint)
        self.fail(status, refused=code == ErrorCode.REFUSED_STREAM)

    def fail(self, status: Status, *, refused: bool = False, reset: int | None = None) -> None:
        """End the call with a status that is not from the server; `reset` is the code of a RST_STREAM to it, if any."""
        # A stream without an identifier is idle for the server, and must not be reset (RFC 9113 §6.4).
        if self.id and reset is not None:
            self.connection.http2.reset(self.id, reset)
        self._finish(status, refused=refused, broken=self.id != 0)

    def _finish(
        self, status: Status, trailing: Metadata = EMPTY, *, refused: bool = False, broken: bool = False
    ) -> None:
        if self.status is not None:
            return
        if self.outgoing is not None:
            if self.id and self.outgoing.is_open:
                # The answer is complete, so the server does not need the rest of the request (RFC 9113 §8.1).
                self.connection.http2.reset(self.id, ErrorCode.NO_ERROR)
            self.outgoing.stop()
        self.request.on_headers = None  # it refers to this stream: without that cycle no garbage collection is needed
        self.status = status
        self.refused = refused
        self.trailing_metadata = trailing
        if self.incoming is not None:
            self.incoming.stop()
        if self._waiter is not None:
            self._waiter.wake()
        if self._headers_lot is not None:
            self._headers_lot.unpark_all()
        self.connection.forget(self, broken=broken)


def _is_past_deadline(request: Request) -> bool:
    # The caller's own timer may not have fired yet.
    return request.deadline <= trio.current_time()


def _notify_sent(observer: AttemptObserver, message: bytes) -> None:
    observer.sent(message.original_size if isinstance(message, Compressed) else len(message), len(message))
