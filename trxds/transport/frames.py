"""HTTP/2 frames as bytes: received bytes are cut into frames, and frames are put together (RFC 9113 §4.1, §6).

A frame's length is checked as soon as its header has come. Otherwise a peer that does not speak HTTP/2 ("HTTP/1.1 400
Bad Request" reads as a frame of 4.7 MB) would be waited for without an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from .compression import Compressed
from .events import ErrorCode, Octets
from .framing import PREFIX_SIZE
from .message_buffer import MessageBuffer

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x01
ACK: Final = 0x01
END_HEADERS: Final = 0x04
PADDED: Final = 0x08
WITH_PRIORITY: Final = 0x20
_END_BOTH: Final = END_HEADERS | END_STREAM

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

MAX_WINDOW: Final = 2**31 - 1
MAX_STREAM_ID: Final = 2**31 - 1

HandleFrame: TypeAlias = Callable[[int, int, int, Octets], None]
"""A function of a frame's type, flags, stream identifier and payload. Only DATA may be a view, or a part of a frame."""

HandleUnaryResponse: TypeAlias = Callable[[int, bytes, bytes, bytes], bool]
"""A function of a stream identifier, header block, message and trailers; False to have the frames one by one."""

_HEAD = struct.Struct(">LBL")  # the 24-bit length and the type are read as one number
# The same, and gRPC's prefix of a message behind it: both at once cost half of what they cost by themselves.
_MESSAGE_HEAD = struct.Struct(">LBLBL")
_SETTING = struct.Struct(">HL")
_UINT32 = struct.Struct(">L")
_GOAWAY = struct.Struct(">LL")
_HEAD_SIZE = _HEAD.size
_MESSAGE_HEAD_SIZE = _MESSAGE_HEAD.size
_unpack_head = _HEAD.unpack_from  # once for each frame
_unpack_message_head = _MESSAGE_HEAD.unpack_from

# A read of fewer bytes cannot take long, whatever frames are in it.
_MAX_UNCOUNTED_READ = 1024
# The frames that one step may read, or data that costs as much.
_MAX_STEP_COST = 256
# 512 bytes of data cost as much as a frame, because they may be a hundred messages;
_DATA_SHIFT = 9
# 16 bytes of anything else do, because they may be sixteen header fields.
_SHIFT = 4
# DATA of this size or more is not copied into its frame: it is passed on as it came, in parts if it comes in parts.
_MIN_LARGE_DATA = 8 * 1024


