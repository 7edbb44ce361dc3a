"""A server that sends exactly the frames of a script, valid or not.

No HTTP/2 library would send most of them, so frames are made here, and not by the code that is under test. Everything
that a script leaves out is done correctly: the client's frames are read, its SETTINGS and PINGs are acknowledged, and
`data` waits for its windows. It runs over any stream of Trio's: in memory for us, a socket for grpcio, which judges the
scripts.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import hpack
import trio

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11

RESPONSE = ((":status", "200"), ("content-type", "application/grpc"))
_WRITE = 8 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Fields = Iterable[tuple[str, str]]


class Gone(Exception):
    """The client closed the connection, so the script ends."""


@dataclass(frozen=True)
class Script:
    """The actions of a server on each connection, and the calls that are made meanwhile.

    `greeting` are the server's first SETTINGS, None if the script sends the first frame itself.
    """

    name: str
    play: Callable[[Peer], Awaitable[None]]
    greeting: Mapping[int, int] | None = field(default_factory=dict)
    calls: int = 1
    at_once: bool = False
    """Whether the calls are made all at the same time, or one after the other."""

    request: int = 1
    """Bytes of each call's message."""
    reads: bool = True
    """Whether the callers take what they are sent, or only open their streams."""


def script(**stage: Any) -> Callable[[Callable[[Peer], Awaitable[None]]], Script]:
    """Make a script of a function, which names it; `stage` are fields of `Script`."""
    return lambda play: Script(play.__name__, play, **stage)  # type: ignore[attr-defined]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def message(content: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """Return a valid gRPC message, unless the flag or the length says otherwise."""
    return bytes((flag,)) + (len(content) if length is None else length).to_bytes(4) + content


