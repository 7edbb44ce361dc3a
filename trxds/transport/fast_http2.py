"""The data plane's HTTP/2 engine: only the client's end of a gRPC connection, and faster for that.

A method's headers are encoded once and then kept, and a request that is completely known leaves in one piece. A
`FrameReader` cuts received bytes into frames, and a `FrameHandler` turns them into events.
"""

from __future__ import annotations

from functools import lru_cache

from trxds.core.metadata import Headers

from . import frames
from .engine import Fields
from .events import ConnectionFailed, ErrorCode, Event, Octets
from .frame_handler import FrameHandler
from .frames import END_STREAM, FrameReader, Http2ProtocolError, OutgoingFrames
from .framing import PREFIX_SIZE
from .header_blocks import BlockEncoder
from .options import WireOptions
from .stream_state import DEFAULT_WINDOW, NOTHING, PeerSettings, StreamState, StreamStates


@lru_cache(maxsize=8)  # nearly all connections of a program have the same
def _preface(options: WireOptions) -> bytes:
    values = {
        frames.ENABLE_PUSH: 0,
        frames.INITIAL_WINDOW_SIZE: options.stream_window,
        frames.MAX_FRAME_SIZE: options.max_frame,
        frames.MAX_HEADER_LIST_SIZE: options.max_header_list,
    }
    preface = frames.PREFACE + frames.settings(values)
    # SETTINGS cannot change the connection's own window, only WINDOW_UPDATE can (RFC 9113 §6.9.2).
    wider = options.connection_window - DEFAULT_WINDOW
    return preface + frames.uint32_frame(frames.WINDOW_UPDATE, 0, wider) if wider > 0 else preface


class FastHttp2Engine:
    """The `Http2Engine` of a client's connection."""

    def __init__(self, options: WireOptions) -> None:
        self.outgoing = OutgoingFrames()
        self.unread = b""
        self.overhead = 0
        self.exhausted = False
        self._streams = StreamStates(options)
        self._peer = PeerSettings()
        self._encoder = BlockEncoder()
        self._frames = FrameReader(options.max_frame)
        self._handler = FrameHandler(self._streams, self._peer, self._encoder, self.outgoing, options)
        # The preface and SETTINGS come first; requests may follow without waiting for the server's (RFC 9113 §3.4).
        self.outgoing.add_control(_preface(options))

    def receive(self, data: bytes) -> list[Event]:
        handler = self._handler
        if self.unread:
            data = self.unread + data
        try:
            self.unread = self._frames.read(data, handler.handle_frame, handler.handle_unary_response)
        except Http2ProtocolError as violation:
            self.unread = b""
            # RFC 9113 §5.4.1: a connection error is sent as a GOAWAY with its code, and nothing is read after it.
            self.goaway(violation.code, str(violation).encode())
            handler.events.append(ConnectionFailed(violation.code, str(violation)))
        if handler.overhead:
            self.overhead += handler.overhead
            handler.overhead = 0
        events, handler.events = handler.events, []
        return events

    # -- streams

    @property
    def peer_max_streams(self) -> int:
        return self._peer.max_streams

    @property
    def peer_max_header_list(self) -> float:
        return self._peer.max_header_list

    @property
    def connection_window(self) -> int:
        return self._streams.send_window

    @property
    def receive_window(self) -> int:
        return self._streams.receive_window

    def stream_window(self, stream_id: int) -> int:
        stream = self._streams.open.get(stream_id)
        return self._streams.initial_send_window + stream.send_offset if stream is not None else 0

    def initial_data_limit(self) -> int:
        streams, limit = self._streams, self._peer.max_frame
        # Once for each call: `min` takes keywords, and costs ten times as much.
        if limit > streams.initial_send_window:
            limit = streams.initial_send_window
        return limit if limit < streams.send_window else streams.send_window

    def open_stream(
        self, method_headers: Fields, metadata: Headers, uncached_headers: Headers, message: bytes | None = None
    ) -> int:
        streams = self._streams
        stream_id = streams.next_id
        streams.next_id += 2
        # Identifiers are never used again (RFC 9113 §5.1.1).
        self.exhausted = streams.next_id > frames.MAX_STREAM_ID
        block = self._encoder.encode(method_headers, metadata, uncached_headers)
        if message is not None:
            # END_STREAM is on the DATA frame: an empty one behind it would be one frame more for each call.
            size = PREFIX_SIZE + len(message)
            streams.open[stream_id] = StreamState(streams.initial_receive_window, -size, False)
            streams.send_window -= size
            self.outgoing.add(frames.request(stream_id, block, message, self._peer.max_frame))
        else:
            streams.open[stream_id] = StreamState(streams.initial_receive_window)
            self.outgoing.add(frames.headers(stream_id, block, self._peer.max_frame))
        return stream_id

    def write(self, stream_id: int, data: Octets, *, end: bool, limit: int) -> int:
        streams = self._streams
        stream = streams.open.get(stream_id)
        if stream is None or not stream.is_sending:
            return 0
        size = len(data)
        # A peer's SETTINGS may make a stream's window negative (RFC 9113 §6.9.2).
        room = max(0, min(size, limit, streams.initial_send_window + stream.send_offset, streams.send_window))
        if room:
            stream.send_offset -= room
            streams.send_window -= room
        elif size or not end:
            return 0  # only an empty DATA frame needs no window (RFC 9113 §6.9)
        ends = end and room == size
        self._append_data(stream_id, data if room == size else data[:room], ends)
        if ends:
            stream.is_sending = False
            if stream.recv_state is NOTHING:
                del streams.open[stream_id]
        return room

    def _append_data(self, stream_id: int, data: Octets, end: bool) -> None:
        """Append `data` in frames no larger than the peer's limit; empty data in one frame."""
        start, size, largest = 0, len(data), self._peer.max_frame
        while size - start > largest:
            head = frames.head(largest, frames.DATA, 0, stream_id)
            self.outgoing.add_data(head, data[start : start + largest])
            start += largest
        head = frames.head(size - start, frames.DATA, END_STREAM if end else 0, stream_id)
        self.outgoing.add_data(head, data[start:] if start else data)

    def increment_window(self, stream_id: int, size: int) -> None:
        if not stream_id:
            self._streams.receive_window += size
        elif stream_id in self._streams.open:
            self._streams.open[stream_id].receive_window += size
        else:
            return  # the peer has closed the stream and cannot use it
        self.outgoing.add_control(frames.uint32_frame(frames.WINDOW_UPDATE, stream_id, size))

    def update_initial_window(self, stream_window: int) -> None:
        # Counted before the peer has acknowledged it, which is safe because the window only grows.
        self._streams.set_initial_receive_window(stream_window)
        self.outgoing.add_control(frames.settings({frames.INITIAL_WINDOW_SIZE: stream_window}))

    def reset(self, stream_id: int, code: int) -> None:
        if self._streams.open.pop(stream_id, None) is not None:
            self.outgoing.add_control(frames.uint32_frame(frames.RST_STREAM, stream_id, code))

    # -- the connection

    def ping(self, payload: bytes) -> None:
        self.outgoing.add_control(frames.head(8, frames.PING, 0, 0) + payload)

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"") -> None:
        self.outgoing.add_control(frames.goaway(0, code, debug))  # 0, because a server opens no streams
