"""A server's connection decides which calls it takes, how many run at a time, and when it takes no more."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeAlias

import trio

from trxds.core.metadata import Headers
from trxds.core.status import Status, unavailable
from trxds.transport.disconnect_reason import UNKNOWN
from trxds.transport.events import (
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersTooLarge,
    SettingsReceived,
    StreamFailed,
)
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.http2_connection import Http2Connection
from trxds.transport.options import WireOptions

from .malformed import malformed_request, malformed_trailers
from .requests import PlainAnswer, http_refusal
from .server_call import Call
from .server_limits import ResetBudget, ServerLimits

ServerStream: TypeAlias = Call | PlainAnswer

_log = logging.getLogger("trxds.server")

_LINGER = 1.0  # seconds to read on after a GOAWAY; clients close at once when they have it
_MAX_UNSENT_FACTOR = 4  # times `unsent_bound`: trailers and refusals do not wait for room


class HandlerSlots:
    """At most as many handlers run as streams may be open; further calls wait.

    A stream that is reset is no longer open, but its handler may still be busy: until that has returned, the next call
    waits (as in grpc-go).
    """

    __slots__ = ("_limit", "_running", "_start", "_waiting")

    def __init__(self, limit: int | None, start: Callable[[Call], None]) -> None:
        self._limit = limit
        self._start = start
        self._running = 0
        self._waiting: OrderedDict[Call, None] = OrderedDict()

    def begin(self, call: Call) -> None:
        """Start the call's handler, or let it wait for a slot."""
        if self._limit is not None and self._running >= self._limit:
            self._waiting[call] = None
        else:
            self._running += 1
            self._start(call)

    def ended(self) -> None:
        """Free the slot of a handler that has returned, and start the next call."""
        self._running -= 1
        if self._waiting:
            self.begin(self._waiting.popitem(last=False)[0])

    def forget(self, call: Call) -> None:
        """Remove a call that has ended; if it waited, its handler is never started."""
        self._waiting.pop(call, None)

    def clear(self) -> None:
        """Start none of the calls that wait."""
        self._waiting.clear()


