"""One end of an HTTP/2 connection below its streams, the same for a client's connection and a server's.

It holds the engine, its reader and writer, the windows, and the queue of streams that send; an idle connection is one
task, its reader. No step takes long, however many streams are open: few are served, or ended, in one step.

All bounds are in `WireOptions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import trio

from trxds.core.status import Status, StatusCode, unavailable

from .connection_tasks import ConnectionTasks
from .disconnect_reason import SHUTDOWN, UNKNOWN, disconnect_reason
from .engine import Http2Engine
from .events import (
    ConnectionFailed,
    ErrorCode,
    Event,
    HeadersTooLarge,
    PingAcked,
    SettingsReceived,
    StreamFailed,
    StreamReset,
    WindowUpdated,
    code_name,
)
from .flood_guard import EARNED_PER_FRAME
from .flow_control import FlowControl
from .options import WireOptions
from .reader import Reader
from .role import Role
from .send_queue import Sender, SendQueue
from .tls import tls_cause
from .transport import transport_of
from .writer import Writer


class Http2Stream(Protocol):
    """The events of a stream, at a client and at a server."""

    @property
    def outgoing(self) -> Sender | None:
        """The sending half, if the stream has more to send."""

    def refuse(self, problem: Status) -> None:
        """End the stream because the peer sent something that cannot be part of a call."""

    def was_reset(self, code: int) -> None:
        """End the stream because the peer reset it."""

    def fail(self, status: Status) -> None:
        """End the stream because the connection ended, or the peer broke a rule on the stream."""


class ConnectionCounts:
    """Counts of one connection; channelz shows those of messages and PINGs (A14).

    Times are on Trio's clock, which `now` reads.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.messages_sent = self.messages_received = self.pings_sent = 0
        self.last_sent = -math.inf
        """The time when the last message was handed over."""
        self.last_received = -math.inf
        """The time of the last read when the last message was taken."""
        self.own_streams = 0
        """The number of a channel's own streams, which are no calls: health checks (A17) and load reports (A51)."""

    def count_sent(self, messages: int) -> None:
        """Count messages that were handed over now."""
        self.messages_sent += messages
        self.last_sent = self.now()