class Http2ProtocolError(Exception):
    """The peer broke a rule, which ends the connection with this error code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


# -- out


def head(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    """Return the nine bytes before a payload of that size."""
    return _HEAD.pack(size << 8 | kind, flags, stream_id)


def settings(values: Mapping[int, int]) -> bytes:
    """Return a SETTINGS frame with these values."""
    payload = b"".join([_SETTING.pack(key, value) for key, value in values.items()])
    return head(len(payload), SETTINGS, 0, 0) + payload


def uint32_frame(kind: int, stream_id: int, value: int) -> bytes:
    """Return a RST_STREAM or WINDOW_UPDATE frame, whose payload is one 32-bit value."""
    return head(4, kind, 0, stream_id) + _UINT32.pack(value)


def goaway(last_stream_id: int, code: int, debug: bytes) -> bytes:
    """Return a GOAWAY frame."""
    return head(8 + len(debug), GOAWAY, 0, 0) + _GOAWAY.pack(last_stream_id, code) + debug


def headers(stream_id: int, block: bytes, max_frame: int) -> bytes:
    """Return a header block as one HEADERS frame, with CONTINUATION frames if it is longer than `max_frame`."""
    if len(block) <= max_frame:
        return head(len(block), HEADERS, END_HEADERS, stream_id) + block
    first, *middle, last = (block[start : start + max_frame] for start in range(0, len(block), max_frame))
    parts = [head(len(first), HEADERS, 0, stream_id), first]
    for middle_part in middle:
        parts += (head(len(middle_part), CONTINUATION, 0, stream_id), middle_part)
    return b"".join((*parts, head(len(last), CONTINUATION, END_HEADERS, stream_id), last))


def request(stream_id: int, block: bytes, message: bytes, max_frame: int) -> bytes:
    """Return a header block and the only message of its stream, the message in one frame."""
    size = len(message)
    is_compressed = type(message) is Compressed
    ends = _MESSAGE_HEAD.pack(PREFIX_SIZE + size << 8 | DATA, END_STREAM, stream_id, is_compressed, size)
    if len(block) > max_frame:
        return b"".join((headers(stream_id, block, max_frame), ends, message))
    return b"".join((_HEAD.pack(len(block) << 8 | HEADERS, END_HEADERS, stream_id), block, ends, message))


# -- in


def uint32_value(payload: bytes, kind: str) -> int:
    """Return the value of a RST_STREAM or WINDOW_UPDATE frame."""
    if len(payload) != 4:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"{kind} of {len(payload)} bytes, not 4")
    return int.from_bytes(payload)


def settings_values(payload: bytes) -> dict[int, int]:
    """Return the last value of each setting; a frame has space for ten thousand."""
    if len(payload) % 6:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes, no multiple of 6")
    return dict(_SETTING.iter_unpack(payload))


def goaway_values(payload: bytes) -> tuple[int, int, bytes]:
    """Return the last stream, the error code and the debug data."""
    if len(payload) < 8:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"GOAWAY of {len(payload)} bytes, less than 8")
    last, code = _GOAWAY.unpack_from(payload)
    return last & MAX_STREAM_ID, code, payload[8:]


def without_padding(payload: bytes) -> bytes:
    """Return the payload of a PADDED frame without its padding."""
    if not payload or payload[0] >= len(payload):
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "padding as long as its frame")
    return payload[1 : len(payload) - payload[0]]


def without_priority(payload: bytes) -> bytes:
    """Return the payload of HEADERS without the priority, which RFC 9113 §5.3 lets us ignore."""
    if len(payload) < 5:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "HEADERS too short for their priority")
    return payload[5:]


def check_is_settings(header: bytes) -> None:
    """Raise `Http2ProtocolError` unless the header of a peer's first frame is that of SETTINGS (RFC 9113 §3.4)."""
    if header[3] != SETTINGS:
        speaks = "HTTP/1" if header.startswith(b"HTTP/") else repr(header)
        text = f"it does not speak HTTP/2: its first bytes are {speaks}, not a SETTINGS frame"
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, text)