class ServerConnection:
    """The connection of one client. `start` starts a call's handler, and calls `handlers.ended` when that has returned.

    `on_preface` is called when the client's SETTINGS have come; `on_request` with the headers of each request, until it
    returns true.
    """

    def __init__(
        self,
        transport: trio.abc.Stream,
        *,
        peer: str,
        options: WireOptions,
        limits: ServerLimits,
        max_receive_size: int,
        start: Callable[[Call], None],
        on_preface: Callable[[], None],
        on_request: Callable[[Headers], bool],
    ) -> None:
        self._engine = H2LibraryEngine(client=False, options=options)
        self.streams: dict[int, ServerStream] = {}
        self.http2 = Http2Connection(
            transport, self._engine, self, self.streams, peer=peer, options=options, linger=_LINGER
        )
        self.max_receive_size = max_receive_size
        self.is_draining = False
        self._on_preface = on_preface
        self._on_request: Callable[[Headers], bool] | None = on_request
        self.handlers = HandlerSlots(options.max_concurrent_streams, start)
        self._max_streams = options.max_concurrent_streams
        self._resets = ResetBudget(limits.max_resets, limits.resets_per_second, self.http2.counts.now())
        self._max_unsent = _MAX_UNSENT_FACTOR * options.unsent_bound

    def __repr__(self) -> str:
        return f"<ServerConnection {self.peer}{' draining' if self.is_draining else ''}, {len(self.streams)} calls>"

    @property
    def peer(self) -> str:
        """The client's address."""
        return self.http2.peer

    @property
    def closed_status(self) -> Status | None:
        """The reason why nothing is sent or read any more; None while the connection works."""
        return self.http2.closed_status

    def run(self) -> Awaitable[None]:
        """Serve the client until the connection is over."""
        return self.http2.run()

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"") -> None:
        """Take no new calls; close when all so far have ended."""
        self.is_draining = True
        self._engine.goaway(code, debug)
        self.http2.writer.write_soon()
        self._close_when_drained()

    def drop(self) -> None:
        """Close the connection without GOAWAY."""
        self.http2.end(unavailable("the server dropped the connection"))

    # -- what streams ask for

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers, behind the data that the stream has sent."""
        self._engine.send_headers(stream_id, headers, end=end)
        self.http2.writer.write_soon()

    def forget(self, stream_id: int) -> None:
        """Remove a stream that has ended."""
        stream = self.streams.pop(stream_id, None)
        if isinstance(stream, Call):
            self.handlers.forget(stream)
        self._close_when_drained()

    def call_served(self) -> None:
        """Count a call that has ended with a status."""
        self._resets.earn()

    def count_reset(self) -> None:
        """Count a call that the client reset before it was answered, or made us reset or refuse."""
        if self.closed_status is None and not self._resets.spend(self.http2.counts.now()):
            _log.info("%s: the connection ends, as too many of its calls were reset", self.peer)
            self._engine.goaway(ErrorCode.ENHANCE_YOUR_CALM, b"too many calls were reset")
            status = unavailable(f"{self.peer}: too many of its calls were reset")
            self.http2.end(status, disconnect=UNKNOWN, flush=True)

    # -- what was read

    def handle(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case HeadersReceived():
                    self._handle_headers(event)
                case DataReceived():
                    self.http2.flow.count_received(event.flow_length)
                    stream = self.streams.get(event.stream_id)
                    if stream is not None:
                        stream.accept(event)
                # MadeYouReset (CVE-2025-8671): a reset that the client provokes costs as much as its own.
                case StreamFailed() | HeadersTooLarge():
                    self.http2.handle(event)
                    self.count_reset()
                case SettingsReceived():
                    self._on_preface()
                    self.http2.handle(event)
                case GoAwayReceived():
                    pass  # a server opens no streams, so a client's GOAWAY changes nothing
                case _:
                    self.http2.handle(event)

    def _handle_headers(self, event: HeadersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if self.closed_status is not None:
            return  # an earlier event of this read ended the connection
        check = malformed_request if stream is None else malformed_trailers
        problem = check(event.headers)
        if problem is not None:
            # RFC 9113 §8.1.1: a malformed request costs its stream.
            self.http2.reset(event.stream_id, ErrorCode.PROTOCOL_ERROR)
            text = f"malformed request: {problem}"
            self.http2.handle(StreamFailed(event.stream_id, ErrorCode.PROTOCOL_ERROR, text))
            self.count_reset()
        elif stream is not None:  # trailers, which gRPC's requests do not use
            if event.end:
                stream.peer_ended()
        elif self.is_draining or (self._max_streams is not None and len(self.streams) >= self._max_streams):
            # RFC 9113 §5.1.2: a stream above the limit is refused, and may be retried; the others go on.
            self.http2.reset(event.stream_id, ErrorCode.REFUSED_STREAM)
            self.count_reset()
        else:
            self._begin_request(event)

    def _begin_request(self, event: HeadersReceived) -> None:
        if self._on_request is not None and self._on_request(event.headers):
            self._on_request = None
        refusal = http_refusal(event.headers)
        if refusal is not None:
            answer = self.streams[event.stream_id] = PlainAnswer(self, event.stream_id, is_receiving=not event.end)
            return answer.send(refusal)
        call = Call(self, event.stream_id, event.headers)
        self.streams[event.stream_id] = call
        # compression.md: an unknown encoding is UNIMPLEMENTED, and the answer names the known ones.
        problem = call.unreadable
        if problem is not None:
            call.incoming.is_open = not event.end
            return call.refuse(problem)
        self.handlers.begin(call)
        if event.end:
            call.peer_ended()

    def before_read(self) -> Callable[[], Awaitable[None]] | None:
        """Return a wait if the client does not read its answers: trailers and refusals wait for no window."""
        return None if self._has_room() else partial(self.http2.writer.taken.wait, self._has_room)

    def _has_room(self) -> bool:
        # Once the connection has ended nothing is written, so the reader must not wait for it.
        return self._engine.outgoing.unsent <= self._max_unsent or self.closed_status is not None

    def output_taken(self) -> None:
        self.http2.send_queue.drain()

    def use_room(self) -> None:
        self.http2.send_queue.drain()

    # -- the end

    def ended(self, status: Status) -> None:
        self.http2.tasks.end_each(tuple(self.streams.values()), lambda stream: stream.fail(status))
        self.handlers.clear()

    def _close_when_drained(self) -> None:
        if self.is_draining and not self.streams and self.closed_status is None:
            self.http2.end(unavailable("the server has drained"), flush=True)
