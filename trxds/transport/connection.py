"""A client's connection decides when it takes new streams, and when it takes no more."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

import trio

from trxds.core.status import Status, unavailable

from .client_stream import ClientStream
from .disconnect_reason import UNKNOWN, goaway_reason
from .engine import Http2Engine
from .events import (
    DataReceived,
    Event,
    GoAwayReceived,
    HeadersReceived,
    SettingsReceived,
    UnaryResponse,
    WindowUpdated,
    code_name,
)
from .fast_http2 import FastHttp2Engine
from .framing import PREFIX_SIZE
from .http2_connection import Http2Connection
from .inline_read import READ_FRESHNESS, InlineReads
from .keepalive import Keepalive, set_user_timeout
from .options import WireOptions
from .read_coalescing import MIN_CALLS_TO_COALESCE, MIN_CALLS_TO_PAUSE, ReadCoalescing
from .request import Request, RequestHeaders
from .response import ResponseHeaderParser
from .stream_gathering import StreamGathering
from .stream_table import StreamTable
from .tls import certificate_doubt
from .transport import Transport


class ConnectionOwner(Protocol):
    """The subchannel of a connection, as far as the connection knows it. None of these may be a checkpoint."""

    def on_ready(self, connection: Connection) -> None:
        """Take the connection into use. Called once, when the server's SETTINGS have come.

        Before them the peer may be anything that accepts connections. It is not called if the same read ended the
        connection (by a GOAWAY, say).
        """

    def on_draining(self, connection: Connection) -> None:
        """Take the connection out of use, because it takes no new streams. No stream has been refused yet."""

    def on_full(self, connection: Connection) -> None:
        """Find room for the streams that wait, perhaps on another connection to the host (A105)."""


class Connection:
    """One HTTP/2 connection to `peer` over a connected transport, which it owns.

    It takes new streams until the server sends GOAWAY, `drain()` or `close()` is called, or the transport is lost. Its
    `owner` learns of that, if it has one.
    """

    def __init__(
        self,
        transport: trio.abc.Stream,
        *,
        peer: str,
        options: WireOptions | None = None,
        keepalive: Keepalive | None = None,
        owner: ConnectionOwner | None = None,
    ) -> None:
        options = options or WireOptions()
        tls = transport.context if isinstance(transport, trio.SSLStream) else None
        open_streams: dict[int, ClientStream] = {}
        self.http2 = Http2Connection(transport, _engine(options), self, open_streams, peer=peer, options=options)
        # A server that closes before its first frame often expects other credentials, and does not say so.
        doubt = certificate_doubt(tls) if tls is not None else "speak TLS"
        self.http2.loss_hint = f" before HTTP/2 began; does it {doubt}?"
        self._headers = RequestHeaders(peer, b"https" if tls is not None else b"http", options.user_agent)
        self.streams = StreamTable(self.http2, open_streams, self._headers, self)
        self.inline_reads = InlineReads(self.http2.reader, self.http2.flow, open_streams)
        self.response_parser = ResponseHeaderParser(peer)
        self.since = trio.current_time()
        self.error: Status | None = None
        """The reason why it takes no new streams; None while it does."""
        self.goaway: int | None = None
        """The error code of the server's GOAWAY."""
        self.owner = owner
        self._keepalive = keepalive
        if keepalive is not None:
            # A18: a PING that the socket cannot send would wait for as long as the kernel tries.
            set_user_timeout(transport, keepalive.timeout)
        self._coalescing: ReadCoalescing | None = None  # made for the first read that finds several calls
        self._stream_gathering: StreamGathering | None = None  # made for the first data of a lone stream
        self._has_data = False  # whether the last read had data of a stream
        self._settings_event: trio.Event | None = None  # made when the first task waits
        self._has_settings = False  # the server's SETTINGS have come

    def __repr__(self) -> str:
        state = "over" if self.closed_status else "draining" if self.error else "open"
        return f"<Connection {self.peer} {state}, {len(self.streams)} streams>"

    @property
    def peer(self) -> str:
        """The address of the server."""
        return self.http2.peer

    @property
    def closed_status(self) -> Status | None:
        """The reason why nothing is sent or read any more; None while the connection works."""
        return self.http2.closed_status

    @property
    def ready(self) -> bool:
        """Whether the server's SETTINGS have come and the connection takes new streams."""
        return self._has_settings and self.error is None

    @property
    def last_taken(self) -> int:
        """The identifier of the last stream whose headers were handed to the transport."""
        return self.streams.last_taken

    async def wait_ready(self) -> bool:
        """Wait for the server's SETTINGS; False if the connection ended first."""
        if self._settings_event is None:
            self._settings_event = trio.Event()
            self._notify_settings()
        await self._settings_event.wait()
        return self._has_settings and self.closed_status is None

    def run(self) -> Awaitable[None]:
        """Read and write until the connection has ended; `closed_status` has the reason."""
        http2, start = self.http2, None
        if self._keepalive is not None:
            start = partial(http2.tasks.start, self._keepalive.watch, http2, self.streams, name="keepalive")
        return http2.run(start)  # no coroutine of its own: a thousand idle connections would keep one each

    # -- streams

    def open_stream(self, request: Request) -> ClientStream | None:
        """Begin a call; None if the connection takes no new streams. Never a checkpoint.

        When the server has as many streams as it allows, or the buffer is full, the stream waits in a queue. It can be
        used, but nothing of it is sent, and its timeout is computed, only when it opens. If the headers are larger than
        the server takes, the stream ends at once and is never sent.
        """
        http2, streams = self.http2, self.streams
        now = http2.counts.now()
        # No task has read since the last call ended: a GOAWAY that came meanwhile must not fail this call.
        if self.inline_reads.is_delegated and self.error is None:
            if now > http2.reader.last_read + READ_FRESHNESS:
                self.inline_reads.catch_up()
            if request.message is None:
                self.inline_reads.reclaim()  # only callers of unary calls can be leaders
        if self.error is not None:
            return None
        stream = ClientStream(self, request)
        if request.metadata and (problem := self._headers.size_error(request, now)) is not None:
            stream.fail(problem)
        elif not streams.has_room() or streams.waiting:
            if http2.engine.exhausted:  # so this connection takes no more streams
                return None
            streams.waiting[stream] = None
            self.inline_reads.reclaim()
            if self.owner is not None:
                self.owner.on_full(self)
        elif streams.begin(stream, now) and streams.none_taken():
            http2.writer.flush_first_half()
        else:
            # With the other requests of this pass, and with the first message if that is still to come.
            http2.writer.write_soon()
        return stream

    def forget(self, stream: ClientStream, *, broken: bool) -> None:
        """Remove a stream that has ended and open the next one in the queue."""
        streams = self.streams
        if stream is self.inline_reads.leader:
            self.inline_reads.interrupt()
        streams.forget(stream)
        if broken:
            streams.broken += 1
        if streams.waiting:
            streams.begin_waiting()
        if self.error is not None:
            self._close_when_drained()

    def output_taken(self) -> None:
        streams = self.streams
        streams.last_taken = streams.last_opened
        if self.http2.send_queue.queued or streams.waiting:
            self.use_room()

    def use_room(self) -> None:
        self.http2.send_queue.drain()
        self.streams.begin_waiting()

    # -- what was read

    def handle(self, events: Iterable[Event]) -> None:
        http2, streams, read_at = self.http2, self.streams.open, self.http2.reader.last_read
        was_settled = self._has_settings
        calls = len(streams)
        coalescing = self._coalescing
        if calls >= MIN_CALLS_TO_COALESCE and coalescing is None:
            coalescing = self._coalescing = ReadCoalescing(http2.options.max_read_delay)
        has_data = False
        answers, newest = 0, -math.inf  # the calls that this read answers, and when the newest of them began
        for event in events:
            match event:
                case UnaryResponse():
                    http2.flow.count_received(PREFIX_SIZE + len(event.message))
                    stream = streams.get(event.stream_id)
                    if stream is not None:
                        answers += 1
                        if stream.opened_at > newest:
                            newest = stream.opened_at
                        stream.accept_answer(event)
                case HeadersReceived():
                    stream = streams.get(event.stream_id)
                    if stream is not None:
                        if event.end:
                            answers += 1
                            newest = max(newest, stream.opened_at)
                        stream.accept_headers(event)
                case DataReceived():
                    http2.flow.count_received(event.flow_length)
                    stream = streams.get(event.stream_id)
                    if stream is not None:
                        stream.accept(event)
                    has_data = True
                    if calls >= MIN_CALLS_TO_COALESCE and coalescing is not None:
                        coalescing.note_data(event.stream_id, read_at)
                case SettingsReceived():
                    self._handle_settings(event)
                case GoAwayReceived():
                    self._handle_goaway(event)
                case WindowUpdated():
                    http2.handle(event)
                    if coalescing is not None:
                        coalescing.stream_activity(read_at)
                case _:
                    http2.handle(event)
        self._has_data = has_data
        if answers and calls >= MIN_CALLS_TO_COALESCE and coalescing is not None:
            coalescing.count_answers(answers, calls, read_at - newest, http2.reader.last_size, read_at)
        # Only after the whole read: a server may send SETTINGS and GOAWAY together, and is not ready then.
        if self._has_settings and not was_settled and self.owner is not None and self.error is None:
            self.owner.on_ready(self)

    def before_read(self) -> Callable[[], Awaitable[None]] | None:
        """Return a wait in which answers or messages gather, or in which callers read for themselves, or None."""
        streams, reader = self.streams.open, self.http2.reader
        coalescing, transport = self._coalescing, reader.transport
        is_lone_stream = len(streams) == 1 and self._has_data and transport.can_gather
        if self._stream_gathering is not None and not is_lone_stream:
            self._stream_gathering.forget_wait()
        if coalescing is not None and len(streams) > 1:  # others may have been answered
            if transport.can_gather:
                return _gather(transport, *coalescing.gather(streams.keys(), reader.last_read))
            pause = coalescing.pause(streams.keys(), reader.last_read) if len(streams) >= MIN_CALLS_TO_PAUSE else 0.0
            return partial(trio.sleep, pause) if pause else None
        if is_lone_stream:
            if self._stream_gathering is None:
                self._stream_gathering = StreamGathering(self.http2.options.max_read_delay)
            return _gather(transport, *self._stream_gathering.gather(reader.last_size, reader.last_read))
        if not streams and self.inline_reads.may_delegate(self.streams.last_opened):
            return self.inline_reads.delegate
        return None

    def _handle_settings(self, event: SettingsReceived) -> None:
        engine = self.http2.engine
        # RFC 9113 §6.5.3: settings hold from now on, also for streams that wait in the queue.
        self.streams.max_streams = engine.peer_max_streams
        self._headers.set_limit(engine.peer_max_header_list)
        self._has_settings = True
        self.http2.loss_hint = ""
        self._notify_settings()
        self.http2.handle(event)
        if self.streams.waiting:
            self.http2.writer.continue_later()
            if self.owner is not None:
                self.owner.on_full(self)

    def _notify_settings(self) -> None:
        if self._settings_event is not None and (self._has_settings or self.closed_status is not None):
            self._settings_event.set()

    def _handle_goaway(self, event: GoAwayReceived) -> None:
        # A8: "too_many_pings" halves the rate of PINGs for the whole channel.
        if self._keepalive is not None and self._keepalive.on_too_many_pings(event, self.peer):
            self._keepalive = None  # a server that repeats its GOAWAY must not halve the rate each time
        self.goaway = event.code
        self.http2.disconnect = goaway_reason(event.code)
        debug = f": {event.debug.decode('utf-8', 'replace')}" if event.debug else ""
        text = f"GOAWAY {code_name(event.code)}{debug}"
        # Calls that go on until the server closes the connection fail by that, and the reason is here.
        self.http2.loss_hint = f", after {text}"
        status = unavailable(f"{self.peer}: {text}")
        self._stop_opening(status)
        # RFC 9113 §6.8: streams up to the last identifier go on to their end; the others were not processed.
        above = self.streams.unprocessed_after(event.last_stream_id)
        self.http2.tasks.end_each(above, partial(ClientStream.fail, status=status, refused=True))
        self._close_when_drained()

    def on_identifiers_exhausted(self) -> None:
        # A94 has no word for used-up identifiers.
        self.http2.disconnect = UNKNOWN
        self._stop_opening(unavailable(f"{self.peer}: the connection has used all its stream identifiers"))
        self._close_when_drained()  # no stream may be left, whose end would do it

    def _stop_opening(self, status: Status) -> None:
        """Open no more streams, and refuse those in the queue."""
        self._drain(status)
        waiting = self.streams.pop_waiting()
        self.http2.tasks.end_each(waiting, partial(ClientStream.fail, status=status, refused=True))

    # -- the end

    def close(self, status: Status) -> None:
        """Fail every stream with `status`, send GOAWAY, and let `run()` return."""
        self.http2.close(status)

    def drain(self) -> None:
        """Take no new streams, and close when the last one has ended."""
        self._drain(unavailable(f"{self.peer}: the connection is no longer wanted"))
        self._close_when_drained()

    def _drain(self, status: Status) -> None:
        if self.error is None:
            self.error = status
            # First the state, then the callback: it may open streams, which have to be refused here.
            if self.owner is not None:
                self.owner.on_draining(self)

    def _close_when_drained(self) -> None:
        if self.error is not None and not self.streams:
            self.close(self.error)

    def ended(self, status: Status) -> None:
        self._notify_settings()
        self._stop_opening(status)
        # A6: a stream that the server cannot have seen is retried transparently, without a limit.
        last_taken = self.last_taken  # before a last flush raises it: those streams would wait in vain for answers
        self.http2.tasks.end_each(
            tuple(self.streams.open.values()),
            lambda stream: stream.fail(status, refused=stream.id > last_taken),
        )


def _engine(options: WireOptions) -> Http2Engine:
    if options.lean:
        return FastHttp2Engine(options)
    # Imported late: a client does not need h2, which servers use and tests.
    from .h2_engine import H2LibraryEngine

    return H2LibraryEngine(client=True, options=options)


def _gather(transport: Transport, size: int, seconds: float) -> Callable[[], Awaitable[None]] | None:
    return partial(transport.gather, size, seconds) if size else None
