"""A client that says to a server exactly what a test tells it to, frame by frame, by no code of ours."""

from __future__ import annotations

import hpack
import trio
from support.hostile.peer import END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame, message

REQUEST = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/s/M",
    ":authority": "shop",
    "content-type": "application/grpc",
    "te": "trailers",
}

GOAWAY, DATA = 7, 0


class RawClient:
    """`frames` is what the server has sent so far: kind, flags, stream, payload. `ended` once it has closed."""

    def __init__(self, transport: trio.abc.Stream) -> None:
        self.transport = transport
        self.frames: list[tuple[int, int, int, bytes]] = []
        self.ended = False
        self._rest = b""
        self._decoder = hpack.Decoder()
        self._headers: dict[int, list[tuple[str, str]]] = {}

    async def greet(self, settings: bytes = b"") -> None:
        await self.send(PREFACE, frame(SETTINGS, 0, 0, settings))

    async def send(self, *parts: bytes) -> None:
        await self.transport.send_all(b"".join(parts))

    async def read(self) -> None:
        """Read until the server has closed."""
        while not self.ended:
            await self._read_some()

    async def read_until(self, kind: int, stream: int) -> bytes:
        """The payload of the first such frame, of all that there were."""
        while True:
            for each, _, of, payload in self.frames:
                if (each, of) == (kind, stream):
                    return payload
            assert not self.ended, f"no frame {kind} on stream {stream} in {self.frames}"
            await self._read_some()

    async def answer(self, stream: int) -> dict[str, str]:
        """All header fields and trailers of a stream that the server has ended, or `reset` with its code."""
        while not any(
            of == stream and (kind == RST_STREAM or flags & END_STREAM) for kind, flags, of, _ in self.frames
        ):
            assert not self.ended, f"no end of stream {stream} in {self.frames}"
            await self._read_some()
        fields = dict(self._headers.get(stream, ()))
        resets = [int.from_bytes(payload) for kind, _, of, payload in self.frames if (kind, of) == (RST_STREAM, stream)]
        return fields | ({"reset": str(resets[0])} if resets else {})

    def body(self, stream: int) -> bytes:
        """What came in DATA frames."""
        return b"".join(payload for kind, _, of, payload in self.frames if (kind, of) == (DATA, stream))

    @property
    def goaway(self) -> int | None:
        """The code of the last GOAWAY."""
        codes = [int.from_bytes(payload[4:8]) for kind, _, _, payload in self.frames if kind == GOAWAY]
        return codes[-1] if codes else None

    async def _read_some(self) -> None:
        try:
            data = await self.transport.receive_some()
        except trio.BrokenResourceError:
            data = b""
        self.ended = not data
        self._rest += data
        while len(self._rest) >= 9 and len(self._rest) >= 9 + (size := int.from_bytes(self._rest[:3])):
            kind, flags, stream = self._rest[3], self._rest[4], int.from_bytes(self._rest[5:9])
            payload, self._rest = self._rest[9 : 9 + size], self._rest[9 + size :]
            self.frames.append((kind, flags, stream, payload))
            if kind == HEADERS:
                self._headers.setdefault(stream, []).extend(self._decoder.decode(payload))


def headers(stream: int, *, end: bool = False, without: tuple[str, ...] = (), **fields: str) -> bytes:
    """A request's HEADERS frame. `_` in a keyword is `-`, `pseudo_x` is `:x`; `without` leaves fields out."""
    named = {key.replace("pseudo_", ":").replace("_", "-"): value for key, value in fields.items()}
    merged = [(key, value) for key, value in (REQUEST | named).items() if key not in without]
    return block(stream, merged, end=end)


def block(stream: int, fields: list[tuple[str, str]], *, end: bool = False) -> bytes:
    """A HEADERS frame of these fields, in this order, which changes no compression table."""
    encoded = hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*field) for field in fields])
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, encoded)


def data(stream: int, content: bytes, *, end: bool = False) -> bytes:
    return frame(DATA, END_STREAM if end else 0, stream, content)


async def goes_on(client: RawClient, stream: int = 99) -> bool:
    """Return whether a good call on the same connection is served."""
    await client.send(headers(stream), data(stream, message(b"x"), end=True))
    return (await client.answer(stream))["grpc-status"] == "0" and not client.ended
