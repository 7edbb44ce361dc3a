"""The part of HTTP/1.1 that the admin surface needs: one request and one response for each connection."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

import h11
import trio
from msgspec import Struct

MAX_HEAD_SIZE = 16 * 1024  # bytes
ANSWER_TIMEOUT = 30.0  # seconds for a client to read an answer that has an end
_READ_SIZE = 4096  # bytes

TEXT = "text/plain; charset=utf-8"
JSON_LINES = "application/x-ndjson"  # one JSON value on each line

# Nobody else's page may keep, frame, read or sniff at what our own page or a command asked for.
_ALWAYS = (
    ("cache-control", "no-store"),
    ("connection", "close"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)


class HttpRequest(Struct, frozen=True):
    """The head of a request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; if a name occurs several times, the last value counts."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


class HttpError(Struct, frozen=True):
    """A refusal: an HTTP status, and a line of text for the client."""

    status: int
    reason: str


def new_connection() -> h11.Connection:
    """Return the server's side of one connection."""
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_SIZE)


async def read_head(http: h11.Connection, stream: trio.abc.ReceiveStream) -> HttpRequest | HttpError | None:
    """Read a request's head; return None if the client leaves without one."""
    while True:
        try:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(_READ_SIZE)))
                continue
        except h11.RemoteProtocolError as error:
            return HttpError(error.error_status_hint, f"this is no request: {error}")
        return _request(event) if isinstance(event, h11.Request) else None


def _request(request: h11.Request) -> HttpRequest:
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
    return HttpRequest(request.method.decode("ascii"), request.target.decode("latin-1"), headers)


def response(status: int, headers: Mapping[str, str], body: bytes, *, head_only: bool = False) -> bytes:
    """Return a response; with `head_only` its head alone, which still states the body's length."""
    head = _head(h11.Connection(h11.SERVER), status, [*headers.items(), ("content-length", str(len(body)))])
    return head if head_only else head + body


def text_response(status: int, text: str) -> bytes:
    """Return a response with one line of text."""
    return response(status, {"content-type": TEXT}, f"{text}\n".encode())


def error_response(error: HttpError) -> bytes:
    """Return the response that refuses a request."""
    return text_response(error.status, error.reason)


async def send_answer(stream: trio.abc.SendStream, answer: bytes) -> None:
    """Send a whole response. A client that does not read it in time gets a part, and must not keep its connection."""
    with trio.move_on_after(ANSWER_TIMEOUT):
        await stream.send_all(answer)


async def send_json_lines(http: h11.Connection, stream: trio.abc.SendStream, pieces: AsyncIterable[bytes]) -> None:
    """Send a response of JSON lines, each piece as soon as it is made."""
    head = [("content-type", JSON_LINES), ("transfer-encoding", "chunked")]
    await stream.send_all(_head(http, 200, head))
    async for piece in pieces:
        await stream.send_all(_bytes(http.send(h11.Data(piece))))
    await stream.send_all(_bytes(http.send(h11.EndOfMessage())))


def _head(http: h11.Connection, status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    phrase = HTTPStatus(status).phrase
    return _bytes(http.send(h11.Response(status_code=status, headers=[*_ALWAYS, *headers], reason=phrase)))


def _bytes(data: bytes | None) -> bytes:
    return data or b""
