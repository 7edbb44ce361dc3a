"""What the lean engine keeps of a stream while that is open, and of a header block while it is not whole."""

from __future__ import annotations

import enum


class Awaits(enum.Enum):
    """What the peer may send next on a stream."""

    HEADERS = enum.auto()
    BODY = enum.auto()  # data or trailers
    NOTHING = enum.auto()  # it has ended its half


# A member is found through its class by a slow way, before Python 3.12, and some are looked at for each frame.
HEADERS, BODY, NOTHING = Awaits.HEADERS, Awaits.BODY, Awaits.NOTHING


class OpenStream:
    """A stream that is not closed: both halves' states and windows."""

    __slots__ = ("awaits", "receive_window", "send_window", "sending")

    def __init__(self, send_window: int, receive_window: int) -> None:
        self.send_window = send_window
        self.receive_window = receive_window
        self.sending = True
        self.awaits = HEADERS


class Unfinished:
    """A header block whose CONTINUATION frames have not all come."""

    __slots__ = ("end", "parts", "size", "stream_id")

    def __init__(self, stream_id: int, end: bool, part: bytes) -> None:
        self.stream_id = stream_id
        self.end = end
        self.parts = [part]
        self.size = len(part)
