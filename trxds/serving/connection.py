"""A server's connection: which calls it takes, how many at a time, and when it takes no more of them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from trxds.ground.metadata import Headers
from trxds.ground.status import Status, unavailable
from trxds.wire.disconnects import UNKNOWN
from trxds.wire.events import ErrorCode, GoAwayReceived, HeadersReceived, HeadersTooLarge, StreamBroken
from trxds.wire.http2 import H2Engine
from trxds.wire.link import Link
from trxds.wire.options import WireOptions

from .call import Call
from .limits import ResetBudget, ServerLimits
from .malformed import malformed_request, malformed_trailers
from .requests import PlainAnswer, http_refusal

ServerStream: TypeAlias = Call | PlainAnswer

_log = logging.getLogger("trxds.serving")

_MOST_UNSENT = 4  # times the bound for senders: trailers and refusals do not wait for room


class ServerConnection(Link[ServerStream]):
    """One client. `start` begins a call's handler, and says `handler_ended` when that has returned.

    No more handlers run than streams may be open. A stream that is reset is open no longer, but its handler may still
    be busy: until that has returned, the next call waits (as in grpc-go).

    `on_preface` and `on_request` are called once: when the client's SETTINGS have come, and its first request.
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
    ) -> None:
        self._h2 = H2Engine(client=False, options=options)
        super().__init__(transport, self._h2, peer=peer, options=options)
        self.max_receive_size = max_receive_size
        self.draining = False
        self.on_preface: Callable[[], None] | None = None
        self.on_request: Callable[[], None] | None = None
        self._max_streams = options.max_concurrent_streams
        self._resets = ResetBudget(limits.max_resets, limits.resets_per_second, self.now())
        self._run_handler = start
        self._handlers = 0
        self._unstarted: OrderedDict[Call, None] = OrderedDict()
        self._most_unsent = _MOST_UNSENT * options.unsent_bound

    def __repr__(self) -> str:
        return f"<ServerConnection {self.peer}{' draining' if self.draining else ''}, {len(self.streams)} calls>"

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream_id: int | None = None) -> None:
        """Take no new calls; close when those up to `last_stream_id` (all so far) have ended."""
        self.draining = True
        self.engine.goaway(code, debug, last_stream_id)
        self._write_soon()
        self._close_when_drained()

    def drop(self) -> None:
        """Close the connection without a word."""
        self._end(unavailable("the server dropped the connection"))

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers, behind what the stream has sent."""
        self._h2.send_headers(stream_id, headers, end=end)
        self._write_soon()

    def forget(self, stream: ServerStream) -> None:
        """The stream is over."""
        self.streams.pop(stream.id, None)
        if self._unstarted and isinstance(stream, Call):
            self._unstarted.pop(stream, None)
        self._close_when_drained()

    # -- handlers

    def handler_ended(self) -> None:
        """A handler has returned, so the next call may begin."""
        self._handlers -= 1
        if self._unstarted:
            self._start_handler(self._unstarted.popitem(last=False)[0])

    def _start_or_wait(self, call: Call) -> None:
        if self._max_streams is not None and self._handlers >= self._max_streams:
            self._unstarted[call] = None
        else:
            self._start_handler(call)

    def _start_handler(self, call: Call) -> None:
        self._handlers += 1
        self._run_handler(call)

    # -- resets

    def call_served(self) -> None:
        """A call has ended with a status."""
        self._resets.earn()

    def count_reset(self) -> None:
        """The client has reset a call before it was answered, or made us reset or refuse one."""
        if self.over is None and not self._resets.spend(self.now()):
            self._too_many_resets()

    def _too_many_resets(self) -> None:
        _log.info("%s: the connection ends, as too many of its calls were reset", self.peer)
        self.disconnect = UNKNOWN
        self.engine.goaway(ErrorCode.ENHANCE_YOUR_CALM, b"too many calls were reset")
        self._end(unavailable(f"{self.peer}: too many of its calls were reset"), flush=True)

    def _refuse_stream(self, stream_id: int) -> None:
        self.reset(stream_id, ErrorCode.REFUSED_STREAM)
        self.count_reset()

    # -- what was read

    def _settings(self) -> None:
        if self.on_preface is not None:
            on_preface, self.on_preface = self.on_preface, None
            on_preface()
        super()._settings()

    def _headers(self, event: HeadersReceived) -> None:
        stream = self.streams.get(event.stream_id)
        if self.over is not None:
            return  # it came in one read with what ended the connection
        check = malformed_request if stream is None else malformed_trailers
        problem = check(event.headers)
        if problem is not None:
            self._malformed(event.stream_id, problem)
        elif stream is not None:
            if event.end:
                stream.peer_ended()
        elif self.draining or (self._max_streams is not None and len(self.streams) >= self._max_streams):
            self._refuse_stream(event.stream_id)
        else:
            self._request(event)

    def _request(self, event: HeadersReceived) -> None:
        if self.on_request is not None:
            on_request, self.on_request = self.on_request, None
            on_request()
        refusal = http_refusal(event.headers)
        if refusal is not None:
            answer = self.streams[event.stream_id] = PlainAnswer(self, event.stream_id)
            answer.receiving = not event.end
            return answer.give(refusal)
        call = Call(self, event.stream_id, event.headers)
        self.streams[event.stream_id] = call
        problem = call.unreadable
        if problem is not None:
            call.receiving = not event.end
            return call.refuse(problem)
        self._start_or_wait(call)
        if event.end:
            call.peer_ended()

    def _malformed(self, stream_id: int, problem: str) -> None:
        self.reset(stream_id, ErrorCode.PROTOCOL_ERROR)
        self._stream_broken(StreamBroken(stream_id, ErrorCode.PROTOCOL_ERROR, f"malformed request: {problem}"))

    def _headers_too_large(self, event: HeadersTooLarge) -> None:
        super()._headers_too_large(event)
        self.count_reset()

    def _stream_broken(self, event: StreamBroken) -> None:
        super()._stream_broken(event)
        self.count_reset()

    def _goaway(self, event: GoAwayReceived) -> None:
        """The client pushes nothing and is pushed nothing, so this changes nothing."""

    def _meanwhile(self) -> Callable[[], Awaitable[None]] | None:
        """Who does not read the answers is not read either: trailers and refusals wait for no window."""
        return None if self._has_room() else self._wait_for_room

    async def _wait_for_room(self) -> None:
        await self._reader.wait(self._has_room)

    def _has_room(self) -> bool:
        return self.engine.outgoing.unsent <= self._most_unsent or self.over is not None

    # -- the end

    def _ended(self, status: Status) -> None:
        super()._ended(status)
        self._unstarted.clear()

    def _close_when_drained(self) -> None:
        if self.draining and not self.streams and self.over is None:
            self._end(unavailable("the server has drained"), flush=True)
