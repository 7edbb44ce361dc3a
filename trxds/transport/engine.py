"""The seam between a connection and HTTP/2: bytes in and events out, without any I/O.

Two engines stand behind it. `fast_http2.FastHttp2Engine` carries the data plane: it knows the client's half of the
protocol only, and does for each RPC as little as that asks for. `http2.H2Engine` is h2, at either
end: what the rules are checked against. Both run the same tests, and a test feeds both the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from trxds.core.metadata import Headers

from .events import ErrorCode, Event
from .outgoing_frames import Octets, OutgoingFrames

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Header fields that are the same for every call of a method."""


class Http2Engine(Protocol):
    """One end of a connection, without the connection: feed it what was read, write what it has."""

    outgoing: OutgoingFrames
    """What waits to be written."""

    unread: bytes
    """What the last `receive` left for the next one, because nobody else should have to wait for so long."""

    overhead: int
    """Frames received that carry nothing of a call, until whoever counts them sets it back: see `FloodGuard`."""

    def receive(self, data: bytes) -> Sequence[Event]:
        """What those bytes mean, behind `unread`; the last event is `Broken` if they mean nothing.

        It takes a few milliseconds at most. Go on by `receive(b"")` while something is `unread`.
        """
        ...

    # -- streams

    @property
    def peer_max_streams(self) -> int:
        """How many streams of ours the peer allows at a time."""
        ...

    @property
    def peer_max_header_list(self) -> float:
        """How large headers the peer takes, by `list_size`; `inf` if it has not said."""
        ...

    @property
    def exhausted(self) -> bool:
        """Whether this client has used all its stream identifiers."""
        ...

    @property
    def connection_window(self) -> int:
        """How much all streams together may send now."""
        ...

    @property
    def receive_window(self) -> int:
        """How much the peer may send now on all streams together."""
        ...

    def stream_window(self, stream_id: int) -> int:
        """How much this stream may send now, its connection's window apart; may be negative."""
        ...

    def initial_data_limit(self) -> int:
        """How much a stream may send along with its headers, if it is opened now."""
        ...

    def open_stream(self, fixed: Fields, metadata: Headers, passing: Headers, whole: Octets = b"") -> int:
        """Begin a request; returns the new stream's identifier.

        `passing` are fields whose values will not come again: they enter no compression table,
        where they would push out those that do. `whole` is all the data that there is, if any of it is known
        and no more than `initial_data_limit()`: our half ends with it.
        """
        ...

    def write(self, stream_id: int, data: Octets, *, end: bool, limit: int) -> int:
        """Append as much of `data` as the windows and `limit` allow; returns how much that was.

        When all of it went and `end` is true, our half of the stream ends with it. The end alone,
        without data, needs no window. Nothing goes to a stream that has ended.
        """
        ...

    def increment_window(self, stream_id: int, size: int) -> None:
        """Give window back to the peer: a stream's while it is open, the connection's if `stream_id` is 0."""
        ...

    def update_initial_window(self, stream_window: int) -> None:
        """Let the peer send so much ahead on every stream, those that are open too; it was less before."""
        ...

    def reset(self, stream_id: int, code: int) -> None:
        """End a stream at once; nothing happens if it has ended."""
        ...

    # -- the connection

    def ping(self, payload: bytes) -> None:
        """Ask for a `PingAcked` with these eight bytes."""
        ...

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream_id: int | None = None) -> None:
        """Tell the peer to open no more streams; those up to `last_stream_id` (all so far) go on."""
        ...
