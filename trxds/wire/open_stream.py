"""What the lean engine keeps of a stream while that is open, and of a header block while it is not whole.

The peer may change the window with which streams begin, and the windows of all open streams change with it (RFC
9113 §6.9.2). So a stream keeps only its difference from that: such a change costs the same for any number of streams.
"""

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

    __slots__ = ("awaits", "receive_window", "send_offset", "sending")

    def __init__(self, receive_window: int) -> None:
        self.send_offset = 0
        """What its window for sending is more than the peer's initial window; often below 0."""
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
