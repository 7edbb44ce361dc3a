"""The interface between a connection and HTTP/2: bytes in and events out, without any I/O.

Two engines implement it. `fast_http2.FastHttp2Engine` carries the data plane: it has only the client's half of the
protocol, and does as little as possible for each RPC. `h2_engine.H2LibraryEngine` is built on h2, serves at either end,
and is the reference: both engines pass the same tests, and one test feeds both the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from trxds.core.metadata import Headers

from .events import ErrorCode, Event, Octets
from .frames import OutgoingFrames

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Header fields that are the same for every call of a method."""


class Http2Engine(Protocol):
    """One end of an HTTP/2 connection without its transport: it reads bytes and appends output."""

    outgoing: OutgoingFrames
    """The output that waits to be written."""

    unread: bytes
    """Bytes that the last `receive` left for the next one, so that other tasks need not wait for so long."""

    overhead: int
    """Received frames that carry nothing of a call, until the reader has counted them (see `FloodGuard`)."""

    def receive(self, data: bytes) -> Sequence[Event]:
        """Return the events in these bytes, behind `unread`; after a protocol error the last one is `ConnectionFailed`.

        It takes a few milliseconds at most. While something is `unread`, go on with `receive(b"")`.
        """

    # -- streams

    @property
    def peer_max_streams(self) -> int:
        """The number of our streams that the peer allows at a time."""

    @property
    def peer_max_header_list(self) -> float:
        """The largest header list that the peer takes, by `list_size`; `inf` if it has set no limit."""

    @property
    def exhausted(self) -> bool:
        """Whether this client has used all its stream identifiers."""

    @property
    def connection_window(self) -> int:
        """The bytes that all streams together may send now."""

    @property
    def receive_window(self) -> int:
        """The bytes that the peer may send now on all streams together."""

    def stream_window(self, stream_id: int) -> int:
        """Return the bytes that this stream may send now, apart from the connection's window; may be negative."""

    def initial_data_limit(self) -> int:
        """Return the bytes that a stream may send along with its headers if it is opened now."""

    def open_stream(
        self, method_headers: Fields, metadata: Headers, uncached_headers: Headers, message: bytes | None = None
    ) -> int:
        """Begin a request; return the new stream's identifier.

        `uncached_headers` are fields whose values do not come again: they enter no compression table, where they would
        displace those that do. `message` is the only one of the request, if that is known and with its prefix no
        larger than `initial_data_limit()`: the client's half ends with it.
        """

    def write(self, stream_id: int, data: Octets, *, end: bool, limit: int) -> int:
        """Append as much of `data` as the windows and `limit` allow; return how many bytes that was.

        If all of it was appended and `end` is true, our half of the stream ends with it. The end alone, without data,
        needs no window. Nothing is sent on a stream that has ended.
        """

    def increment_window(self, stream_id: int, size: int) -> None:
        """Let the peer send `size` more bytes on a stream, if it is open, or on the connection if `stream_id` is 0."""

    def update_initial_window(self, stream_window: int) -> None:
        """Set a larger window for every stream, those that are open included."""

    def reset(self, stream_id: int, code: int) -> None:
        """End a stream at once; do nothing if it has ended."""

    # -- the connection

    def ping(self, payload: bytes) -> None:
        """Send a PING with these eight bytes, which a `PingAcked` answers."""

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"") -> None:
        """Tell the peer to open no more streams; all so far go on."""