class Peer:
    """The server of one connection. `number` counts the connections of a script, from 1."""

    def __init__(self, transport: trio.abc.Stream, number: int = 1) -> None:
        self.number = number
        self.gone = False  # the client has closed the connection
        self.said_all = False  # the script is over
        self.goaways: list[int] = []  # the codes with which the client said goodbye
        self.resets: dict[int, int] = {}
        self.heard: Counter[int] = Counter()  # frames, by kind
        self.received: Counter[int] = Counter()  # bytes of requests, by stream; 0 for all
        self.most_open = 0
        self.unanswered_pings = 0
        self._transport = transport
        self._encoder = hpack.Encoder()
        self._begun: deque[int] = deque()
        self._ended: set[int] = set()
        self._answered: set[int] = set()
        self._room: defaultdict[int, int] = defaultdict(int)  # what we may send, beyond the initial window
        self.initial_window = 65_535
        self._changed = trio.lowlevel.ParkingLot()
        self._listening = trio.CancelScope()
        self._speaking = trio.Lock()  # the script and the answers to what is heard

    async def run(self, script: Script) -> None:
        """Run the script, and leave the connection open until the client closes it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            with suppress(Gone, trio.BrokenResourceError, trio.ClosedResourceError):
                if script.greeting is not None:
                    await self.settings(script.greeting)
                await script.play(self)
                self.said_all = True
            if not self.gone and self._listening.cancel_called:
                await trio.sleep_forever()

    # -- what the server says

    async def raw(self, data: bytes) -> None:
        async with self._speaking:
            try:
                await self._transport.send_all(data)
            except trio.BrokenResourceError:
                self.gone = True
                self._changed.unpark_all()
                raise

    async def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        await self.raw(frame(kind, flags, stream, payload))

    async def settings(self, values: Mapping[int, int] | Iterable[tuple[int, int]]) -> None:
        pairs = values.items() if isinstance(values, Mapping) else values
        await self.frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", key, value) for key, value in pairs))

    def block(self, fields: Fields) -> bytes:
        """Return the header block for these fields, which must be sent."""
        return self._encoder.encode(fields)

    async def headers(self, stream: int, fields: Fields = RESPONSE, *, end: bool = False) -> None:
        await self.frame(HEADERS, END_HEADERS | end, stream, self.block(fields))

    async def trailers(self, stream: int, fields: Fields = (("grpc-status", "0"),)) -> None:
        self._answered.add(stream)
        await self.headers(stream, fields, end=True)

    async def trailers_only(self, stream: int, fields: Fields) -> None:
        await self.trailers(stream, (*RESPONSE, *fields))

    async def data(self, stream: int, data: bytes, *, end: bool = False, padding: int | None = None) -> None:
        """Send one DATA frame, when the client's windows allow it."""
        payload = data if padding is None else bytes((padding,)) + data + bytes(padding)
        await self.until(lambda: self._window(stream) >= len(payload))
        self._spend(stream, len(payload))
        await self.frame(DATA, (PADDED if padding is not None else 0) | end, stream, payload)

    async def crumbs(self, stream: int, data: bytes, size: int, padding: int | None = None) -> None:
        """Send all of the data, `size` bytes in a frame, many frames in a write."""
        cost = size if padding is None else 1 + size + padding
        while data:
            await self.until(lambda: self._window(stream) >= cost)
            count = min(-(-len(data) // size), self._window(stream) // cost, 1 + _WRITE // (9 + cost))
            pieces = [data[start : start + size] for start in range(0, count * size, size)]
            data = data[count * size :]
            self._spend(stream, count * cost)
            if padding is not None:
                pieces = [bytes((padding,)) + piece + bytes(padding) for piece in pieces]
            await self.raw(b"".join(frame(DATA, 0 if padding is None else PADDED, stream, piece) for piece in pieces))

    def _window(self, stream: int) -> int:
        return min(self._room[0] + 65_535, self._room[stream] + self.initial_window)

    def _spend(self, stream: int, size: int) -> None:
        self._room[0] -= size
        self._room[stream] -= size

    async def answer(self, stream: int, content: bytes = b"") -> None:
        """Send headers, a message, and OK."""
        await self.headers(stream)
        await self.data(stream, message(content))
        await self.trailers(stream)

    async def reset(self, stream: int, code: int = NO_ERROR) -> None:
        self._answered.add(stream)
        await self.frame(RST_STREAM, 0, stream, code.to_bytes(4))

    async def goaway(self, last: int, code: int = NO_ERROR, debug: bytes = b"") -> None:
        await self.frame(GOAWAY, 0, 0, last.to_bytes(4) + code.to_bytes(4) + debug)

    async def window(self, stream: int, size: int) -> None:
        await self.frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4))

    async def ping(self) -> None:
        self.unanswered_pings += 1
        await self.frame(PING, 0, 0, b"01234567")

    def stop_reading(self) -> None:
        """Read no more."""
        self._listening.cancel()

    async def close(self) -> None:
        await trio.aclose_forcefully(self._transport)

    # -- what it waits for

    async def request(self) -> int:
        """Wait for the next complete request; return its stream."""
        await self.until(lambda: any(stream in self._ended for stream in self._begun))
        stream = next(stream for stream in self._begun if stream in self._ended)
        self._begun.remove(stream)
        return stream

    async def request_begun(self) -> int:
        """Wait for the next request, complete or not; return its stream."""
        await self.until(lambda: bool(self._begun))
        return self._begun.popleft()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.gone:
                raise Gone
            await self._changed.park()

    # -- what it hears

    async def _listen(self) -> None:
        with self._listening:
            buffer = b""
            while len(buffer) < len(PREFACE):
                buffer += await self._receive()
            assert buffer.startswith(PREFACE)
            buffer = buffer[len(PREFACE) :]
            while not self.gone:
                buffer = await self._hear_frames(buffer)
                buffer += await self._receive()

    async def _receive(self) -> bytes:
        try:
            data = await self._transport.receive_some(65_536)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data:
            self.gone = True
            self._changed.unpark_all()
            self._listening.cancel()
        return bytes(data)

    async def _hear_frames(self, buffer: bytes) -> bytes:
        answers = b""
        while len(buffer) >= 9:
            size = 9 + int.from_bytes(buffer[:3])
            if len(buffer) < size:
                break
            answers += self._hear(buffer[3], buffer[4], int.from_bytes(buffer[5:9]), buffer[9:size])
            buffer = buffer[size:]
        self._changed.unpark_all()
        if answers:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self.raw(answers)
        return buffer

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Note a frame; return the frames that answer it."""
        self.heard[kind] += 1
        match kind:
            case 0:
                self.received[stream] += len(payload)
                self.received[0] += len(payload)
            case 1:
                self._begun.append(stream)
                self.most_open = max(self.most_open, stream // 2 + 1 - len(self._answered | self.resets.keys()))
            case 3:
                self.resets[stream] = int.from_bytes(payload)
            case 4 if not flags & ACK:
                self._hear_settings(payload)
                return frame(SETTINGS, ACK, 0)
            case 6 if flags & ACK:
                self.unanswered_pings -= 1
            case 6:
                return frame(PING, ACK, 0, payload)
            case 7:
                self.goaways.append(int.from_bytes(payload[4:8]))
            case 8:
                self._room[stream] += int.from_bytes(payload)
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self._ended.add(stream)
        return b""

    def _hear_settings(self, payload: bytes) -> None:
        for key, value in struct.iter_unpack(">HL", payload):
            if key == INITIAL_WINDOW_SIZE:
                self.initial_window = value
