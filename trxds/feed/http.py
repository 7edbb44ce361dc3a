"""As much of HTTP/1.1 as the feed needs: one request of a connection is read, and one answer written. h11 knows how."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

import h11
import trio

LARGEST_HEAD = 16 * 1024  # bytes
PATIENCE = 10.0  # seconds for the head to come
_AT_ONCE = 4096  # bytes

TEXT = "text/plain; charset=utf-8"
LINES = "application/x-ndjson"  # one JSON value on each


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's head; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The last one of each name."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP status, and a line for who was refused."""

    status: int
    reason: str


async def read_head(http: h11.Connection, stream: trio.abc.ReceiveStream) -> Asked | Refusal | None:
    """None for who asks nothing, or not in time."""
    with trio.move_on_after(PATIENCE):
        while True:
            try:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some(_AT_ONCE)))
                    continue
            except h11.RemoteProtocolError as error:
                return Refusal(error.error_status_hint, f"this is no request: {error}")
            return _asked(event) if isinstance(event, h11.Request) else None
    return None


def _asked(request: h11.Request) -> Asked:
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
    return Asked(request.method.decode("ascii"), request.target.decode("latin-1"), headers)


def connection() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)


async def answer(http: h11.Connection, stream: trio.abc.SendStream, status: int, text: str) -> None:
    """A line of text and no more."""
    body = f"{text}\n".encode()
    begin = _begin(http, status, TEXT, [("content-length", str(len(body)))])
    await stream.send_all(begin + _bytes(http.send(h11.Data(body))) + _bytes(http.send(h11.EndOfMessage())))


async def answer_with(http: h11.Connection, stream: trio.abc.SendStream, pieces: AsyncIterable[bytes]) -> None:
    """Piece by piece, each as soon as it is there."""
    await stream.send_all(_begin(http, 200, LINES, [("transfer-encoding", "chunked")]))
    async for piece in pieces:
        await stream.send_all(_bytes(http.send(h11.Data(piece))))
    await stream.send_all(_bytes(http.send(h11.EndOfMessage())))


def _begin(http: h11.Connection, status: int, kind: str, more: Iterable[tuple[str, str]]) -> bytes:
    headers = [
        ("content-type", kind),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("connection", "close"),
        *more,
    ]
    return _bytes(http.send(h11.Response(status_code=status, headers=headers)))


def _bytes(data: bytes | None) -> bytes:
    return data or b""
