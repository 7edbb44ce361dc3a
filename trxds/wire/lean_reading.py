"""What the lean engine makes of what it reads.

Each frame is one struct, one look into a dictionary and one event. What a client may leave out is left
out: it is pushed nothing, ignores priorities (RFC 9113 §5.3), and ignores what still comes for
a stream that is closed (§5.1 lets it), except that its bytes count for the connection's window and
its header blocks for the compression table. What could do harm is checked: sizes, windows, the
order of frames on a stream, streams that nobody opened.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from . import frames
from .events import (
    Answered,
    Broken,
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersTooLarge,
    PingAcked,
    SettingsReceived,
    StreamBroken,
    StreamReset,
    WindowOpened,
)
from .flood_guard import MANY_SETTINGS
from .frames import END_HEADERS, END_STREAM, MAX_WINDOW, PADDED, FrameReader, Violation
from .header_blocks import BlockDecoder
from .open_stream import BODY, HEADERS, NOTHING, OpenStream, Unfinished
from .options import WireOptions

FIRST_WINDOW = 65_535  # with which every connection and stream begins (RFC 9113 §6.9.2)
_FIRST_MAX_FRAME = 16_384
_NO_LIMIT = 2**32
_MOST_CONTINUATIONS = 64


class Reading(ABC):
    """Bytes in, events out; with what both halves of the engine know of streams and windows."""

    def __init__(self, options: WireOptions) -> None:
        self.peer_max_streams = _NO_LIMIT
        self.peer_max_header_list = math.inf
        self.connection_window = FIRST_WINDOW
        self.unread = b""
        self.overhead = 0
        self._options = options
        self._frames = FrameReader(options.max_frame)
        self._decoder = BlockDecoder(options.header_list_bound, options.max_header_list)
        self._usual = self._decoder.usual
        self._streams: dict[int, OpenStream] = {}
        self._events: list[Event] = []  # of the read that is under way
        self._next_id = 1
        self._unfinished: Unfinished | None = None
        self._receive_window = max(options.connection_window, FIRST_WINDOW)
        self._unclaimed = 0  # bytes that came for closed streams
        self._peer_window = FIRST_WINDOW
        self._max_send_offset = 0  # no stream's is more; of streams that have gone, too
        self._peer_max_frame = _FIRST_MAX_FRAME

    def receive(self, data: bytes) -> list[Event]:
        events = self._events
        if self.unread:
            data = self.unread + data
        try:
            self.unread = self._frames.read(data, self._take, self._take_answer)
        except Violation as violation:
            self.unread = b""
            self.goaway(violation.code, str(violation).encode())
            events.append(Broken(violation.code, str(violation)))
        self._events = []
        return events

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._unfinished is not None:
            self._check_continued(kind, stream_id)
        read = self._READ.get(kind)
        if read is None:
            self.overhead += 1
        elif (event := read(self, flags, stream_id, payload)) is not None:
            self._events.append(event)

    def _take_answer(self, stream_id: int, first: bytes, data: bytes, last: bytes) -> bool:
        """Three frames as one event, if nothing in them is new or out of place; otherwise they are read one by one."""
        stream, headers, trailers = self._streams.get(stream_id), self._usual.get(first), self._usual.get(last)
        size = len(data)
        if (
            stream is None
            or headers is None
            or trailers is None
            or stream.awaits is not HEADERS
            or size > stream.receive_window
            or size > self._receive_window
            or self._unfinished is not None
        ):
            return False
        self._receive_window -= size
        stream.receive_window -= size
        self._peer_ended(stream_id, stream)
        self._events.append(Answered(stream_id, headers, data, trailers))
        return True

    def _read_data(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        size = len(payload)
        data = frames.without_padding(payload) if flags & PADDED else payload
        self._receive_window -= size
        if self._receive_window < 0:
            raise Violation(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window allows")
        end = flags & END_STREAM != 0
        if not data and not end:
            self.overhead += 1
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_opened(stream_id)
            self._unclaim(size)
            return None
        if stream.awaits is not BODY:
            self._unclaim(size)
            if stream.awaits is HEADERS:
                raise Violation(ErrorCode.PROTOCOL_ERROR, "DATA before headers")
            return self._fail(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end of the stream")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise Violation(ErrorCode.FLOW_CONTROL_ERROR, f"more data than the window of stream {stream_id} allows")
        if end:
            self._peer_ended(stream_id, stream)
        return DataReceived(stream_id, data, size, end)

    def _unclaim(self, size: int) -> None:
        """Nobody will give this back to the connection's window: do so when it is worth a frame."""
        self._unclaimed += size
        if self._unclaimed >= self._options.connection_window // 4:
            self.credit(0, self._unclaimed)
            self._unclaimed = 0

    def _read_headers(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        if flags & PADDED:
            payload = frames.without_padding(payload)
        if flags & frames.WITH_PRIORITY:
            payload = frames.without_priority(payload)
        end = flags & END_STREAM != 0
        if flags & END_HEADERS:
            return self._read_block(stream_id, end, payload)
        if stream_id not in self._streams:
            self._check_opened(stream_id)
        self._unfinished = Unfinished(stream_id, end, payload)
        return None

    def _check_continued(self, kind: int, stream_id: int) -> None:
        assert self._unfinished is not None
        if kind != frames.CONTINUATION or stream_id != self._unfinished.stream_id:
            raise Violation(ErrorCode.PROTOCOL_ERROR, "another frame in the middle of a header block")

    def _read_continuation(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        block = self._unfinished
        if block is None:
            raise Violation(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        if not flags & END_HEADERS and len(payload) < _FIRST_MAX_FRAME:
            self.overhead += 1  # who has more to say fills the frame
        block.parts.append(payload)
        block.size += len(payload)
        # A peer could go on for ever, with empty frames too (CVE-2024-27316 and its kin).
        if len(block.parts) > _MOST_CONTINUATIONS or block.size > self._options.header_list_bound:
            raise Violation(ErrorCode.ENHANCE_YOUR_CALM, f"header block without end: {block.size} bytes so far")
        if not flags & END_HEADERS:
            return None
        self._unfinished = None
        return self._read_block(block.stream_id, block.end, b"".join(block.parts))

    def _read_block(self, stream_id: int, end: bool, data: bytes) -> Event | None:
        block = self._decoder.decode(data)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_opened(stream_id)
            self.overhead += 1
            return None
        if stream.awaits is NOTHING:
            return self._fail(stream_id, ErrorCode.STREAM_CLOSED, "headers after the end of the stream")
        if block.informational:
            self.overhead += 1
            if end or stream.awaits is BODY:
                raise Violation(ErrorCode.PROTOCOL_ERROR, "an informational response out of place")
            return None
        if stream.awaits is BODY and not end:
            raise Violation(ErrorCode.PROTOCOL_ERROR, "trailers that do not end the stream")
        stream.awaits = BODY
        if end:
            self._peer_ended(stream_id, stream)
        if block.size > self._options.max_header_list:
            return HeadersTooLarge(stream_id, block.size)
        return HeadersReceived(stream_id, block.headers, end)

    def _fail(self, stream_id: int, code: ErrorCode, message: str) -> Event:
        """The peer's mistake costs one stream and not the connection."""
        self.reset(stream_id, code)
        return StreamBroken(stream_id, code, message)

    def _read_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        self.overhead += 1
        if not stream_id:
            raise Violation(ErrorCode.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != 5:
            raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes, not 5")

    def _read_reset(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        code = frames.long_value(payload, "RST_STREAM")
        if self._streams.pop(stream_id, None) is None:
            self._check_opened(stream_id)
            self.overhead += 1
            return None
        return StreamReset(stream_id, code)

    def _read_settings(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1 + len(payload) // MANY_SETTINGS
        self._check_no_stream(stream_id, "SETTINGS")
        if flags & frames.ACK:
            if payload:
                raise Violation(ErrorCode.FRAME_SIZE_ERROR, "acknowledged SETTINGS are not empty")
            return None
        for key, value in frames.settings_values(payload).items():
            self._set(key, value)
        self._control(frames.head(0, frames.SETTINGS, frames.ACK, 0))
        return SettingsReceived()

    def _set(self, key: int, value: int) -> None:
        match key:
            case frames.ENABLE_PUSH if value:
                raise Violation(ErrorCode.PROTOCOL_ERROR, "a server cannot be pushed to")
            case frames.MAX_CONCURRENT_STREAMS:
                self.peer_max_streams = value
            case frames.MAX_HEADER_LIST_SIZE:
                self.peer_max_header_list = value
            case frames.MAX_FRAME_SIZE:
                if not _FIRST_MAX_FRAME <= value < 2**24:
                    raise Violation(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE of {value}")
                self._peer_max_frame = value
            case frames.INITIAL_WINDOW_SIZE:
                self._set_peer_window(value)

    def _set_peer_window(self, size: int) -> None:
        if size + self._max_send_offset > MAX_WINDOW:
            # Streams with so wide a window are rare. Of this maximum they are why, or one that has gone since.
            self._max_send_offset = max([0, *(stream.send_offset for stream in self._streams.values())])
        self._peer_window = size
        if size + self._max_send_offset > MAX_WINDOW:
            raise Violation(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE of {size} opens a window too far")

    def _read_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Violation(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which our SETTINGS forbid")

    def _read_ping(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1
        self._check_no_stream(stream_id, "PING")
        if len(payload) != 8:
            raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes, not 8")
        if flags & frames.ACK:
            return PingAcked(payload)
        self._control(frames.head(8, frames.PING, frames.ACK, 0) + payload)
        return None

    def _read_goaway(self, flags: int, stream_id: int, payload: bytes) -> Event:
        self.overhead += 1
        self._check_no_stream(stream_id, "GOAWAY")
        return GoAwayReceived(*frames.goaway_values(payload))

    def _read_window_update(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1
        size = frames.long_value(payload, "WINDOW_UPDATE") & MAX_WINDOW
        if not size:
            raise Violation(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        if not stream_id:
            was_open = self.connection_window > 0
            self.connection_window += size
            if self.connection_window > MAX_WINDOW:
                raise Violation(ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE opens the connection's window too far")
            return None if was_open else WindowOpened(0)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_opened(stream_id)
            return None
        was_open = self._peer_window + stream.send_offset > 0
        stream.send_offset += size
        if self._peer_window + stream.send_offset > MAX_WINDOW:
            return self._fail(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE opens its window too far")
        if stream.send_offset > self._max_send_offset:
            self._max_send_offset = stream.send_offset
        return None if was_open else WindowOpened(stream_id)

    _READ: ClassVar[dict[int, Callable[[Reading, int, int, bytes], Event | None]]] = {
        frames.DATA: _read_data,
        frames.HEADERS: _read_headers,
        frames.PRIORITY: _read_priority,
        frames.RST_STREAM: _read_reset,
        frames.SETTINGS: _read_settings,
        frames.PUSH_PROMISE: _read_push_promise,
        frames.PING: _read_ping,
        frames.GOAWAY: _read_goaway,
        frames.WINDOW_UPDATE: _read_window_update,
        frames.CONTINUATION: _read_continuation,
    }  # frames of any other kind are ignored (RFC 9113 §5.5)

    def _check_opened(self, stream_id: int) -> None:
        """For a stream that is not open: it has been (all of ours are odd)."""
        if stream_id >= self._next_id or not stream_id & 1:
            raise Violation(ErrorCode.PROTOCOL_ERROR, f"frame on stream {stream_id}, which was never opened")

    def _check_no_stream(self, stream_id: int, kind: str) -> None:
        if stream_id:
            raise Violation(ErrorCode.PROTOCOL_ERROR, f"{kind} on stream {stream_id}")

    def _peer_ended(self, stream_id: int, stream: OpenStream) -> None:
        stream.awaits = NOTHING
        if not stream.sending:
            del self._streams[stream_id]

    # -- what the other half does

    @abstractmethod
    def _control(self, frame: bytes) -> None: ...

    @abstractmethod
    def credit(self, stream_id: int, size: int) -> None: ...

    @abstractmethod
    def reset(self, stream_id: int, code: int) -> None: ...

    @abstractmethod
    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream_id: int | None = None) -> None: ...
