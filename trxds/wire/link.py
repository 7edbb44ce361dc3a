"""One end of a connection: a reader and a writer around the engine, for client and server alike.

Everybody appends to the engine's buffer by plain functions, and the writer takes everything that is
pending in one go, in the scheduler's next pass: what fifty callers have said in this one is one write. A
caller that is alone has nobody to wait for: `_flush` offers its bytes to the socket at once. So an idle
connection is one task, its reader; the writer begins when something has to wait for the first time. No task
but the writer waits for the socket, so one that is cancelled leaves no half frame behind. Streams
whose message did not fit wait in the `SendQueue`.

Nothing here takes long at once, whatever the peer says and however many streams are open: the engine reads a few
hundred frames at a time, and few streams are served in one go. What is left is done after a checkpoint, by the
reader and the writer.

Bounds: see `WireOptions`. The connection's window is given back as bytes arrive, so a stream that
nobody reads never holds up the others; its own window holds up itself.
"""

from __future__ import annotations

import contextvars
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, assert_never

import trio

from trxds.ground.status import Status, StatusCode, unavailable

from .disconnects import SHUTDOWN, UNKNOWN, lost_by
from .engine import Engine
from .events import (
    Answered,
    Broken,
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersTooLarge,
    PingAcked,
    SettingsReceived,
    StreamBroken,
    StreamReset,
    WindowOpened,
    code_name,
)
from .flood_guard import EARNED, FloodGuard
from .message_stream import MessageStream
from .options import WireOptions
from .seat import Seat
from .send_queue import SendQueue
from .tls import tls_cause
from .transport import transport_of
from .window_estimate import WindowEstimate

S = TypeVar("S", bound=MessageStream)

_HOW_FAR = b"how far?"
_BURST = 4  # so many full buffers may leave in one step
_LITTLE_OVERHEAD = 30  # frames, which are counted later
ENDS = 32
"""So many streams may end in one step for a reason that they share."""


