"""The cost to read 64 KiB of a kind of frame, by the number of open calls: lines for tests, seconds for the bench.

The server here answers nothing: its bytes are put into the connection's reader as one read.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import h2
import hpack
import hyperframe
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import trxds
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

from .peer import (
    ACK,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PRIORITY,
    RESPONSE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    message,
)

READ = 64 * 1024
LAST = 2**31 - 1
NO_FLOOD = 10.0**12
"""A rate of overhead that nobody reaches: here the floods shall go on."""

_RESPONSE = hpack.Encoder().encode(RESPONSE, huffman=False)
_TRAILERS = hpack.Encoder().encode([("grpc-status", "0")], huffman=False)  # which the table changes, for each


def _settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *value) for value in values))


def _goaway(text: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">LL", LAST, 0) + text)


@dataclass(frozen=True)
class Kind:
    """A kind of frame: `frames(streams)` is repeated until the read is full, unless it is valid only `once`."""

    name: str
    frames: Callable[[list[int]], bytes]
    once: bool = False
    """It answers or ends calls, so there is one of it for each."""

    begun: bool = False
    """Whether the calls' headers have come before."""

    waiting: bool = False
    """Whether each call has something to send, and its window is closed."""

    sends: bool = False
    """Whether they make all calls that wait send a little."""

    def read(self, streams: list[int], size: int) -> bytes:
        """Return at most `size` bytes of it."""
        made = self.frames(streams)
        if self.once:
            return made
        whole = (made * -(-size // len(made)))[:size]
        return whole[: _end_of_frames(whole)] or made


def _end_of_frames(data: bytes) -> int:
    """Return the end of the last complete frame that is no part of an incomplete header block."""
    position = end = 0
    while position + 9 <= len(data):
        kind, flags = data[position + 3], data[position + 4]
        position += 9 + int.from_bytes(data[position : position + 3])
        if position <= len(data) and (kind not in (HEADERS, CONTINUATION) or flags & END_HEADERS):
            end = position
    return end


def _each(one: Callable[[int], bytes]) -> Callable[[list[int]], bytes]:
    """Return one frame for each call."""
    return lambda streams: b"".join(map(one, streams))


_FIELDS = b"\x08\x03103" + b"".join(b"\x40\x04k%03d\x01v" % number for number in range(20))

KINDS = {
    kind.name: kind
    for kind in (
        Kind("DATA, empty", _each(lambda stream: frame(DATA, 0, stream)), begun=True),
        Kind("DATA of padding", _each(lambda stream: frame(DATA, PADDED, stream, bytes(1))), begun=True),
        Kind("DATA of one byte", lambda streams: frame(DATA, 0, streams[0], b"\0"), begun=True),
        Kind("DATA of empty messages", lambda streams: frame(DATA, 0, streams[0], message(b"") * 3000), begun=True),
        Kind("HEADERS, 1xx", _each(lambda stream: frame(HEADERS, END_HEADERS, stream, b"\x08\x03103"))),
        Kind("HEADERS, 1xx of 20 new fields", _each(lambda stream: frame(HEADERS, END_HEADERS, stream, _FIELDS))),
        Kind("HEADERS, answers", _each(lambda stream: frame(HEADERS, END_HEADERS, stream, _RESPONSE)), once=True),
        Kind(
            "HEADERS, the end of calls",
            _each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + _TRAILERS)),
            once=True,
        ),
        Kind(
            "HEADERS of many fields",
            lambda streams: frame(HEADERS, END_HEADERS, streams[0], b"\x08\x03103" + b"\x00\x01a\x00" * 2400),
        ),
        Kind(
            "CONTINUATION, empty",
            _each(
                lambda stream: (
                    frame(HEADERS, 0, stream, b"\x08\x03103")
                    + frame(CONTINUATION, 0, stream) * 60
                    + frame(CONTINUATION, END_HEADERS, stream)
                )
            ),
        ),
        Kind("PRIORITY", _each(lambda stream: frame(PRIORITY, 0, stream, bytes(5)))),
        Kind("RST_STREAM, the end of calls", _each(lambda stream: frame(RST_STREAM, 0, stream, bytes(4))), once=True),
        Kind("RST_STREAM, again", lambda streams: frame(RST_STREAM, 0, streams[0], bytes(4))),
        Kind("SETTINGS, empty", lambda _: _settings()),
        Kind("SETTINGS, one window", lambda _: _settings((INITIAL_WINDOW_SIZE, 70_000))),
        Kind(
            "SETTINGS, windows up and down",
            lambda _: _settings((INITIAL_WINDOW_SIZE, 70_000)) + _settings((INITIAL_WINDOW_SIZE, 0)),
        ),
        Kind(
            "SETTINGS, windows opened byte by byte",
            lambda _: b"".join(_settings((INITIAL_WINDOW_SIZE, size)) for size in range(1, 4000)),
            waiting=True,
            sends=True,
        ),
        Kind(
            "SETTINGS, windows up and down, and all wait",
            lambda _: _settings((INITIAL_WINDOW_SIZE, 1)) + _settings((INITIAL_WINDOW_SIZE, 0)),
            waiting=True,
        ),
        Kind(
            "SETTINGS, 10,000 windows",
            lambda _: _settings(*((INITIAL_WINDOW_SIZE, 65_535 + number % 2) for number in range(10_000))),
        ),
        Kind("SETTINGS, 10,000 unknown", lambda _: _settings(*((1000 + number, 1) for number in range(10_000)))),
        Kind(
            "SETTINGS, largest frames",
            lambda _: _settings((MAX_FRAME_SIZE, 20_000)) + _settings((MAX_FRAME_SIZE, 16_384)),
        ),
        Kind(
            "SETTINGS, everything",
            lambda _: _settings(
                (1, 4096), (ENABLE_PUSH, 0), (MAX_CONCURRENT_STREAMS, 9**9), (INITIAL_WINDOW_SIZE, 9), (5, 16_384)
            ),
        ),
        Kind("SETTINGS, acknowledged", lambda _: frame(SETTINGS, ACK, 0)),
        Kind("PING", lambda _: frame(PING, 0, 0, bytes(8))),
        Kind("PING, acknowledged", lambda _: frame(PING, ACK, 0, bytes(8))),
        Kind("GOAWAY", lambda _: _goaway()),
        Kind("GOAWAY with text", lambda _: _goaway(b"\xff" * 16_000)),
        Kind("GOAWAY, the end of calls", lambda _: frame(GOAWAY, 0, 0, bytes(8)), once=True),
        Kind("WINDOW_UPDATE", lambda _: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1")),
        Kind("WINDOW_UPDATE of streams", _each(lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1"))),
        Kind(
            "WINDOW_UPDATE of streams that wait",
            _each(lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1")),
            waiting=True,
            sends=True,
        ),
        Kind("unknown", lambda _: frame(0x42, 0, 0)),
        Kind("unknown, long", lambda _: frame(0x42, 0, 0, bytes(16_000))),
    )
}


# -- meters


class Meter(Protocol):
    def spent(self) -> float:
        """Return the cost so far."""
        ...

    def measuring(self) -> AbstractContextManager[None]:
        """Measure the cost of this block."""
        ...


class Seconds:
    """The CPU time of this thread."""

    def spent(self) -> float:
        return time.thread_time()

    def measuring(self) -> AbstractContextManager[None]:
        return nullcontext()


_COUNTED = tuple(str(Path(str(module.__file__)).parent) for module in (trxds, h2, hpack, hyperframe))


class Lines:
    """The number of lines of our code and h2's that ran, which is the same on a busy machine."""

    def __init__(self) -> None:
        self._lines = 0

    def spent(self) -> float:
        return self._lines

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(_COUNTED) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._lines += 1
        return self._line

    @contextmanager
    def measuring(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)


# -- the measurement


@dataclass(frozen=True)
class Cost:
    """A cost in the meter's unit."""

    size: int
    total: float
    longest: float
    """What one step of a task took, during which no other task could run."""


class _Steps(trio.abc.Instrument):
    def __init__(self, meter: Meter) -> None:
        self.total = self.longest = 0.0
        self._meter = meter
        self._began = meter.spent()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self._meter.spent()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        spent = self._meter.spent() - self._began
        self.total += spent
        self.longest = max(self.longest, spent)


class _Server(trio.abc.Stream):
    """A server that accepts everything, and sends what it is told to."""

    def __init__(self) -> None:
        self._say, self._hear = trio.open_memory_channel[bytes](10)

    def say(self, data: bytes) -> None:
        self._say.send_nowait(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._hear.receive()

    async def send_all(self, data: Any) -> None:
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def measure(kind: Kind, calls: int, meter: Meter, *, lean: bool, size: int = READ) -> Cost:
    """Return the cost of a read of that kind on a connection with so many calls."""
    return trio.run(_measure, kind, calls, meter, lean, size, clock=MockClock(autojump_threshold=0))


async def _measure(kind: Kind, calls: int, meter: Meter, lean: bool, size: int) -> Cost:
    server = _Server()
    options = WireOptions(lean=lean, overhead_rate=NO_FLOOD, max_read_delay=0)
    connection = Connection(server, peer="10.0.0.1:443", options=options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        window = 0 if kind.waiting else 65_535
        server.say(_settings((MAX_CONCURRENT_STREAMS, 10**6), (INITIAL_WINDOW_SIZE, window)))
        server.say(frame(WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4)))
        assert await connection.wait_ready()
        streams = []
        for number in range(calls):
            stream = connection.open_stream(Request("/shop.Cart/Add", "shop", message=bytes(9000)))
            assert stream is not None
            streams.append(stream)
            if not number % 50:
                await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        numbers = [stream.id for stream in streams]
        assert all(numbers)
        if kind.begun:
            for number in numbers:
                server.say(frame(HEADERS, END_HEADERS, number, _RESPONSE))
                await wait_all_tasks_blocked()
        data = kind.read(numbers, size)
        steps = _Steps(meter)
        trio.lowlevel.add_instrument(steps)
        with meter.measuring():
            server.say(data)
            await wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)
        nursery.cancel_scope.cancel()
    return Cost(len(data), steps.total, steps.longest)