class FrameReader:
    """Cuts received bytes into frames."""

    __slots__ = ("_head", "_is_first", "_max_frame", "_missing", "_partial_head", "_payload")

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._partial_head = b""  # the beginning of an incomplete frame header
        self._head = (0, 0, 0)  # type, flags and stream of the frame that is incomplete
        self._payload: MessageBuffer | None = None  # the part of its payload that has come; None if it is not kept
        self._missing = 0  # bytes of its payload still to come; 0 between frames
        self._is_first = True

    def read(self, data: bytes, handle_frame: HandleFrame, handle_unary_response: HandleUnaryResponse) -> bytes:
        """Pass on all frames that are complete, in order; `Http2ProtocolError` if no frame can follow.

        Return the bytes that are left: it stops after a bounded number of frames, so that no other task waits long.
        Headers, one DATA frame with one message, and trailers go to `handle_unary_response` together. Most unary calls
        are answered so.
        """
        position, size, largest, cost = 0, len(data), self._max_frame, 0
        counts = size > _MAX_UNCOUNTED_READ
        if self._missing:
            position = min(self._missing, size)
            cost = self._go_on(memoryview(data)[:position] if position < size else data, handle_frame)
            if self._missing:
                return b""
        elif self._partial_head:
            data, self._partial_head = self._partial_head + data, b""
            size = len(data)
        while position + _HEAD_SIZE <= size:
            if counts and cost >= _MAX_STEP_COST:
                return data[position:]
            word, flags, stream_id = _unpack_head(data, position)
            kind, length, start = word & 0xFF, word >> 8, position + _HEAD_SIZE
            end = start + length
            if self._is_first:
                self._is_first = False
                check_is_settings(data[:start])
            if length > largest:
                text = f"frame of {length} bytes, where {largest} were agreed on"
                raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, text)
            # The reserved bit means nothing and is ignored (RFC 9113 §4.1).
            stream_id &= MAX_STREAM_ID
            if end > size:
                self._head, self._missing = (kind, flags, stream_id), length
                in_parts = kind == DATA and not flags & PADDED and length >= _MIN_LARGE_DATA
                self._payload = None if in_parts else MessageBuffer(length)
                if start < size:
                    self._go_on(memoryview(data)[start:], handle_frame)
                return b""
            if kind == HEADERS and flags == END_HEADERS:
                position = self._read_unary_response(data, start, end, stream_id, handle_unary_response)
                if position:
                    if counts:
                        cost += 3 + (position - start >> _DATA_SHIFT)
                    continue
            if counts:
                cost += 1 + (length >> (_SHIFT if kind else _DATA_SHIFT))
            is_large = length >= _MIN_LARGE_DATA and kind == DATA and not flags & PADDED
            handle_frame(kind, flags, stream_id, memoryview(data)[start:end] if is_large else data[start:end])
            position = end
        if position < size:
            self._partial_head = data[position:]
        return b""

    def _go_on(self, part: Octets, handle_frame: HandleFrame) -> int:
        """Take in more of the frame that is incomplete; return what the part cost."""
        self._missing -= len(part)
        kind, flags, stream_id = self._head
        if self._payload is None:
            # Only the last part ends the stream.
            handle_frame(kind, 0 if self._missing else flags, stream_id, part)
            return 1 + (len(part) >> _DATA_SHIFT)
        self._payload.add(part)
        if self._missing:
            return 0
        payload, self._payload = self._payload.take(), None
        handle_frame(kind, flags, stream_id, payload)
        return 1 + (len(payload) >> (_DATA_SHIFT if kind == DATA else _SHIFT))

    def _read_unary_response(
        self, data: bytes, start: int, body: int, stream_id: int, handle: HandleUnaryResponse
    ) -> int:
        """Return the end of an answer with headers from `start` to `body`; 0 to read it frame by frame."""
        size, largest = len(data), self._max_frame
        message = body + _MESSAGE_HEAD_SIZE
        if message > size:
            return 0
        word, flags, owner, is_compressed, length = _unpack_message_head(data, body)
        message_end = message + length
        trailers = message_end + _HEAD_SIZE
        length += PREFIX_SIZE
        if (
            word != length << 8 | DATA  # the frame has several messages, or a part of one
            or flags
            or is_compressed
            or owner != stream_id
            or trailers > size
            or length > largest
        ):
            return 0
        word, flags, owner = _unpack_head(data, message_end)
        length = word >> 8
        end = trailers + length
        if word & 0xFF != HEADERS or flags != _END_BOTH or owner != stream_id or end > size or length > largest:
            return 0
        return end if handle(stream_id, data[start:body], data[message:message_end], data[trailers:end]) else 0


class OutgoingFrames:
    """An engine's output buffer: frames wait in it until they are written together."""

    def __init__(self) -> None:
        self._pieces: list[Octets] = []
        self.unsent = 0
        """The bytes that wait to be taken."""
        self.control_unsent = 0
        """Those of them in frames that a peer can provoke, which are neither headers nor data."""
        self.frames_sent = 0
        """The HEADERS and DATA frames so far: an honest peer's overhead answers them."""

    def add(self, frame: Octets) -> None:
        """Append headers, data or both."""
        self._pieces.append(frame)
        self.unsent += len(frame)
        self.frames_sent += 1

    def add_data(self, head: bytes, payload: Octets) -> None:
        """Append a DATA frame whose payload is not copied."""
        self._pieces += (head, payload)
        self.unsent += len(head) + len(payload)
        self.frames_sent += 1

    def add_control(self, frame: bytes) -> None:
        """Append a frame that a peer may have provoked: an acknowledgement, a window, a reset."""
        self._pieces.append(frame)
        self.unsent += len(frame)
        self.control_unsent += len(frame)

    @property
    def has_only_control(self) -> bool:
        """Whether frames wait, and none of them is headers or data."""
        return 0 < self.unsent == self.control_unsent

    def take(self) -> bytes:
        """Return all frames that wait, and keep none of them."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.unsent = self.control_unsent = 0
        return data
