"""The events of an HTTP/2 connection in the terms of RFC 9113, the same from both engines."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from trxds.core.metadata import Headers

Octets: TypeAlias = bytes | memoryview


class ErrorCode(enum.IntEnum):
    """The reason why a stream or a connection was ended (RFC 9113 §7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


def code_name(code: int) -> str:
    """Return the RFC's name of an error code; a peer may also send a code that is not in the RFC."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


class _StreamContent(Struct, frozen=True):
    """An event with header fields or data of a stream. Its `repr` leaves them out, because they may be secrets."""

    stream_id: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stream_id={self.stream_id})"


class HeadersReceived(_StreamContent, frozen=True):
    """A request, a response or trailers; `end` if the peer's half of the stream ends with them."""

    headers: Headers
    end: bool


class HeadersTooLarge(Struct, frozen=True):
    """A request, a response or trailers larger than our limit. They were dropped, so the stream cannot go on."""

    stream_id: int
    size: int
    """The size, or less where not all was decoded; always above the limit."""


class DataReceived(_StreamContent, frozen=True):
    """Data of a stream, a frame or a part of one; `flow_length` is what the windows were charged, data and padding.

    `data` may be a view of all that was read, so nobody may keep it.
    """

    data: Octets
    flow_length: int
    end: bool


class UnaryResponse(_StreamContent, frozen=True):
    """Headers, one DATA frame and trailers that end the peer's half, which came together.

    The frame has exactly one message, uncompressed. The event stands for three; most unary calls are answered so.
    """

    headers: Headers
    message: bytes
    trailers: Headers


class StreamReset(Struct, frozen=True):
    """The peer ended the stream by RST_STREAM."""

    stream_id: int
    code: int


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """The peer broke a rule that costs only this stream, which has been reset. `message` is the engine's own."""

    stream_id: int
    code: int
    message: str = field(compare=False)


class WindowUpdated(Struct, frozen=True):
    """The peer lets us send more on this stream, or on the connection if `stream_id` is 0.

    An engine may leave it out for a window that was open already, because no stream waits for it.
    """

    stream_id: int


class SettingsReceived(Struct, frozen=True):
    """The peer changed its limits; the windows of all streams may have changed too."""


class GoAwayReceived(Struct, frozen=True):
    """The peer takes no new streams; it did not process those above `last_stream_id`."""

    last_stream_id: int
    code: int
    debug: bytes


class PingAcked(Struct, frozen=True):
    """The peer answered a PING that had this payload."""

    payload: bytes


class ConnectionFailed(Struct, frozen=True):
    """The peer violated the protocol. Our GOAWAY is queued and nothing further is read."""

    code: int
    message: str


Event: TypeAlias = (
    HeadersReceived
    | HeadersTooLarge
    | DataReceived
    | UnaryResponse
    | StreamReset
    | StreamFailed
    | WindowUpdated
    | SettingsReceived
    | GoAwayReceived
    | PingAcked
    | ConnectionFailed
)
