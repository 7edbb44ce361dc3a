"""The client's meaning of each HTTP/2 frame: every frame is checked and becomes one event, or none.

Each frame costs one struct, one dictionary look-up and one event. Rules that a client may leave out are left out: it
forbids push, ignores priorities (RFC 9113 §5.3), and ignores frames of a closed stream (§5.1 allows that), except that
their bytes count for the connection's window and their header blocks for the compression table. Everything that could
do harm is checked: sizes, windows, the order of frames on a stream, and streams that were never opened. An answer whose
frames are out of order costs its stream and not the connection with all other calls (§8.1.1).
"""

from __future__ import annotations

from collections.abc import Callable

from . import frames
from .events import (
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersTooLarge,
    Octets,
    PingAcked,
    SettingsReceived,
    StreamFailed,
    StreamReset,
    UnaryResponse,
    WindowUpdated,
)
from .flood_guard import SETTINGS_BYTES_PER_FRAME
from .frames import END_HEADERS, END_STREAM, MAX_WINDOW, PADDED, Http2ProtocolError, OutgoingFrames
from .framing import PREFIX_SIZE
from .header_blocks import BlockDecoder, BlockEncoder
from .options import WireOptions
from .stream_state import (
    BODY,
    DEFAULT_MAX_FRAME,
    HEADERS,
    NOTHING,
    HeaderFragment,
    PeerSettings,
    StreamState,
    StreamStates,
)

_MAX_CONTINUATIONS = 64


