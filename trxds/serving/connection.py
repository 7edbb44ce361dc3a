"""A server's connection: which calls it takes, and when it takes no more of them."""

from __future__ import annotations

from collections.abc import Callable

import trio

from trxds.ground.metadata import Headers
from trxds.ground.status import unavailable
from trxds.wire.events import ErrorCode, GoAwayReceived, HeadersReceived
from trxds.wire.http2 import H2Engine
from trxds.wire.link import Link
from trxds.wire.options import WireOptions

from .call import Call


class ServerConnection(Link[Call]):
    """One client. `started` is called with each new call and runs it."""

    def __init__(
        self,
        transport: trio.abc.Stream,
        *,
        peer: str,
        options: WireOptions,
        max_receive_size: int,
        started: Callable[[Call], None],
    ) -> None:
        self._h2 = H2Engine(client=False, options=options)
        super().__init__(transport, self._h2, peer=peer, options=options)
        self.max_receive_size = max_receive_size
        self.draining = False
        self._started = started

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

    def forget(self, call: Call) -> None:
        """The call is over."""
        self.streams.pop(call.id, None)
        self._close_when_drained()

    def _headers(self, event: HeadersReceived) -> None:
        call = self.streams.get(event.stream_id)
        if call is None and self.draining:
            self.reset(event.stream_id, ErrorCode.REFUSED_STREAM)
        elif call is None:
            call = self.streams[event.stream_id] = Call(self, event.stream_id, event.headers)
            unreadable = call.unreadable
            if unreadable is not None:
                return call.refuse(unreadable)
            self._started(call)
        if call is not None and event.end:
            call.peer_ended()

    def _goaway(self, event: GoAwayReceived) -> None:
        """The client pushes nothing and is pushed nothing, so this changes nothing."""

    def _close_when_drained(self) -> None:
        if self.draining and not self.streams and self.over is None:
            self._end(unavailable("the server has drained"), flush=True)
