"""HTTP/2 by the h2 library, at either end of a connection; nothing of h2 is visible outside.

Some behaviour of h2 does not suit a gRPC connection and is changed (`h2_connection.py`, `frame_heads.py`):

- A GOAWAY closes h2's connection for good. RFC 9113 §6.8 means the opposite: streams up to the
  last identifier go on to their end, on a connection that opens no new ones.
- It believes a frame's length until all of it has come, so that a peer which does not speak HTTP/2
  ("HTTP/1.1 400 Bad Request" reads as a frame of 4.7 MB) would be waited for without an error.
- It walks over all streams whenever one is opened, and for each SETTINGS frame that changes windows or the
  largest frame.
- It keeps any settings and streams that a server makes up, and the header blocks of 64 frames.
- A client that opens a stream too many, or sends a malformed request, loses its connection with all its calls. Both
  cost one stream (RFC 9113 §5.1.2, §8.1.1): `server/server_connection.py` refuses it. So do a content-length that
  does not fit, HEADERS and DATA out of order, and a stream that depends on itself (RFC 7540 §5.3.1), which h2 itself
  is made to reset.
- It answers DATA for a stream that we have reset with another RST_STREAM.
- It reads all that it is given, however long that takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import h2.events
import h2.exceptions
import h2.settings
from hpack.struct import NeverIndexedHeaderTuple

from trxds.core.metadata import Headers

from .engine import Fields
from .events import (
    ConnectionFailed,
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
    WindowUpdated,
)
from .frame_heads import FrameHeads
from .frames import MAX_STREAM_ID, Http2ProtocolError, OutgoingFrames
from .framing import frame
from .h2_connection import make_h2
from .header_blocks import error_text, list_size
from .options import WireOptions
from .stream_state import DEFAULT_WINDOW


class H2LibraryEngine:
    """The `Http2Engine` of servers, and of clients that want h2 to check every rule."""

    def __init__(self, *, client: bool, options: WireOptions) -> None:
        self._h2 = make_h2(client, options)
        self._frames = FrameHeads(client, options)
        self._max_header_list = options.max_header_list
        self._next_id = 1
        self.outgoing = OutgoingFrames()
        self.unread = b""
        self.overhead = 0
        self._h2.initiate_connection()
        if options.connection_window > DEFAULT_WINDOW:
            self._h2.increment_flow_control_window(options.connection_window - DEFAULT_WINDOW)
        self._collect(control=True)

    # -- in

    def receive(self, data: bytes) -> list[Event]:
        if self.unread:
            data, self.unread = self.unread + data, b""
        try:
            end = self._frames.check(data)
            if end < len(data):
                data, self.unread = data[:end], data[end:]
            received = self._h2.receive_data(data)
        except Http2ProtocolError as error:
            self.goaway(error.code, str(error).encode())
            return [ConnectionFailed(error.code, str(error))]
        except h2.exceptions.ProtocolError as error:
            self.unread = b""
            self._collect(control=True)
            # h2 has put a GOAWAY into its output already.
            return [ConnectionFailed(int(error.error_code), _describe_error(error))]
        self.overhead += self._frames.overhead
        self._frames.overhead = 0
        self._collect(control=True)
        # Without 1xx responses, priorities and acknowledged settings, which gRPC ignores.
        events = [_TRANSLATIONS[type(each)](each) for each in received if type(each) in _TRANSLATIONS]
        return [self._check_limits(event) for event in events]

    def _check_limits(self, event: Event) -> Event:
        if isinstance(event, HeadersReceived) and (size := list_size(event.headers)) > self._max_header_list:
            return HeadersTooLarge(event.stream_id, size)
        # RFC 9113 §10.5: empty DATA frames without an end cost us work and the peer nothing.
        if isinstance(event, DataReceived) and not event.data and not event.end:
            self.overhead += 1
        return event

    # -- out

    def _collect(self, *, control: bool) -> None:
        data = self._h2.data_to_send()
        if data and control:
            self.outgoing.add_control(data)
        elif data:
            self.outgoing.add(data)

    # -- streams

    @property
    def peer_max_streams(self) -> int:
        return self._h2.remote_settings.max_concurrent_streams

    @property
    def peer_max_header_list(self) -> float:
        limit = self._h2.remote_settings.max_header_list_size
        return math.inf if limit is None else limit

    @property
    def exhausted(self) -> bool:
        return self._next_id > MAX_STREAM_ID

    def initial_data_limit(self) -> int:
        window = min(self._h2.remote_settings.initial_window_size, self._h2.outbound_flow_control_window)
        return min(window, self._h2.max_outbound_frame_size)

    def open_stream(
        self, method_headers: Fields, metadata: Headers, uncached_headers: Headers, message: bytes | None = None
    ) -> int:
        stream_id = self._next_id
        self._next_id += 2
        # RFC 7541 §7.1.3: a never-indexed field also stays out of the tables of proxies. Metadata may be a secret, and
        # from a shared table others could guess it.
        of_call = [NeverIndexedHeaderTuple(*field) for field in (*metadata, *uncached_headers)]
        self._h2.send_headers(stream_id, [*method_headers, *of_call])
        if message is not None:
            self._h2.send_data(stream_id, frame(message), end_stream=True)
        self._collect(control=False)
        return stream_id

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers on a stream, if it is open."""
        if self._is_open(stream_id):
            self._h2.send_headers(stream_id, headers, end)
            self._collect(control=False)

    def _is_open(self, stream_id: int) -> bool:
        """Return whether h2 lets us send on this stream.

        h2 reads ahead of us: when an event is handled, a later event of the same read may have ended the stream. That
        event is about to come, so nothing has to be sent any more.
        """
        stream = self._h2.streams.get(stream_id)
        return stream is not None and not stream.closed

    def write(self, stream_id: int, data: Octets, *, end: bool, limit: int) -> int:
        if not self._is_open(stream_id):
            return 0
        size = len(data)
        room = min(size, limit, self._h2.local_flow_control_window(stream_id))
        if not size and end:
            self._h2.end_stream(stream_id)
            self._collect(control=False)
        elif room <= 0:
            return 0
        largest = self._h2.max_outbound_frame_size
        # h2 refuses a frame above the peer's limit, and does not divide it.
        for start in range(0, room, largest):
            stop = min(start + largest, room)
            self._h2.send_data(stream_id, data[start:stop], end_stream=end and stop == size)
            self._collect(control=False)
        return max(room, 0)

    def stream_window(self, stream_id: int) -> int:
        return self._h2.streams[stream_id].outbound_flow_control_window if self._is_open(stream_id) else 0

    @property
    def connection_window(self) -> int:
        return self._h2.outbound_flow_control_window

    @property
    def receive_window(self) -> int:
        return self._h2.inbound_flow_control_window

    def increment_window(self, stream_id: int, size: int) -> None:
        if stream_id == 0 or self._is_open(stream_id):
            self._h2.increment_flow_control_window(size, stream_id or None)
            self._collect(control=True)

    def update_initial_window(self, stream_window: int) -> None:
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: stream_window})
        self._collect(control=True)

    def reset(self, stream_id: int, code: int) -> None:
        try:
            self._h2.reset_stream(stream_id, code)
        # The peer may have ended the stream in the same read, and h2 has forgotten it.
        except h2.exceptions.NoSuchStreamError:
            return
        self._collect(control=True)

    # -- the connection

    def ping(self, payload: bytes) -> None:
        self._h2.ping(payload)
        self._collect(control=True)

    def goaway(self, code: int = ErrorCode.NO_ERROR, debug: bytes = b"", last_stream_id: int | None = None) -> None:
        self._h2.close_connection(code, debug, last_stream_id)
        self._collect(control=True)