class Http2Connection:
    """One end of a connection; it owns the transport.

    It lives while `run()` runs; all other methods are synchronous. When it has sent a GOAWAY, it reads on for at most
    `linger` seconds before it closes, so that the peer gets the GOAWAY.
    """

    def __init__(
        self,
        transport: trio.abc.Stream,
        engine: Http2Engine,
        role: Role,
        streams: Mapping[int, Http2Stream],
        *,
        peer: str,
        options: WireOptions,
        linger: float = 0.0,
    ) -> None:
        self.peer = peer
        self.options = options
        self.engine = engine
        self.streams = streams
        """The open streams; the role adds and removes them."""
        self.closed_status: Status | None = None
        """The reason why nothing is sent or read any more; None while the connection works."""
        self.disconnect = SHUTDOWN
        """The same as a word for metrics (A94)."""
        self.loss_hint = ""
        """The likely reason why a transport is lost or a stream is reset, for the error: before the peer's SETTINGS, or
        after its GOAWAY."""
        self._role = role
        self._linger = linger  # 0 once the connection has ended without a GOAWAY
        now = trio.lowlevel.current_clock().current_time
        raw = transport_of(transport)
        self.counts = ConnectionCounts(now)
        self.tasks = ConnectionTasks(peer)
        self.flow = FlowControl(engine, options)
        self.writer = Writer(engine.outgoing, raw, self.tasks, role, streams, self.on_write_failed)
        self.reader = Reader(engine, raw, self.writer, role, options, now, self.on_transport_lost, self.on_flood)
        self.send_queue = SendQueue(engine, options.unsent_bound, self.writer)

    async def run(self, begin: Callable[[], None] | None = None) -> None:
        """Read and write until the connection ends for any reason; `begin` starts further tasks."""
        try:
            async with trio.open_nursery() as nursery:
                self.tasks.open(nursery)
                try:
                    if begin is not None:
                        begin()
                    self.writer.flush_or_schedule()
                    await self.reader.run()
                finally:
                    self.tasks.close()
            if self._linger:
                await self.reader.transport.linger(self._linger)
        finally:
            # Only synchronous functions and an abrupt close: any other wait of a cancelled task would raise at once.
            self.end(unavailable(f"{self.peer}: the connection was shut down"))
            await self.reader.transport.close()

    # -- what was read, where client and server do the same

    def handle(self, event: Event) -> None:
        """Handle any event except those that begin, carry or end a call."""
        match event:
            case StreamReset():
                stream = self.streams.get(event.stream_id)
                if stream is not None:
                    stream.was_reset(event.code)
            case StreamFailed():
                stream = self.streams.get(event.stream_id)
                if stream is not None:
                    text = f"{self.peer}: {code_name(event.code)}: {event.message}"
                    stream.fail(Status(StatusCode.INTERNAL, text))
            case HeadersTooLarge():
                self._refuse_headers(event)
            case WindowUpdated():
                stream = self.streams.get(event.stream_id)
                if stream is not None and stream.outgoing is not None:
                    self.send_queue.append(stream.outgoing)
                self.send_queue.drain()
            case SettingsReceived():
                # INITIAL_WINDOW_SIZE changes the window of every stream (RFC 9113 §6.9.2).
                self.send_queue.recheck_blocked()
            case PingAcked():
                self.flow.ping_acked(event.payload)  # keepalive needs no event, as it looks at `reader.last_read`
            case ConnectionFailed():
                text = f"{self.peer}: {code_name(event.code)}: {event.message}"
                self.end(unavailable(text), disconnect=UNKNOWN, flush=True)

    def _refuse_headers(self, event: HeadersTooLarge) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is None:  # at a server: the headers were a request's
            return self.reset(event.stream_id, ErrorCode.ENHANCE_YOUR_CALM)
        limit = f"the limit of {self.options.max_header_list}; raise max_metadata_size"
        text = f"{self.peer}: it sent headers of at least {event.size} bytes, which is more than {limit}"
        stream.refuse(Status(StatusCode.RESOURCE_EXHAUSTED, text))

    # -- what streams ask for

    def push(self, sender: Sender) -> None:
        """Send for a stream that has a message or the end of its half to send."""
        if not sender.id:
            return  # its headers have to leave first
        if not sender.waits_for_room:
            sender.push(0)  # the end alone needs no room
        else:
            self.send_queue.send(sender)
        self.writer.flush_or_schedule()

    def open_stream_window(self, stream_id: int, size: int) -> None:
        """Let the peer send `size` more bytes on a stream."""
        self.flow.open_stream_window(stream_id, size)
        self.writer.write_soon()

    def reset(self, stream_id: int, code: int) -> None:
        """End a stream at once. On a connection that has ended, every stream has ended already."""
        if self.closed_status is None:
            self.engine.reset(stream_id, code)
            self.writer.write_soon()

    def ping(self) -> None:
        """Send a PING; `reader.last_read` shows whether anything came back. Synchronous."""
        if self.closed_status is None:
            self.counts.pings_sent += 1
            self.engine.ping(b"alive?  ")
            self.writer.write_soon()

    # -- the end

    def close(self, status: Status, *, disconnect: str | None = None) -> None:
        """Fail every stream with `status`, send GOAWAY, and let `run()` return."""
        if self.closed_status is None:
            self.engine.goaway()
        self.end(status, disconnect=disconnect, flush=True)

    def end(self, status: Status, *, disconnect: str | None = None, flush: bool = False) -> None:
        """Fail every stream with `status`; with `flush`, the output may still leave for a limited time."""
        if self.closed_status is not None:
            return
        # The state changes first, because streams that end now call this object again.
        self.closed_status = status
        self.disconnect = disconnect or self.disconnect
        self.writer.close()
        self.reader.close()
        self.send_queue.clear()
        self._role.ended(status)
        if flush:
            self.writer.flush()
        else:
            self._linger = 0.0
        if flush and self.writer.is_pending:
            self.tasks.cancel(at=trio.current_time() + self.options.flush_timeout)
            self.writer.write_soon()  # the writer's task ends the connection
        else:
            self.tasks.cancel()

    def on_transport_lost(self, error: BaseException | None) -> None:
        """End the connection because the transport is gone."""
        lost = f"connection lost: {tls_cause(error)}" if error is not None else "connection closed by the peer"
        self.end(unavailable(f"{self.peer}: {lost}{self.loss_hint}"), disconnect=disconnect_reason(error))

    def on_write_failed(self, error: BaseException) -> None:
        """End the connection because the transport takes no more bytes."""
        # A server that closes may have said why by a GOAWAY, and which streams may be sent again: it is still to read.
        # Over TLS it has been read by now (`BelowTls`), unless the reader was paused for half a second.
        self.reader.take_rest()
        self.on_transport_lost(error)
        self.tasks.cancel()  # a connection that has ended before has no more output to wait for

    def on_flood(self) -> None:
        """End the connection with ENHANCE_YOUR_CALM because of too many frames that carry nothing of a call."""
        # RFC 9113 §10.5: a flood is a connection error of this type.
        self.engine.goaway(ErrorCode.ENHANCE_YOUR_CALM, b"too many frames that carry nothing of a call")
        allowed = f"more than {self.options.overhead_rate:g} a second and {EARNED_PER_FRAME} for each of ours"
        text = f"{self.peer}: ENHANCE_YOUR_CALM: it sent too many frames that carry nothing of a call, {allowed}"
        self.end(unavailable(text), disconnect=UNKNOWN, flush=True)
