"""The host's end of a connection in as few steps as possible: HTTP/2 frames in, an echo of each request out.

It has no task, and it decodes no header block: whatever the method is, it answers with the bytes of the request's
messages and the status that its host decides. It keeps to the client's windows and frame size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Protocol

from trxds.core.metadata import encode_message
from trxds.core.status import OK, Status, StatusCode
from trxds.transport import frames
from trxds.transport.health_watch import PATH as WATCH_PATH

from .network import Connection

_HEAD = struct.Struct(">HBBBL")
_SETTING = struct.Struct(">HL")
_UINT32 = struct.Struct(">L")
_DEFAULT_WINDOW = 65_535
_MAX_FRAME = 16_384
_CREDIT = 16 * 1024  # bytes received before the connection's window is opened again

# RFC 7541: `:status: 200` is 8 in the static table, `content-type` is 31; literals without indexing.
_HEADERS = b"\x88" + b"\x0f\x10" + b"\x10application/grpc"
_STATUS = b"\x00\x0bgrpc-status"
_MESSAGE = b"\x00\x0cgrpc-message"
_OK_TRAILERS = _STATUS + b"\x010"
# Without a compression table (RFC 7541 §4.2) the client's encoder writes each value as it is, and so the path below.
_SETTINGS = {frames.HEADER_TABLE_SIZE: 0, frames.MAX_CONCURRENT_STREAMS: 1000}
_WATCH = WATCH_PATH.encode()
_REPORTS = b"/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"
_NO_REPORTS = Status(StatusCode.UNIMPLEMENTED, "a simulated host sends no load reports")
_MAX_MESSAGE = 126  # bytes whose length fits into one byte of HPACK


class Host(Protocol):
    """What decides when and how requests are answered."""

    def begin(self, connection: EchoConnection, stream: Stream) -> None:
        """A request has come to its end; `connection.respond` answers it, at once or later."""

    def watch(self, connection: EchoConnection, stream: Stream) -> None:
        """A health check has begun (A17); `connection.send` says the host's health, as often as it changes."""

    def forget(self, stream: Stream) -> None:
        """The client has given the request up, or the connection has ended."""

    def closed(self, connection: EchoConnection) -> None:
        """A connection has ended."""


@dataclass(slots=True, eq=False)
class Stream:
    """A stream of one call. `request` is what came with the end of the request and has not been echoed."""

    id: int
    send_window: int
    request: bytes = b""
    has_headers: bool = False  # our response's
    is_watch: bool = False  # a health check (A17)
    wants_reports: bool = False  # of the host's load (A51)
    is_begun: bool = False  # the request is complete, and the host answers it
    unsent: bytearray = field(default_factory=bytearray)
    trailers: bytes | None = None  # that follow what is unsent


