"""HTTP/2 for the client's end of a gRPC connection, and for no other: the data plane's engine.

A method's headers are encoded once, and a request that is known whole leaves in one piece. What is read is the other
half's (`lean_reading.py`).
"""

from __future__ import annotations

from trxds.ground.metadata import Headers

from . import frames
from .engine import Fields, Octets
from .events import ErrorCode
from .frames import END_STREAM
from .header_blocks import BlockEncoder
from .lean_reading import FIRST_WINDOW, Reading
from .open_stream import NOTHING, OpenStream
from .options import WireOptions


class LeanEngine(Reading):
    """A client's `Engine`."""

    def __init__(self, options: WireOptions) -> None:
        super().__init__(options)
        self.unsent = 0
        self.control_unsent = 0
        self.frames_sent = 0
        self.exhausted = False
        self._encoder = BlockEncoder()
        self._outgoing: list[Octets] = []
        self._stream_window = options.stream_window
        self._greet()

    def _greet(self) -> None:
        options = self._options
        values = {
            frames.ENABLE_PUSH: 0,
            frames.INITIAL_WINDOW_SIZE: options.stream_window,
            frames.MAX_FRAME_SIZE: options.max_frame,
            frames.MAX_HEADER_LIST_SIZE: options.max_header_list,
        }
        self._control(frames.PREFACE + frames.settings(values))
        if self._receive_window > FIRST_WINDOW:
            self._control(frames.long_frame(frames.WINDOW_UPDATE, 0, self._receive_window - FIRST_WINDOW))

    def take_outgoing(self) -> bytes:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        self.unsent = self.control_unsent = 0
        return data

    def _control(self, frame: bytes) -> None:
        self._outgoing.append(frame)
        self.unsent += len(frame)
        self.control_unsent += len(frame)

    def stream_window(self, stream_id: int) -> int:
        stream = self._streams.get(stream_id)
        return self._peer_window + stream.send_offset if stream is not None else 0

    @property
    def receive_window(self) -> int:
        return self._receive_window

    def opening_room(self) -> int:
        return min(self._peer_window, self.connection_window, self._peer_max_frame)

    def open_stream(self, fixed: Fields, metadata: Headers, passing: Headers, whole: Octets = b"") -> int:
        stream_id = self._next_id
        self._next_id += 2
        self.exhausted = self._next_id > frames.MAX_STREAM_ID
        stream = self._streams[stream_id] = OpenStream(self._stream_window)
        block = self._encoder.encode(fixed, metadata, passing)
        if whole:
            size = len(whole)
            stream.send_offset = -size
            stream.sending = False
            self.connection_window -= size
            said = frames.request(stream_id, block, whole, self._peer_max_frame)
        else:
            said = frames.headers(stream_id, block, self._peer_max_frame)
        self._outgoing.append(said)
        self.unsent += len(said)
        self.frames_sent += 1
        return stream_id

    def write(self, stream_id: int, data: Octets, *, end: bool, limit: int) -> int:
        stream = self._streams.get(stream_id)
        if stream is None or not stream.sending:
            return 0
        size = len(data)
        room = max(0, min(size, limit, self._peer_window + stream.send_offset, self.connection_window))
        if room:
            stream.send_offset -= room
            self.connection_window -= room
        elif size or not end:
            return 0
        ends = end and room == size
        self._append_data(stream_id, data if room == size else data[:room], ends)
        if ends:
            self._we_ended(stream_id, stream)
        return room

    def _append_data(self, stream_id: int, data: Octets, end: bool) -> None:
        """All of it, in frames no larger than the peer's largest; one frame if it is empty."""
        start, size, largest = 0, len(data), self._peer_max_frame
        while size - start > largest:
            self._append_frame(stream_id, data[start : start + largest], 0)
            start += largest
        self._append_frame(stream_id, data[start:] if start else data, END_STREAM if end else 0)

    def _append_frame(self, stream_id: int, data: Octets, flags: int) -> None:
        self._outgoing += (frames.head(len(data), frames.DATA, flags, stream_id), data)
        self.unsent += 9 + len(data)
        self.frames_sent += 1

    def _we_ended(self, stream_id: int, stream: OpenStream) -> None:
        stream.sending = False
        if stream.awaits is NOTHING:
            del self._streams[stream_id]

    def credit(self, stream_id: int, size: int) -> None:
        if not stream_id:
            self._receive_window += size
        elif stream_id in self._streams:
            self._streams[stream_id].receive_window += size
        else:
            return
        self._control(frames.long_frame(frames.WINDOW_UPDATE, stream_id, size))

    def widen(self, stream_window: int) -> None:
        change, self._stream_window = stream_window - self._stream_window, stream_window
        for stream in self._streams.values():
            stream.receive_window += change
        self._control(frames.settings({frames.INITIAL_WINDOW_SIZE: stream_window}))

    def reset(self, stream_id: int, code: int) -> None:
        if self._streams.pop(stream_id, None) is not None:
            self._control(frames.long_frame(frames.RST_STREAM, stream_id, code))

    def ping(self, payload: bytes) -> None:
        self._control(frames.head(8, frames.PING, 0, 0) + payload)

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream_id: int | None = None) -> None:
        """A server opens no streams, so the last of them is 0 if nobody says otherwise."""
        self._control(frames.goaway(last_stream_id or 0, code, debug))
