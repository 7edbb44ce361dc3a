"""A request that is not gRPC's gets a plain HTTP answer (PROTOCOL-HTTP2, "Requests").

Its HTTP status cannot be taken for success: 415 for another content-type, 405 for a method other than POST. The
content-type is checked first, as in grpc-go and grpc-java: a client with gRPC's content-type understands a gRPC status.
A request without "te: trailers" is served, as they do: the field is there for proxies.
"""

from __future__ import annotations

from msgspec import Struct

from trxds.core.metadata import Headers, encode_message, find
from trxds.core.status import StatusCode
from trxds.transport.content_type import CONTENT_TYPE, content_subtype
from trxds.transport.events import DataReceived, ErrorCode

from .stream_owner import StreamOwner

_MAX_UPLOAD = 64 * 1024
_NO_GRPC = b"This is a gRPC server: the content-type of a request has to be application/grpc.\n"


class HttpRefusal(Struct, frozen=True):
    """A plain HTTP response that refuses a request."""

    headers: Headers
    body: bytes = b""


def http_refusal(headers: Headers) -> HttpRefusal | None:
    """Return the refusal of a request that is not gRPC's; None if it is."""
    method, content_type = find(headers, b":method"), find(headers, b"content-type")
    if content_type != CONTENT_TYPE and content_subtype(content_type) is None:
        fields = [(b":status", b"415"), (b"content-type", b"text/plain; charset=utf-8")]
        # RFC 9110 §9.3.2: an answer to HEAD has no body.
        return HttpRefusal(fields, b"" if method == b"HEAD" else _NO_GRPC)
    if method != b"POST":
        message = encode_message("the method of the HTTP request is not POST, which gRPC's is")
        # RFC 9110 §15.5.6: a 405 names the methods that are allowed.
        fields = [(b":status", b"405"), (b"allow", b"POST"), (b"content-type", CONTENT_TYPE)]
        return HttpRefusal([*fields, (b"grpc-status", b"%d" % StatusCode.INTERNAL), (b"grpc-message", message)])
    return None


class PlainAnswer:
    """A stream that ends with an `HttpRefusal`. It is no call: no handler sees it.

    The request is read to its end, if that comes soon: a reset might reach the client before it has read the answer.
    """

    __slots__ = ("_body", "_connection", "_uploaded", "id", "is_receiving")

    def __init__(self, connection: StreamOwner, stream_id: int, *, is_receiving: bool) -> None:
        self.id = stream_id
        self.is_receiving = is_receiving
        self._connection = connection
        self._body = b""
        self._uploaded = 0

    def send(self, refusal: HttpRefusal) -> None:
        """Send the refusal, as far as windows have room."""
        self._body = refusal.body
        self._connection.send_headers(self.id, refusal.headers, end=not refusal.body)
        if refusal.body:
            self._connection.http2.push(self)
        else:
            self._forget_if_done()

    # -- what it sends

    @property
    def outgoing(self) -> PlainAnswer:
        """The stream itself, which sends the body."""
        return self

    @property
    def waits_for_room(self) -> bool:
        return bool(self._body)

    def push(self, limit: int) -> None:
        """Append at most `limit` bytes of the body to the connection's output."""
        written = self._connection.http2.engine.write(self.id, self._body, end=True, limit=limit)
        self._body = self._body[written:]
        self._forget_if_done()

    def _forget_if_done(self) -> None:
        if not self._body and not self.is_receiving:
            self._connection.forget(self.id)

    # -- what the connection reads

    def accept(self, event: DataReceived) -> None:
        """Count uploaded bytes, and reset the stream when they are too many."""
        self._uploaded += event.flow_length
        if event.end:
            self.peer_ended()
        elif self._uploaded > _MAX_UPLOAD:
            # RFC 9113 §8.1: after a complete response NO_ERROR asks the client to stop its upload.
            self._connection.http2.reset(self.id, ErrorCode.NO_ERROR)
            self.fail()

    def peer_ended(self) -> None:
        """Note that the client has ended its half."""
        self.is_receiving = False
        self._forget_if_done()

    def fail(self, why: object = None) -> None:
        """End the stream. A status or a code that says why is of no use: no handler waits for it."""
        self._body = b""
        self._connection.http2.send_queue.forget(self)
        self._connection.forget(self.id)

    refuse = was_reset = fail
