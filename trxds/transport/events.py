"""What happens on an HTTP/2 connection, in the words of the RFC, whichever engine reads it.

They are not frozen, because several are made for each RPC, and a named tuple or a frozen dataclass takes three
times as long to make. Nobody changes them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from trxds.core.metadata import Headers


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection was ended (RFC 9113 §7)."""

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
    """The RFC's name of an error code; a peer may also send one that nobody knows."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


@dataclass(slots=True)
class HeadersReceived:
    """A request, a response or trailers; `end` when the peer's half of the stream ends with it."""

    stream_id: int
    headers: Headers = field(repr=False)
    end: bool


@dataclass(slots=True)
class HeadersTooLarge:
    """A request, a response or trailers of more bytes than we take; they are gone, and the stream no use."""

    stream_id: int
    size: int


@dataclass(slots=True)
class DataReceived:
    """`flow_length` is what the windows were charged: the data and its padding."""

    stream_id: int
    data: bytes = field(repr=False)
    flow_length: int
    end: bool


@dataclass(slots=True)
class UnaryResponse:
    """Headers, one frame of data, and the trailers that end the peer's half, which came together.

    It stands for three events; most unary calls are answered so.
    """

    stream_id: int
    headers: Headers = field(repr=False)
    data: bytes = field(repr=False)
    trailers: Headers = field(repr=False)


@dataclass(slots=True)
class StreamReset:
    stream_id: int
    code: int


@dataclass(slots=True)
class StreamFailed:
    """The peer broke a rule whose breach costs this stream only; it has been reset. `message` is the engine's own."""

    stream_id: int
    code: int
    message: str = field(compare=False)


@dataclass(slots=True)
class WindowUpdated:
    """More may be sent on this stream; on the connection if `stream_id` is 0.

    Of a window that was open already, for which nobody waits, an engine need not say it.
    """

    stream_id: int


@dataclass(slots=True)
class SettingsReceived:
    """The peer's limits changed; the windows of all streams may have."""


@dataclass(slots=True)
class GoAwayReceived:
    """No new streams; those above `last_stream_id` were not processed."""

    last_stream_id: int
    code: int
    debug: bytes


@dataclass(slots=True)
class PingAcked:
    payload: bytes


@dataclass(slots=True)
class ConnectionFailed:
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
