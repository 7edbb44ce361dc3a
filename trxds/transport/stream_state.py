"""The fast engine keeps this state of its open streams, and of a header block that is not complete."""

from __future__ import annotations

import enum
import math

from msgspec import Struct

from . import frames
from .events import ErrorCode
from .frames import MAX_WINDOW, Http2ProtocolError
from .options import WireOptions

DEFAULT_WINDOW = 65_535  # of every connection and stream (RFC 9113 §6.9.2)
DEFAULT_MAX_FRAME = 16_384  # the smallest limit on frames that a peer may set (RFC 9113 §6.5.2)
_NO_LIMIT = 2**32


class RecvState(enum.Enum):
    """The frames that the peer may send next on a stream (RFC 9113 §8.1)."""

    HEADERS = enum.auto()
    BODY = enum.auto()  # data or trailers
    NOTHING = enum.auto()  # END_STREAM has come


# Before Python 3.12 the look-up of an enum's member is slow, and each frame needs some.
HEADERS, BODY, NOTHING = RecvState.HEADERS, RecvState.BODY, RecvState.NOTHING


class StreamState(Struct, eq=False):
    """A stream that is not closed: the states and windows of both halves."""

    receive_window: int

    # The peer may change the window with which streams begin, and the windows of all open streams change with it
    # (RFC 9113 §6.9.2). A stream keeps only its difference from that, so such a change costs the same for any number of
    # streams.
    send_offset: int = 0
    """The difference of its send window from the peer's initial window; often below 0."""

    is_sending: bool = True
    recv_state: RecvState = HEADERS


class StreamStates:
    """A client's streams that are not closed, and the windows that they share."""

    def __init__(self, options: WireOptions) -> None:
        self.open: dict[int, StreamState] = {}
        self.next_id = 1
        self.send_window = DEFAULT_WINDOW
        """The bytes that all streams together may send."""
        self.receive_window = max(options.connection_window, DEFAULT_WINDOW)
        """The bytes that the peer may send on all streams together."""
        self.initial_send_window = DEFAULT_WINDOW
        self.initial_receive_window = options.stream_window
        self._max_send_offset = 0  # an upper bound, which closed streams may have raised

    def check_opened(self, stream_id: int) -> None:
        """Raise `Http2ProtocolError` for a frame on a stream that was never opened; all of ours are odd."""
        # RFC 9113 §5.1: frames on a closed stream may be ignored; on an idle one they are a connection error.
        if stream_id >= self.next_id or not stream_id & 1:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, f"frame on stream {stream_id}, which was never opened")

    def set_initial_send_window(self, size: int) -> None:
        """Change the windows of all streams, as SETTINGS say; `Http2ProtocolError` if one becomes too large."""
        if size + self._max_send_offset > MAX_WINDOW:
            # A closed stream may have raised the bound, so it is computed anew before the setting is refused.
            self._max_send_offset = max([0, *(stream.send_offset for stream in self.open.values())])
        self.initial_send_window = size
        if size + self._max_send_offset > MAX_WINDOW:
            raise Http2ProtocolError(
                ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE of {size} opens a window too far"
            )

    def set_initial_receive_window(self, size: int) -> None:
        """Change the bytes that the peer may send on each stream, as our SETTINGS say."""
        change, self.initial_receive_window = size - self.initial_receive_window, size
        for stream in self.open.values():
            stream.receive_window += change

    def open_send_window(self, stream: StreamState, size: int) -> bool:
        """Widen a stream's window, as the peer's WINDOW_UPDATE says; False if that is too far (RFC 9113 §6.9.1)."""
        stream.send_offset += size
        if self.initial_send_window + stream.send_offset > MAX_WINDOW:
            return False
        if stream.send_offset > self._max_send_offset:
            self._max_send_offset = stream.send_offset
        return True


class PeerSettings(Struct, eq=False):
    """The limits in the peer's SETTINGS, except those that `StreamStates` and `BlockEncoder` keep to."""

    max_streams: int = _NO_LIMIT
    max_header_list: float = math.inf
    max_frame: int = DEFAULT_MAX_FRAME

    def set(self, key: int, value: int) -> None:
        """Apply one setting; `Http2ProtocolError` if its value is invalid.

        Unknown ones are ignored (RFC 9113 §6.5.2).
        """
        match key:
            case frames.ENABLE_PUSH if value:
                raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "a server cannot be pushed to")
            case frames.MAX_CONCURRENT_STREAMS:
                self.max_streams = value
            case frames.MAX_HEADER_LIST_SIZE:
                self.max_header_list = value
            case frames.MAX_FRAME_SIZE:
                if not DEFAULT_MAX_FRAME <= value < 2**24:
                    raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE of {value}")
                self.max_frame = value


class HeaderFragment(Struct, eq=False):
    """A header block with CONTINUATION frames still to come; `size` is that of its parts."""

    stream_id: int
    end: bool
    parts: list[bytes]
    size: int