class Link(ABC, Generic[S]):
    """`run()` is the connection's life; the rest are plain functions that its streams call."""

    def __init__(self, transport: trio.abc.Stream, engine: Engine, *, peer: str, options: WireOptions) -> None:
        self.peer = peer
        self.options = options
        self.engine = engine
        self.streams: dict[int, S] = {}
        self.over: Status | None = None  # why nothing is sent or read any more
        self.disconnect = SHUTDOWN  # the same in a word for metrics; ours if nothing else happens first
        # Half a window: while we owe less than that, the peer still has the other half to send.
        self.stream_credit = options.stream_window // 2
        # A quarter: an engine keeps back up to a half for streams that have ended.
        self._connection_window = options.connection_window
        self._connection_credit = options.connection_window // 4
        self._owed = 0
        self._given_back = 0  # of the connection's window, all in all
        self._estimate = WindowEstimate(options.stream_window, options.most_stream_window)
        self._transport = transport_of(transport)
        self._unwritten: bytes | memoryview = b""  # taken from the engine; only the writer may wait with it
        self.send_queue: SendQueue[S] = SendQueue(engine, options.unsent_bound, self._left_behind)
        self._behind = False  # something is left of what there is room for
        self._flood_guard = FloodGuard(options.overhead_rate)
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None  # while a writer can begin
        self._context = contextvars.Context()
        self.now = trio.lowlevel.current_clock().current_time
        self._has_writer = False
        self._writer, self._reader = Seat(), Seat()
        self.messages_sent = self.messages_received = self.pings_sent = 0
        self.last_sent = self.last_received = -math.inf
        """When the last message was handed over, and when the last one that was taken had come, on Trio's clock."""
        self.last_read = 0.0
        """When a byte last came, on Trio's clock."""
        self._afterwards: Callable[[], None] | None = None  # what is left to do when all events of a read are handled

    @property
    def stream(self) -> trio.abc.Stream:
        """What it stands on, for who asks for addresses and certificates."""
        return self._transport.stream

    # -- the two tasks

    async def run(self) -> None:
        """Read and write until the connection is over, for whichever reason; `over` tells."""
        try:
            with self._scope:
                self._context = contextvars.copy_context()
                async with trio.open_nursery() as self._nursery:
                    try:
                        self._begin(self._nursery)
                        self._wrote()
                        await self._read()
                    finally:
                        self._nursery = None
        finally:
            self._end(unavailable(f"{self.peer}: the connection was shut down"))
            await self._transport.close()

    def _start(self, task: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Start what ends with the connection. It must not inherit the context of the RPC that needed it."""
        assert self._nursery is not None
        self._context.run(partial(self._nursery.start_soon, task, *args, name=f"wire/{name}/{self.peer}"))

    def _begin(self, nursery: trio.Nursery) -> None:
        """Start what runs beside reader and writer; it ends with them."""

    async def _write(self) -> None:
        while self.engine.outgoing.unsent or self._unwritten or self.over is None:
            if self._behind:
                self._use_room()
            self._flush_much()
            if self._unwritten:
                try:
                    await self._transport.send_all(self._unwritten)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self.lost(error)
                self._unwritten = b""
            else:
                await self._writer.wait(self._writer_is_due)
        self._scope.cancel()

    def _flush_much(self) -> None:
        """Offer what is pending, and what then has room; not for ever, as others want to run."""
        for _ in range(_BURST):
            self._flush()
            if self._unwritten or self._behind or not self.engine.outgoing.unsent:
                return

    def _flush(self) -> None:
        """Offer what is pending to the transport; what that does not take at once is the writer's."""
        if self._unwritten or not self.engine.outgoing.unsent:
            return
        data = self._unwritten = self.engine.outgoing.take()
        self._taken()  # which may call us again: for nothing, as long as there is something unwritten
        self._reader.look()
        sent = self._transport.send_nowait(data)
        self._unwritten = memoryview(data)[sent:] if sent < len(data) else b""
        if self._unwritten or self.engine.outgoing.unsent:
            self._write_soon()

    def _wrote(self) -> None:
        """The caller's step has appended all that it has to say."""
        if self._transport.at_once and len(self.streams) < 2 and self.over is None:
            self._flush()
        else:
            self._write_soon()

    def _write_soon(self) -> None:
        """What is pending goes out in the scheduler's next pass."""
        if self._has_writer:
            self._writer.look()
        elif self._nursery is not None and self._something_to_write():
            self._has_writer = True
            self._start(self._write, name="writer")

    def _taken(self) -> None:
        """What was pending is on its way, so there is room."""
        self._use_room()

    def _use_room(self) -> None:
        """Send what there is room for, not more than a step's worth."""
        self._behind = False
        self.send_queue.serve()

    def _left_behind(self) -> None:
        """A step's worth was done and there is more: the writer goes on in the scheduler's next pass."""
        self._behind = True
        self._write_soon()

    async def _read(self) -> None:
        while self.over is None:
            if self.engine.unread:  # also what a guest left
                await trio.lowlevel.checkpoint()
                if self.over is None:
                    self.take(b"")
            else:
                try:
                    data = await self._transport.receive()
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    return self.lost(error)
                self.take(data)
            if not self.engine.unread and (meanwhile := self._meanwhile()) is not None:
                await meanwhile()
            if self.engine.outgoing.control_unsent > self.options.control_bound:
                await self._reader.wait(self._control_taken)

    def take(self, data: bytes) -> None:
        """What a read has brought, as much of it as one step may take. Nothing for the next step, or at the end."""
        engine = self.engine
        if data:
            self.last_read = self.now()
        elif not engine.unread:
            return self.lost(None)
        self._handle(engine.receive(data))
        if engine.overhead > _LITTLE_OVERHEAD:
            self._check_overhead()
        if engine.outgoing.unsent:
            self._wrote()
        if self._afterwards is not None:
            afterwards, self._afterwards = self._afterwards, None
            afterwards()

    def _check_overhead(self) -> None:
        engine = self.engine
        overhead, engine.overhead = engine.overhead, 0
        if not self._flood_guard.admits(overhead, engine.outgoing.frames_sent, self.last_read) and self.over is None:
            self._flooded()

    def _meanwhile(self) -> Callable[[], Awaitable[None]] | None:
        """What the reader does before it reads on."""
        return None

    def _something_to_write(self) -> bool:
        return self.engine.outgoing.unsent > 0 or len(self._unwritten) > 0 or self._behind

    def _writer_is_due(self) -> bool:
        return self.engine.outgoing.unsent > 0 or self._behind or self.over is not None

    def _control_taken(self) -> bool:
        return self.engine.outgoing.control_unsent <= self.options.control_bound or self.over is not None

    # -- what was read

    def _handle(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Answered():
                    self._answered(event)
                case HeadersReceived():
                    self._headers(event)
                case DataReceived():
                    self._data(event)
                case WindowOpened():
                    self._window_opened(event.stream_id)
                case HeadersTooLarge():
                    self._headers_too_large(event)
                case StreamReset():
                    stream = self.streams.get(event.stream_id)
                    if stream is not None:
                        stream.was_reset(event.code)
                case StreamBroken():
                    self._stream_broken(event)
                case SettingsReceived():
                    self._settings()
                case GoAwayReceived():
                    self._goaway(event)
                case PingAcked():
                    self._pinged(event)
                case Broken():
                    self._broken(event)
                case _ as never:
                    assert_never(never)

    @abstractmethod
    def _headers(self, event: HeadersReceived) -> None: ...

    def _answered(self, event: Answered) -> None:
        self._handle(event.parts)

    def _headers_too_large(self, event: HeadersTooLarge) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return self.reset(event.stream_id, ErrorCode.ENHANCE_YOUR_CALM)
        limit = f"the limit of {self.options.max_header_list}; raise max_metadata_size"
        text = f"{self.peer}: it sent headers of {event.size} bytes, which is more than {limit}"
        stream.refuse(Status(StatusCode.RESOURCE_EXHAUSTED, text))

    def _stream_broken(self, event: StreamBroken) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            text = f"{self.peer}: {code_name(event.code)}: {event.message}"
            stream.fail(Status(StatusCode.INTERNAL, text))

    @abstractmethod
    def _goaway(self, event: GoAwayReceived) -> None: ...

    def _data(self, event: DataReceived) -> None:
        self._owed += event.flow_length
        if self._owed >= self._connection_credit:
            self._give_back()
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.accept(event)

    def _give_back(self) -> None:
        """So much of the connection's window was used that it is worth a frame."""
        self.engine.credit(0, self._owed)
        self._given_back += self._owed
        self._owed = 0

    def _settings(self) -> None:
        """The windows of all streams may have changed."""
        self.send_queue.look_again()

    def _window_opened(self, stream_id: int) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None:
            self.send_queue.append(stream)
        self.send_queue.serve()

    def _pinged(self, event: PingAcked) -> None:
        """For a sign of life `last_read` is enough."""
        estimate = self._estimate
        if event.payload == _HOW_FAR and estimate.grows(self._given_back + self._owed, trio.current_time()):
            self.engine.widen(estimate.window)
            self.stream_credit = estimate.window // 2
            if 2 * estimate.window > self._connection_window:
                self.engine.credit(0, 2 * estimate.window - self._connection_window)
                self._connection_window = 2 * estimate.window

    def ping(self) -> None:
        """Ask the peer for a sign of life, which `last_read` will show. Plain."""
        if self.over is None:
            self.pings_sent += 1
            self.engine.ping(b"alive?  ")
            self._write_soon()

    # -- what streams ask for

    def push(self, stream: S) -> None:
        """The stream has something to send: a message, or the end of its half."""
        if not stream.id:
            return  # its headers come first
        if not stream.waits_for_room:
            stream.push(0)  # the end alone needs no room
        else:
            self.send_queue.send(stream)
        self._wrote()

    def credit(self, stream_id: int, size: int) -> None:
        """Give a stream's window back to the peer."""
        self.engine.credit(stream_id, size)
        # A server at its window's end has sent the rest of it by now, so what is given back counts too.
        if self._estimate.begins(self._given_back + self._owed - size, trio.current_time()):
            self.engine.ping(_HOW_FAR)
        self._write_soon()

    def reset(self, stream_id: int, code: int) -> None:
        """End a stream at once; on a connection that is over, every stream has ended."""
        if self.over is None:
            self.engine.reset(stream_id, code)
            self._write_soon()

    # -- the end

    def close(self, status: Status) -> None:
        """Fail every stream with `status`, say goodbye, and let `run()` return."""
        if self.over is None:
            self.engine.goaway()
        self._end(status, flush=True)

    def _end(self, status: Status, *, flush: bool = False) -> None:
        if self.over is not None:
            return
        self.over = status
        self.engine.unread = b""
        self._behind = False
        self.send_queue.clear()
        self._ended(status)
        if flush:
            self._flush()
        if flush and self._something_to_write():
            self._scope.deadline = trio.current_time() + self.options.flush_timeout
            self._write_soon()  # and the writer ends it
        else:
            self._scope.cancel()

    def _ended(self, status: Status) -> None:
        """No stream can go on."""
        self._end_streams(tuple(self.streams.values()), lambda stream: stream.fail(status))

    def _end_streams(self, streams: Sequence[S], end: Callable[[S], None]) -> None:
        """End them in their order; of more than a few the others in the scheduler's next passes.

        Each wakes a task that has work to do, and a thousand in one pass would keep everybody else waiting.
        """
        at_once = ENDS if self._nursery is not None else len(streams)
        for stream in streams[:at_once]:
            end(stream)
        if len(streams) > at_once:
            self._start(self._end_others, streams[at_once:], end, name="ends")

    async def _end_others(self, streams: Sequence[S], end: Callable[[S], None]) -> None:
        for start in range(0, len(streams), ENDS):
            await trio.lowlevel.cancel_shielded_checkpoint()
            for stream in streams[start : start + ENDS]:
                end(stream)

    def lost(self, error: BaseException | None) -> None:
        self.disconnect = lost_by(error)
        self._end(unavailable(f"{self.peer}: {self._loss(error)}"))

    def _loss(self, error: BaseException | None) -> str:
        """What became of the transport."""
        return f"connection lost: {tls_cause(error)}" if error is not None else "connection closed by the peer"

    def _broken(self, event: Broken) -> None:
        self.disconnect = UNKNOWN
        self._end(unavailable(f"{self.peer}: {code_name(event.code)}: {event.message}"), flush=True)

    def _flooded(self) -> None:
        self.disconnect = UNKNOWN
        self.engine.goaway(ErrorCode.ENHANCE_YOUR_CALM, b"too many frames that carry nothing of a call")
        allowed = f"more than {self.options.overhead_rate:g} a second and {EARNED} for each of ours"
        text = f"{self.peer}: ENHANCE_YOUR_CALM: it sent too many frames that carry nothing of a call, {allowed}"
        self._end(unavailable(text), flush=True)