class EchoConnection:
    """A connection of an echo host; it implements `Endpoint`."""

    def __init__(self, host: Host, connection: Connection) -> None:
        self.connection = connection
        self._host = host
        self._streams: dict[int, Stream] = {}
        self._unread = b""
        self._has_preface = False
        self._output: list[bytes] = [frames.settings(_SETTINGS)]
        self._send_window = _DEFAULT_WINDOW
        self._initial_window = _DEFAULT_WINDOW
        self._received = 0
        self._last_stream = 0
        self._has_sent_goaway = False
        self._header_stream: tuple[int, bool] | None = None  # whose CONTINUATION has to come, and whether it ends there

    def __repr__(self) -> str:
        return f"<EchoConnection from {self.connection.client}, {len(self._streams)} streams>"

    # -- Endpoint

    def receive(self, data: bytes) -> None:
        """Handle bytes of the client."""
        data = self._unread + data if self._unread else data
        start = 0
        if not self._has_preface:
            if len(data) < len(frames.PREFACE):
                self._unread = data
                return
            self._has_preface, start = True, len(frames.PREFACE)
        size = len(data)
        while size - start >= 9:
            high, low, kind, flags, stream_id = _HEAD.unpack_from(data, start)
            end = start + 9 + (high << 8 | low)
            if end > size:
                break
            self._handle(kind, flags, stream_id & 0x7FFFFFFF, data[start + 9 : end])
            start = end
        self._unread = data[start:]
        self.flush()

    def peer_closed(self) -> None:
        """Give up every request: the connection has ended."""
        # Taken first: the host goes on with calls that wait, and they may be of this connection too.
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            self._host.forget(stream)
        self._host.closed(self)
        self.connection.close()

    # -- for the host

    def respond(self, stream: Stream, status: Status = OK) -> None:
        """End a call: with its request's messages if the status is OK."""
        if self._streams.get(stream.id) is not stream:
            return
        is_ok = status.code is StatusCode.OK
        fields = _OK_TRAILERS if is_ok else _trailers(status)
        if is_ok and (stream.request or not stream.has_headers):
            self._begin(stream)
        stream.unsent += stream.request if is_ok else b""
        # PROTOCOL-HTTP2, "Trailers-Only": without a message before, one HEADERS frame has headers and status.
        stream.trailers = fields if stream.has_headers else _HEADERS + fields
        self._send(stream)

    def send(self, stream: Stream, message: bytes) -> None:
        """Send a message of a response that goes on."""
        if self._streams.get(stream.id) is stream:
            self._begin(stream)
            stream.unsent += b"\0" + _UINT32.pack(len(message)) + message
            self._send(stream)

    def reset_streams(self, code: int) -> None:
        """Reset every open stream."""
        for stream in tuple(self._streams.values()):
            self._output.append(frames.uint32_frame(frames.RST_STREAM, stream.id, code))
            self._remove(stream)
        self.flush()

    def goaway(self, code: int) -> None:
        """Send GOAWAY; the open calls go on to their ends, and later ones are ignored."""
        self._has_sent_goaway = True
        self._output.append(frames.goaway(self._last_stream, code, b""))
        self.flush()

    def flush(self) -> None:
        """Send all output."""
        if self._output:
            data, self._output = b"".join(self._output), []
            self.connection.send(data)

    # -- frames

    def _handle(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._handle_data(flags, stream_id, payload)
        elif kind == frames.HEADERS:
            # RFC 9113 §6.8: a stream that was sent before the client has read the GOAWAY is not processed.
            if self._has_sent_goaway:
                return
            self._last_stream = max(self._last_stream, stream_id)
            self._streams[stream_id] = Stream(
                stream_id, self._initial_window, is_watch=_WATCH in payload, wants_reports=_REPORTS in payload
            )
            if not flags & frames.END_HEADERS:
                self._header_stream = stream_id, bool(flags & frames.END_STREAM)
            elif flags & frames.END_STREAM:
                self._end_request(stream_id)
        elif kind == frames.CONTINUATION and self._header_stream is not None and flags & frames.END_HEADERS:
            (stream_id, is_end), self._header_stream = self._header_stream, None
            if is_end:
                self._end_request(stream_id)
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            self._handle_settings(payload)
        elif kind == frames.PING and not flags & frames.ACK:
            self._output.append(frames.head(8, frames.PING, frames.ACK, 0) + payload)
        elif kind == frames.WINDOW_UPDATE:
            self._handle_window(stream_id, _UINT32.unpack(payload)[0] & 0x7FFFFFFF)
        elif kind == frames.RST_STREAM and stream_id in self._streams:
            self._host.forget(self._streams.pop(stream_id))

    def _handle_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received >= _CREDIT:
            self._output.append(frames.uint32_frame(frames.WINDOW_UPDATE, 0, self._received))
            self._received = 0
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_begun:
            return
        if flags & frames.END_STREAM:
            stream.request = payload
            self._end_request(stream_id)
        elif payload:
            # The request goes on, so its messages are echoed as they come, as a bidirectional method might.
            self._output.append(frames.uint32_frame(frames.WINDOW_UPDATE, stream_id, len(payload)))
            self._begin(stream)
            stream.unsent += payload
            self._send(stream)

    def _end_request(self, stream_id: int) -> None:
        stream = self._streams[stream_id]
        stream.is_begun = True
        if stream.is_watch:
            self._host.watch(self, stream)
        elif stream.wants_reports:
            self.respond(stream, _NO_REPORTS)  # an echo would look like a report, and count as a call
        else:
            self._host.begin(self, stream)

    def _handle_settings(self, payload: bytes) -> None:
        self._output.append(frames.head(0, frames.SETTINGS, frames.ACK, 0))
        for key, value in _SETTING.iter_unpack(payload):
            if key == frames.INITIAL_WINDOW_SIZE:
                change, self._initial_window = value - self._initial_window, value
                for stream in tuple(self._streams.values()):
                    stream.send_window += change
                    self._send(stream)

    def _handle_window(self, stream_id: int, size: int) -> None:
        if stream_id == 0:
            self._send_window += size
            for stream in tuple(self._streams.values()):
                self._send(stream)
        elif stream_id in self._streams:
            self._streams[stream_id].send_window += size
            self._send(self._streams[stream_id])

    # -- the response

    def _begin(self, stream: Stream) -> None:
        if not stream.has_headers:
            stream.has_headers = True
            self._output.append(frames.headers(stream.id, _HEADERS, _MAX_FRAME))

    def _send(self, stream: Stream) -> None:
        """Send of a stream what the windows allow, and its trailers behind the last byte."""
        while stream.unsent:
            room = min(len(stream.unsent), _MAX_FRAME, stream.send_window, self._send_window)
            if room <= 0:
                return
            stream.send_window -= room
            self._send_window -= room
            self._output += (frames.head(room, frames.DATA, 0, stream.id), bytes(stream.unsent[:room]))
            del stream.unsent[:room]
        if stream.trailers is not None:
            ends = frames.END_STREAM | frames.END_HEADERS
            self._output += (frames.head(len(stream.trailers), frames.HEADERS, ends, stream.id), stream.trailers)
            del self._streams[stream.id]

    def _remove(self, stream: Stream) -> None:
        del self._streams[stream.id]
        self._host.forget(stream)


def _trailers(status: Status) -> bytes:
    number, text = b"%d" % status.code, encode_message(status.message)[:_MAX_MESSAGE]
    return b"".join((_STATUS, bytes([len(number)]), number, _MESSAGE, bytes([len(text)]), text))
