"""One call as a server's handler sees it.

A handler is `async def handler(call: Call) -> None`: it iterates over the call for requests, sends replies, and returns
for OK. It is cancelled when the client cancels, its deadline passes or the connection is lost.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NoReturn, TypeAlias

import trio

from trxds.core.error_text import error_in
from trxds.core.metadata import (
    EMPTY,
    Headers,
    Metadata,
    Value,
    check,
    decode,
    encode,
    encode_message,
    find,
)
from trxds.core.status import OK, Status, StatusCode
from trxds.transport.compression import (
    ACCEPTED,
    IDENTITY,
    compress,
    describe_encoding,
    is_known_encoding,
    parse_encoding,
)
from trxds.transport.content_type import content_subtype
from trxds.transport.events import DataReceived, ErrorCode, code_name
from trxds.transport.grpc_timeout import decode_timeout
from trxds.transport.stream_messages import IncomingMessages, OutgoingMessages

from .reply_type import ReplyTypeError, reply_bytes
from .stream_owner import StreamOwner

Handler: TypeAlias = Callable[["Call"], Awaitable[None]]
"""An async function of one `Call`; `unary` and its like make one from a simpler function."""

_log = logging.getLogger("trxds.server")


class Abort(Exception):
    """Ends the handler with a status. Raised by `Call.abort`."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class Call:
    """One call at the server: the client's request, and methods to answer it.

    `path`, `metadata` and `peer` are the client's; `timeout` is its timeout in seconds, or None; `deadline` is on
    Trio's clock. `status` is how the call ended, None while it has not.
    """

    def __init__(self, connection: StreamOwner, stream_id: int, headers: Headers) -> None:
        self._connection = connection
        self.id = stream_id
        self.outgoing = OutgoingMessages(connection.http2, stream_id)
        self.incoming = IncomingMessages(connection.http2, stream_id, connection.max_receive_size)
        # Latin-1 keeps every byte of a field's value.
        self.path = (find(headers, b":path") or b"").decode("latin-1")
        self.scheme = (find(headers, b":scheme") or b"").decode("latin-1")
        self.authority = (find(headers, b":authority") or b"").decode("latin-1")
        self.metadata = decode(headers)
        self._headers = headers
        timeout = find(headers, b"grpc-timeout")
        self.timeout = decode_timeout(timeout) if timeout is not None else None
        self.status: Status | None = None
        encoding = find(headers, b"grpc-encoding") or IDENTITY.encode()
        self.incoming.deframer.encoding = encoding.decode("latin-1")
        self._encoding = ""  # that our messages are compressed with
        self._trailing: Metadata = EMPTY
        self._headers_sent = False
        # A timeout instead of a time is sent because clocks differ; it runs from the moment the headers were read.
        deadline = math.inf if self.timeout is None else trio.current_time() + self.timeout
        self._scope = trio.CancelScope(deadline=deadline)

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._connection.http2.peer

    @property
    def deadline(self) -> float:
        """The time when the client expects the end of the call, on Trio's clock; `inf` without a timeout."""
        return self._scope.deadline

    @property
    def unreadable(self) -> Status | None:
        """The status of a call whose messages are compressed by an unknown encoding; None if they can be read."""
        encoding = self.incoming.deframer.encoding
        if encoding == IDENTITY or is_known_encoding(encoding):
            return None
        return Status(
            StatusCode.UNIMPLEMENTED, f"grpc-encoding {describe_encoding(encoding)} is unknown; use {ACCEPTED.decode()}"
        )

    @property
    def content_subtype(self) -> str:
        """The client's message format ("proto", "json"), empty if it names none."""
        return content_subtype(find(self._headers, b"content-type")) or ""

    @property
    def has_all(self) -> bool:
        """Whether all messages of the client have come and were taken."""
        return not self.incoming.is_open and not self.incoming.deframer.messages

    def __repr__(self) -> str:
        return f"<Call {self.path} from {self.peer}: {self.status or 'open'}>"

    # -- for handlers

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        message = await self.receive()
        if message is None:
            # A reset call must not look like one that ended: its handler is cancelled here.
            await trio.lowlevel.checkpoint_if_cancelled()
            raise StopAsyncIteration
        return message

    async def send_initial_metadata(self, metadata: Iterable[tuple[str, Value]] = ()) -> None:
        """Send the headers now; otherwise they go with the first message. Always a checkpoint.

        `RuntimeError` for metadata after that, which would be lost.
        """
        checked = check(metadata)
        if checked and self._headers_sent:
            raise RuntimeError("the initial metadata was sent, by the first message at the latest; send it before that")
        self._send_headers(checked)
        await trio.lowlevel.checkpoint()

    def compress_with(self, encoding: str) -> None:
        """Compress all later messages, if the client accepts the encoding. Call it before the headers are sent."""
        accepts = (find(self._headers, b"grpc-accept-encoding") or b"").decode("latin-1").replace(" ", "").split(",")
        # compression.md: a server must not use an encoding that the client does not accept.
        self._encoding = parse_encoding(encoding) if encoding in accepts else ""

    def set_trailing_metadata(self, metadata: Iterable[tuple[str, Value]]) -> None:
        """Set the metadata that is sent with the status."""
        self._trailing = check(metadata)

    def send_nowait(self, message: bytes, *, end: bool = False) -> bool:
        """Hand over a message of any size; False if the call is over. `trio.WouldBlock` while an earlier one waits.

        `TypeError` if it is not bytes.
        """
        message = reply_bytes(self.path, message)
        if not self._headers_sent and self.outgoing.is_open:
            self._send_headers(EMPTY)
        return self.outgoing.send_nowait(compress(message, self._encoding) if self._encoding else message, end=end)

    async def send(self, message: bytes, *, end: bool = False) -> bool:
        """Send a message; return when windows and buffer have taken all of it. False if the call ended first.

        Always a checkpoint.
        """
        await self.outgoing.wait_taken()
        if not self.send_nowait(message, end=end):
            return False
        if self.outgoing.waits_for_room:
            await self.outgoing.wait_taken()
        return not self.outgoing.was_cut

    async def receive(self) -> bytes | None:
        """Return the next message; None when no more will come. Always a checkpoint."""
        await self.incoming.wait()
        message = self.incoming.take()
        if isinstance(message, Status):
            self.refuse(message)
            return None
        return message

    def abort(self, code: StatusCode, message: str = "", details: bytes | None = None) -> NoReturn:
        """End the call with this status, by raising `Abort`. `TypeError` for arguments of other types."""
        # Found here, where it ends this call, and not by what sends the status, where it would end the server.
        for value, types in ((code, int), (message, str), (details, bytes | None)):
            if not isinstance(value, types):
                raise TypeError(f"abort takes a trxds.StatusCode, a text and bytes, not {value!r}")
        raise Abort(Status(code, message, details))

    def reset(self, code: int = ErrorCode.INTERNAL_ERROR) -> None:
        """End the call with a RST_STREAM in place of a status; the handler is cancelled."""
        self._connection.http2.reset(self.id, code)
        self.fail(Status(StatusCode.INTERNAL, "reset by the server"))

    # -- its life

    async def run(self, handler: Handler) -> None:
        """Run `handler`, then send the status that it ended with."""
        with self._scope:
            status = await self._run_handler(handler)
            await self.outgoing.wait_taken()
            # The trailers follow the last message, which may have waited for windows.
            self._send_status(status)
        if self.status is None:  # only the deadline cancels a call that has not ended
            self._send_status(Status(StatusCode.DEADLINE_EXCEEDED, "the deadline passed at the server"))

    async def _run_handler(self, handler: Handler) -> Status:
        try:
            await handler(self)
        except Abort as abort:
            return abort.status
        except ReplyTypeError as error:
            _log.error("%s", error)
            # As in grpcio, a reply that cannot be serialized is INTERNAL.
            return Status(StatusCode.INTERNAL, str(error))
        except Exception as error:
            inner = error_in(error, Abort)
            others = error.split(Abort)[1] if isinstance(error, ExceptionGroup) else error
            if others is not None:
                _log.error("handler of %s failed", self.path, exc_info=others)
            # As in grpcio, an exception of a handler is UNKNOWN.
            return inner.status if inner else Status(StatusCode.UNKNOWN, f"{type(error).__name__}: {error}")
        return OK

    def _send_headers(self, metadata: Metadata) -> None:
        if not self._headers_sent and self.outgoing.is_open:
            self._headers_sent = True
            encoding = [(b"grpc-encoding", self._encoding.encode())] if self._encoding else []
            self._connection.send_headers(self.id, [*_RESPONSE_HEADERS, *encoding, *encode(metadata)])

    def _send_status(self, status: Status) -> None:
        if not self.outgoing.is_open:
            return
        if self.outgoing.waits_for_room:
            # The rest of a message has not left, and trailers behind half a message would be malformed.
            return self.reset(ErrorCode.CANCEL)
        fields = [(b"grpc-status", b"%d" % status.code), (b"grpc-message", encode_message(status.message))]
        if status.details is not None:
            fields += encode(Metadata([("grpc-status-details-bin", status.details)]))
        # PROTOCOL-HTTP2, "Trailers-Only": without a message before, one HEADERS frame has headers and status.
        opening = [] if self._headers_sent else _RESPONSE_HEADERS
        self._connection.send_headers(self.id, [*opening, *fields, *encode(self._trailing)], end=True)
        # RFC 9113 §8.1: the answer is complete, so the client need not send the rest of the request.
        if self.incoming.is_open:
            self._connection.http2.reset(self.id, ErrorCode.NO_ERROR)
        self._connection.call_served()
        self._finish(status)

    # -- what the connection reads

    def accept(self, event: DataReceived) -> None:
        """Take in a DATA frame."""
        if self.incoming.is_open:
            problem = self.incoming.accept(event)
            if problem is not None:
                self.refuse(problem)
            elif event.end:
                self.peer_ended()

    def peer_ended(self) -> None:
        """Note that the client has ended its half."""
        self.incoming.stop()
        if not self.incoming.deframer.between_messages:
            self.refuse(Status(StatusCode.INTERNAL, "the client ended the request inside a message"))

    def refuse(self, problem: Status) -> None:
        """End the call with this status, and cancel its handler."""
        self._send_status(problem)
        self._scope.cancel()

    def was_reset(self, code: int) -> None:
        """Note that the client has reset the stream."""
        self.fail(Status(StatusCode.CANCELLED, f"the client reset the stream: {code_name(code)}"))
        # Rapid reset (CVE-2023-44487).
        self._connection.count_reset()

    def fail(self, status: Status) -> None:
        """Note that the call cannot go on, and cancel its handler."""
        self._finish(status)
        self._scope.cancel()

    def _finish(self, status: Status) -> None:
        if self.status is None:
            self.status = status
            self.outgoing.stop()
            self.incoming.stop()
            self._connection.forget(self.id)


_RESPONSE_HEADERS: Headers = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", ACCEPTED),
]