# -- h2's events in our words


def _headers(event: Any) -> Event:
    return HeadersReceived(event.stream_id, event.headers, event.stream_ended is not None)


def _data(event: Any) -> Event:
    return DataReceived(event.stream_id, event.data, event.flow_controlled_length, event.stream_ended is not None)


def _reset(event: Any) -> Event:
    if event.remote_reset:
        return StreamReset(event.stream_id, int(event.error_code))
    return StreamFailed(event.stream_id, int(event.error_code), "it broke a rule of HTTP/2 on this stream")


_TRANSLATIONS: dict[type, Callable[[Any], Event]] = {
    h2.events.RequestReceived: _headers,
    h2.events.ResponseReceived: _headers,
    h2.events.TrailersReceived: _headers,
    h2.events.DataReceived: _data,
    h2.events.StreamReset: _reset,
    StreamFailed: lambda event: event,  # of `h2_connection.py`
    h2.events.WindowUpdated: lambda event: WindowUpdated(event.stream_id),
    h2.events.RemoteSettingsChanged: lambda event: SettingsReceived(),
    h2.events.PingAckReceived: lambda event: PingAcked(event.ping_data),
    h2.events.ConnectionTerminated: lambda event: GoAwayReceived(
        # h2 leaves the reserved bit in the number, which means nothing (RFC 9113 §6.8).
        event.last_stream_id & MAX_STREAM_ID,
        int(event.error_code),
        event.additional_data or b"",
    ),
}


def _describe_error(error: h2.exceptions.ProtocolError) -> str:
    if isinstance(error, h2.exceptions.NoSuchStreamError):
        return f"{type(error).__name__} on stream {error.stream_id}"  # h2's message is only the number
    return error_text(error) or type(error).__name__
