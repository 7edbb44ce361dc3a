"""Which requests are gRPC's, and what a client is told whose request is not (PROTOCOL-HTTP2, "Requests").

It is an HTTP status that no client can take for success: 415 for another content-type, 405 for another method than
POST. The content-type is looked at first, as in grpc-go and grpc-java: a client that has gRPC's can be told in gRPC's
words. A request without "te: trailers" is served, also as there: the field is there for proxies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trxds.ground.metadata import Headers, encode_message, find
from trxds.ground.status import Status, StatusCode
from trxds.wire.events import DataReceived, ErrorCode
from trxds.wire.message_stream import MessageStream

if TYPE_CHECKING:
    from .connection import ServerConnection

_CONTENT_TYPE = b"application/grpc"
_SEPARATORS = (b"+", b";")  # before a subtype, and before parameters
_MOST_UPLOADED = 64 * 1024
_NO_GRPC = b"This is a gRPC server: the content-type of a request has to be application/grpc.\n"


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """A response of plain HTTP."""

    headers: Headers
    body: bytes = b""


def http_refusal(headers: Headers) -> HttpRefusal | None:
    """Why a request is no gRPC request; None if it is one."""
    method, content_type = find(headers, b":method"), find(headers, b"content-type")
    if content_type != _CONTENT_TYPE and content_subtype(content_type) is None:
        fields = [(b":status", b"415"), (b"content-type", b"text/plain; charset=utf-8")]
        return HttpRefusal(fields, b"" if method == b"HEAD" else _NO_GRPC)
    if method != b"POST":
        message = encode_message("the method of the HTTP request is not POST, which gRPC's is")
        fields = [(b":status", b"405"), (b"allow", b"POST"), (b"content-type", _CONTENT_TYPE)]
        return HttpRefusal([*fields, (b"grpc-status", b"%d" % StatusCode.INTERNAL), (b"grpc-message", message)])
    return None


def content_subtype(content_type: bytes | None) -> str | None:
    """The message format that a gRPC content-type names, such as "proto"; empty if none, None if it is not gRPC's."""
    value = (content_type or b"").strip().lower()
    if not value.startswith(_CONTENT_TYPE):
        return None
    rest = value[len(_CONTENT_TYPE) :]
    if rest and not rest.startswith(_SEPARATORS):
        return None
    return rest[1:].split(b";")[0].strip().decode("latin-1") if rest[:1] == b"+" else ""


class PlainAnswer(MessageStream):
    """A stream that ends with an `HttpRefusal`. It is no call: no handler sees it.

    The request is read to its end, if that comes soon: a reset might reach the client before it has read the answer.
    """

    __slots__ = ("_uploaded",)

    _link: ServerConnection

    def __init__(self, connection: ServerConnection, stream_id: int) -> None:
        super().__init__(connection, 0)
        self.id = stream_id
        self._uploaded = 0

    def give(self, refusal: HttpRefusal) -> None:
        """Send it, as windows have room."""
        self._link.send_headers(self.id, refusal.headers, end=not refusal.body)
        self._ending = True
        self.sending = bool(refusal.body)
        if self.sending:
            self._rest = refusal.body
            self._link.push(self)
        self._done()

    def push(self, limit: int) -> None:
        super().push(limit)
        self._done()

    def _done(self) -> None:
        if not self.sending and not self.receiving:
            self._link.forget(self)

    def accept(self, event: DataReceived) -> None:
        self._uploaded += event.flow_length
        if event.end:
            self.peer_ended()
        elif self._uploaded > _MOST_UPLOADED:
            self._link.reset(self.id, ErrorCode.NO_ERROR)
            self.was_reset(ErrorCode.NO_ERROR)

    def peer_ended(self) -> None:
        self.receiving = False
        self._done()

    def refuse(self, problem: Status) -> None:
        self.fail(problem)

    def was_reset(self, code: int) -> None:
        self.stop()
        self._link.forget(self)

    def fail(self, status: Status) -> None:
        self.stop()
        self._link.forget(self)