class FrameHandler:
    """Frames in, events out: it takes the frames of a `FrameReader` and appends answers to `outgoing`."""

    def __init__(
        self,
        streams: StreamStates,
        peer: PeerSettings,
        encoder: BlockEncoder,
        outgoing: OutgoingFrames,
        options: WireOptions,
    ) -> None:
        self.events: list[Event] = []
        """The events of the frames read so far, until the engine takes them."""
        self.overhead = 0
        """The number of frames that carry nothing of a call, until the engine takes it."""
        self._streams = streams
        self._peer = peer
        self._encoder = encoder
        self._outgoing = outgoing
        self._options = options
        self._decoder = BlockDecoder(options.header_list_bound, options.max_header_list)
        self._cached_headers = self._decoder.cached_headers
        self._fragment: HeaderFragment | None = None
        self._unclaimed = 0  # bytes of closed streams, not yet given back to the connection's window

    def handle_frame(self, kind: int, flags: int, stream_id: int, payload: Octets) -> None:
        """Read one frame, or a part of a DATA frame."""
        if self._fragment is not None and (kind != frames.CONTINUATION or stream_id != self._fragment.stream_id):
            # A header block is one unit, also for the compression table (RFC 9113 §4.3).
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "another frame in the middle of a header block")
        read = _READ.get(kind)
        if read is None:
            self.overhead += 1
        elif (event := read(self, flags, stream_id, payload)) is not None:  # type: ignore[arg-type]  # DATA may be a view
            self.events.append(event)

    def handle_unary_response(self, stream_id: int, first: bytes, message: bytes, last: bytes) -> bool:
        """Read three frames as one event; False if any of them is new or out of place, so each has to be read."""
        streams, cached = self._streams, self._cached_headers
        stream = streams.open.get(stream_id)
        # Header blocks are known only while the peer's table is unchanged, so nothing has to be decoded for it.
        headers, trailers = cached.get(first), cached.get(last)
        size = PREFIX_SIZE + len(message)
        if (
            stream is None
            or headers is None
            or trailers is None
            or stream.recv_state is not HEADERS
            or size > stream.receive_window
            or size > streams.receive_window
            or self._fragment is not None
        ):
            return False
        streams.receive_window -= size  # the stream's own has no use any more
        self._peer_ended(stream_id, stream)
        self.events.append(UnaryResponse(stream_id, headers, message, trailers))
        return True

    def _read_data(self, flags: int, stream_id: int, payload: Octets) -> Event | None:
        size = len(payload)
        # A padded payload is never a view.
        data = frames.without_padding(payload) if flags & PADDED else payload  # type: ignore[arg-type]
        # Padding counts for the windows, and so does data of a closed stream (RFC 9113 §6.1, §6.9).
        self._streams.receive_window -= size
        if self._streams.receive_window < 0:
            raise Http2ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window allows")
        end = flags & END_STREAM != 0
        if not data and not end:
            self.overhead += 1
        stream = self._streams.open.get(stream_id)
        if stream is None:
            self._streams.check_opened(stream_id)
            self._return_window(size)
            return None
        if stream.recv_state is not BODY:
            self._return_window(size)
            if stream.recv_state is HEADERS:
                return self._fail(stream_id, ErrorCode.PROTOCOL_ERROR, "DATA before headers")
            return self._fail(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end of the stream")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise Http2ProtocolError(
                ErrorCode.FLOW_CONTROL_ERROR, f"more data than the window of stream {stream_id} allows"
            )
        if end:
            self._peer_ended(stream_id, stream)
        return DataReceived(stream_id, data, size, end)

    def _return_window(self, size: int) -> None:
        """Give back connection window for bytes that no stream takes, once that is worth a frame."""
        self._unclaimed += size
        if self._unclaimed >= self._options.connection_window // 4:
            self._streams.receive_window += self._unclaimed
            self._outgoing.add_control(frames.uint32_frame(frames.WINDOW_UPDATE, 0, self._unclaimed))
            self._unclaimed = 0

    def _read_headers(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        if flags & PADDED:
            payload = frames.without_padding(payload)
        if flags & frames.WITH_PRIORITY:
            payload = frames.without_priority(payload)
        end = flags & END_STREAM != 0
        if flags & END_HEADERS:
            return self._read_block(stream_id, end, payload)
        # A closed stream's block is read as well, to keep the compression table in step (RFC 9113 §4.3).
        self._streams.check_opened(stream_id)
        self._fragment = HeaderFragment(stream_id, end, [payload], len(payload))
        return None

    def _read_continuation(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        block = self._fragment
        if block is None:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        if not flags & END_HEADERS and len(payload) < DEFAULT_MAX_FRAME:
            self.overhead += 1  # an honest peer fills a frame before it begins another
        block.parts.append(payload)
        block.size += len(payload)
        # Without a bound a peer could go on for ever, also with empty frames (CVE-2024-27316).
        if len(block.parts) > _MAX_CONTINUATIONS or block.size > self._options.header_block_bound:
            raise Http2ProtocolError(
                ErrorCode.ENHANCE_YOUR_CALM, f"header block without end: {block.size} bytes so far"
            )
        if not flags & END_HEADERS:
            return None
        self._fragment = None
        return self._read_block(block.stream_id, block.end, b"".join(block.parts))

    def _read_block(self, stream_id: int, end: bool, data: bytes) -> Event | None:
        block = self._decoder.decode(data)
        stream = self._streams.open.get(stream_id)
        if stream is None:
            self._streams.check_opened(stream_id)
            self.overhead += 1
            return None
        if stream.recv_state is NOTHING:
            return self._fail(stream_id, ErrorCode.STREAM_CLOSED, "headers after the end of the stream")
        if block.is_informational:
            # Any number of 1xx responses may come before the final one, none with END_STREAM (RFC 9113 §8.1).
            self.overhead += 1
            if end or stream.recv_state is BODY:
                return self._fail(stream_id, ErrorCode.PROTOCOL_ERROR, "an informational response out of place")
            return None
        if stream.recv_state is BODY and not end:
            # RFC 9113 §8.1: a second HEADERS frame is the trailers, and ends the stream.
            return self._fail(stream_id, ErrorCode.PROTOCOL_ERROR, "trailers that do not end the stream")
        stream.recv_state = BODY
        if end:
            self._peer_ended(stream_id, stream)
        # MAX_HEADER_LIST_SIZE is advisory (RFC 9113 §10.5.1), so a larger list costs only the stream.
        if block.size > self._options.max_header_list:
            return HeadersTooLarge(stream_id, block.size)
        return HeadersReceived(stream_id, block.headers, end)

    def _fail(self, stream_id: int, code: ErrorCode, message: str) -> Event:
        """End an open stream for the peer's mistake, and not the connection (RFC 9113 §5.4.2)."""
        del self._streams.open[stream_id]
        self._outgoing.add_control(frames.uint32_frame(frames.RST_STREAM, stream_id, code))
        return StreamFailed(stream_id, code, message)

    def _read_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        self.overhead += 1
        if not stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != 5:
            raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes, not 5")

    def _read_reset(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        # A RST_STREAM closes the stream at once, and is never answered by another one (RFC 9113 §5.4.2).
        code = frames.uint32_value(payload, "RST_STREAM")
        if self._streams.open.pop(stream_id, None) is None:
            self._streams.check_opened(stream_id)
            self.overhead += 1
            return None
        return StreamReset(stream_id, code)

    def _read_settings(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1 + len(payload) // SETTINGS_BYTES_PER_FRAME
        self._check_no_stream(stream_id, "SETTINGS")
        if flags & frames.ACK:
            if payload:
                raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "acknowledged SETTINGS are not empty")
            return None
        for key, value in frames.settings_values(payload).items():
            if key == frames.INITIAL_WINDOW_SIZE:
                self._streams.set_initial_send_window(value)
            elif key == frames.HEADER_TABLE_SIZE:
                self._encoder.set_table_limit(value)
            else:
                self._peer.set(key, value)
        # The acknowledgement follows after all values were applied (RFC 9113 §6.5.3).
        self._outgoing.add_control(frames.head(0, frames.SETTINGS, frames.ACK, 0))
        return SettingsReceived()

    def _read_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which our SETTINGS forbid")

    def _read_ping(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1
        self._check_no_stream(stream_id, "PING")
        if len(payload) != 8:
            raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"PING of {len(payload)} bytes, not 8")
        # A PING is answered with the same eight bytes, and an acknowledgement not at all (RFC 9113 §6.7).
        if flags & frames.ACK:
            return PingAcked(payload)
        self._outgoing.add_control(frames.head(8, frames.PING, frames.ACK, 0) + payload)
        return None

    def _read_goaway(self, flags: int, stream_id: int, payload: bytes) -> Event:
        self.overhead += 1
        self._check_no_stream(stream_id, "GOAWAY")
        return GoAwayReceived(*frames.goaway_values(payload))

    def _read_window_update(self, flags: int, stream_id: int, payload: bytes) -> Event | None:
        self.overhead += 1
        size = frames.uint32_value(payload, "WINDOW_UPDATE") & MAX_WINDOW
        if not size:
            # On a stream this might cost only the stream (RFC 9113 §6.9); §5.4.1 lets us end the connection.
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        streams = self._streams
        if not stream_id:
            was_open = streams.send_window > 0
            streams.send_window += size
            if streams.send_window > MAX_WINDOW:
                raise Http2ProtocolError(
                    ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE opens the connection's window too far"
                )
            # A stream is blocked only by a closed window, so a wider open one is no news.
            return None if was_open else WindowUpdated(0)
        stream = streams.open.get(stream_id)
        if stream is None:
            streams.check_opened(stream_id)
            return None
        was_open = streams.initial_send_window + stream.send_offset > 0
        if not streams.open_send_window(stream, size):
            return self._fail(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE opens its window too far")
        return None if was_open else WindowUpdated(stream_id)

    def _check_no_stream(self, stream_id: int, kind: str) -> None:
        if stream_id:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, f"{kind} on stream {stream_id}")

    def _peer_ended(self, stream_id: int, stream: StreamState) -> None:
        if stream.is_sending:
            stream.recv_state = NOTHING
        else:
            del self._streams.open[stream_id]


_READ: dict[int, Callable[[FrameHandler, int, int, bytes], Event | None]] = {
    frames.DATA: FrameHandler._read_data,
    frames.HEADERS: FrameHandler._read_headers,
    frames.PRIORITY: FrameHandler._read_priority,
    frames.RST_STREAM: FrameHandler._read_reset,
    frames.SETTINGS: FrameHandler._read_settings,
    frames.PUSH_PROMISE: FrameHandler._read_push_promise,
    frames.PING: FrameHandler._read_ping,
    frames.GOAWAY: FrameHandler._read_goaway,
    frames.WINDOW_UPDATE: FrameHandler._read_window_update,
    frames.CONTINUATION: FrameHandler._read_continuation,
}  # frames of unknown types are ignored (RFC 9113 §5.5)
