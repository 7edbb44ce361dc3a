"""HTTP/2 by h2, at either end of a connection; nothing of h2 is seen outside this file.

Some of its ways do not suit a gRPC connection and are changed here:

- A GOAWAY closes h2's connection for good. RFC 9113 §6.8 means the opposite: streams up to the
  last identifier go on to their end, on a connection that opens no new ones.
- It believes a frame's length until all of it has come, so that a peer which does not speak HTTP/2
  ("HTTP/1.1 400 Bad Request" reads as a frame of 4.7 MB) would be waited for without a word.
- It walks over all streams whenever one is opened.
- It keeps whatever settings and streams a server makes up, and the header blocks of 64 frames.
- A client that opens a stream too many, or sends a malformed request, loses its connection with all its calls. Both
  cost one stream (RFC 9113 §5.1.2, §8.1.1): `serving/connection.py` refuses it.
- Settings that change windows or the largest frame make it walk over all streams, for each frame of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import h2.stream
from hpack.struct import NeverIndexedHeaderTuple

from trxds.ground.metadata import Headers

from .engine import Fields, Octets
from .events import (
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
from .frames import CONTINUATION, DATA, END_HEADERS, HEADERS, MAX_WINDOW, SETTINGS, Violation
from .header_blocks import BoundedDecoder, PrivateTable, complaint, list_size
from .options import WireOptions

_PREFACE_SIZE = 24
_FRAME_HEADER_SIZE = 9
_INITIAL_WINDOW = 65_535
_LAST_STREAM_ID = 2**31 - 1
_SWEEP_INTERVAL = 64
_KNOWN_SETTINGS = frozenset(h2.settings.SettingCodes)
_STEP = 64  # frames that are read in one go, or what costs as much; h2 needs four times as long for one as we do
_DATA_SHIFT = 11  # of data 2 KiB cost as much as a frame,
_SHIFT = 6  # ... of anything else 64 bytes
_FULL = 16_384  # nobody's largest frame is less


class H2Engine:
    """The `Engine` of servers, and of clients that want every rule of h2's checked."""

    def __init__(self, *, client: bool, options: WireOptions) -> None:
        self._h2 = _make_h2(client, options)
        self._frames = _FrameHeads(client, options)
        self._max_header_list = options.max_header_list
        self._outgoing: list[bytes] = []
        self._next_id = 1
        self.unsent = 0
        self.control_unsent = 0
        self.unread = b""
        self.overhead = 0
        self.frames_sent = 0
        self._h2.initiate_connection()
        if options.connection_window > _INITIAL_WINDOW:
            self._h2.increment_flow_control_window(options.connection_window - _INITIAL_WINDOW)
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
        except Violation as error:
            return self._break(error.code, str(error))
        except h2.exceptions.ProtocolError as error:
            self.unread = b""
            self._collect(control=True)
            return [Broken(int(error.error_code), _complaint(error))]
        self.overhead += self._frames.overhead
        self._frames.overhead = 0
        self._collect(control=True)
        return [self._limited(event) for event in map(_translate, received) if event is not None]

    def _limited(self, event: Event) -> Event:
        if isinstance(event, HeadersReceived) and (size := list_size(event.headers)) > self._max_header_list:
            return HeadersTooLarge(event.stream_id, size)
        if isinstance(event, DataReceived) and not event.data and not event.end:
            self.overhead += 1
        return event

    def _break(self, code: ErrorCode, message: str) -> list[Event]:
        self.goaway(code, message.encode())
        return [Broken(code, message)]

    # -- out

    def take_outgoing(self) -> bytes:
        data = self._outgoing[0] if len(self._outgoing) == 1 else b"".join(self._outgoing)
        self._outgoing.clear()
        self.unsent = self.control_unsent = 0
        return data

    def _collect(self, *, control: bool) -> None:
        data = self._h2.data_to_send()
        if data:
            self._outgoing.append(data)
            self.unsent += len(data)
            if control:
                self.control_unsent += len(data)

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
        return self._next_id > _LAST_STREAM_ID

    def opening_room(self) -> int:
        window = min(self._h2.remote_settings.initial_window_size, self._h2.outbound_flow_control_window)
        return min(window, self._h2.max_outbound_frame_size)

    def open_stream(self, fixed: Fields, metadata: Headers, passing: Headers, whole: Octets = b"") -> int:
        stream_id = self._next_id
        self._next_id += 2
        self._h2.send_headers(stream_id, [*fixed, *metadata, *(NeverIndexedHeaderTuple(*field) for field in passing)])
        if whole:
            self._h2.send_data(stream_id, whole, end_stream=True)
        self.frames_sent += 1
        self._collect(control=False)
        return stream_id

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Headers or trailers of a stream that is open."""
        if self._is_open(stream_id):
            self._h2.send_headers(stream_id, headers, end)
            self.frames_sent += 1
            self._collect(control=False)

    def _is_open(self, stream_id: int) -> bool:
        """Whether h2 lets us speak of this stream.

        It reads ahead of us: when an event is handled, the stream may have ended by a later one of
        the same read. Its news is then about to come, and nothing need be said any more.
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
        elif room <= 0:
            return 0
        largest = self._h2.max_outbound_frame_size
        for start in range(0, room, largest):
            stop = min(start + largest, room)
            self._h2.send_data(stream_id, data[start:stop], end_stream=end and stop == size)
            self.frames_sent += 1
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

    def credit(self, stream_id: int, size: int) -> None:
        if stream_id == 0 or self._is_open(stream_id):
            self._h2.increment_flow_control_window(size, stream_id or None)
            self._collect(control=True)

    def widen(self, stream_window: int) -> None:
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: stream_window})
        self._collect(control=True)

    def reset(self, stream_id: int, code: int) -> None:
        try:
            self._h2.reset_stream(stream_id, code)
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


def _make_h2(client: bool, options: WireOptions) -> _H2:
    made = _H2(
        h2.config.H2Configuration(
            client_side=client,
            header_encoding=None,
            # Metadata was checked where it came in. A client only looks up what a server sends; servers have
            # `serving/malformed.py`.
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
            validate_inbound_headers=False,
            normalize_inbound_headers=False,
        )
    )
    codes = h2.settings.SettingCodes
    values: dict[Any, int] = {
        codes.INITIAL_WINDOW_SIZE: options.stream_window,
        codes.MAX_FRAME_SIZE: options.max_frame,
        codes.MAX_HEADER_LIST_SIZE: options.max_header_list,
    }
    if client:
        values[codes.ENABLE_PUSH] = 0
        values[codes.MAX_CONCURRENT_STREAMS] = 0  # h2 would take streams that a server opens, push or not
    elif options.max_concurrent_streams is not None:
        values[codes.MAX_CONCURRENT_STREAMS] = options.max_concurrent_streams
    made.local_settings = h2.settings.Settings(client=client, initial_values=values)
    made.remote_settings = _KnownSettings(client=not client)
    made.max_inbound_frame_size = options.max_frame
    made.decoder = BoundedDecoder(options.header_list_bound)
    made.encoder.header_table = PrivateTable()
    return made


class _KnownSettings(h2.settings.Settings):
    """A peer's settings, without those that nobody knows: h2 would keep 65,536 of them for good."""

    def __setitem__(self, key: h2.settings.SettingCodes | int, value: int) -> None:
        if key in _KNOWN_SETTINGS:
            super().__setitem__(key, value)


class _PeerLimits:
    """What the peer's SETTINGS say of every stream."""

    __slots__ = ("initial_window", "max_frame", "max_offset")

    def __init__(self, initial_window: int, max_frame: int) -> None:
        self.initial_window = initial_window
        self.max_frame = max_frame
        self.max_offset = 0
        """No stream's window is more above the initial one; of streams that have gone, too."""


class _Stream(h2.stream.H2Stream):
    """h2's stream, which keeps of the peer's limits only how far its window is from the initial one.

    So does the lean engine's (`open_stream.py`). Every stream of h2's becomes one as soon as it is made.
    """

    limits: _PeerLimits
    send_offset: int

    @property
    def outbound_flow_control_window(self) -> int:
        return self.limits.initial_window + self.send_offset

    @outbound_flow_control_window.setter
    def outbound_flow_control_window(self, window: int) -> None:
        self.send_offset = window - self.limits.initial_window
        if self.send_offset > self.limits.max_offset:
            self.limits.max_offset = self.send_offset

    @property
    def max_outbound_frame_size(self) -> int:
        return self.limits.max_frame

    @max_outbound_frame_size.setter
    def max_outbound_frame_size(self, size: int) -> None:
        """It is the connection's."""


class _OpenAfterGoAway(h2.connection.H2ConnectionStateMachine):
    """h2's table of (state, input) without the two rows by which a GOAWAY closes the connection."""

    def process_input(self, input_: h2.connection.ConnectionInputs) -> list[h2.events.Event]:
        if input_ in (h2.connection.ConnectionInputs.RECV_GOAWAY, h2.connection.ConnectionInputs.SEND_GOAWAY):
            return []
        return super().process_input(input_)


class _H2(h2.connection.H2Connection):
    """h2's connection, which survives a GOAWAY and walks over its streams only now and then."""

    def __init__(self, config: h2.config.H2Configuration) -> None:
        super().__init__(config)
        self.state_machine = _OpenAfterGoAway()
        self._until_sweep = _SWEEP_INTERVAL
        self._limits = _PeerLimits(_INITIAL_WINDOW, self.max_outbound_frame_size)

    def clear_outbound_data_buffer(self) -> None:
        """h2 calls this when a GOAWAY arrives; the acknowledgements in it are still owed."""

    @property
    def open_outbound_streams(self) -> int:
        """Asked for by h2 at each opening, when it also drops what has closed. We count ourselves."""
        return self._sweep()

    @property
    def open_inbound_streams(self) -> int:
        self._sweep()
        return 0 if self.config.client_side else -1  # less than any limit: a server refuses by itself

    def _sweep(self) -> int:
        self._until_sweep -= 1
        if not self._until_sweep:
            self._until_sweep = _SWEEP_INTERVAL
            super().open_outbound_streams  # noqa: B018 - its side effect is the sweep
        return 0

    def _begin_new_stream(self, stream_id: int, allowed_ids: h2.connection.AllowedStreamIDs) -> h2.stream.H2Stream:
        stream = super()._begin_new_stream(stream_id, allowed_ids)
        stream.__class__ = _Stream
        assert isinstance(stream, _Stream)
        stream.limits, stream.send_offset = self._limits, 0
        return stream

    def _receive_settings_frame(self, frame: Any) -> Any:
        if "ACK" not in frame.flags:
            frame.settings = {key: value for key, value in frame.settings.items() if key in _KNOWN_SETTINGS}
            max_frame = frame.settings.pop(h2.settings.SettingCodes.MAX_FRAME_SIZE, None)
            if max_frame is not None:
                if not _FULL <= max_frame < 2**24:
                    text = f"MAX_FRAME_SIZE of {max_frame}"
                    raise h2.exceptions.InvalidSettingsValueError(text, ErrorCode.PROTOCOL_ERROR)  # type: ignore[arg-type]
                self._limits.max_frame = self.max_outbound_frame_size = max_frame
        return super()._receive_settings_frame(frame)

    def _flow_control_change_from_settings(self, old_value: int | None, new_value: int) -> None:
        limits = self._limits
        if new_value + limits.max_offset > MAX_WINDOW:
            windows = [stream.outbound_flow_control_window for stream in self.streams.values() if not stream.closed]
            limits.max_offset = max(0, max(windows, default=0) - limits.initial_window)
        limits.initial_window = new_value
        if new_value + limits.max_offset > MAX_WINDOW:
            raise h2.exceptions.FlowControlError(f"INITIAL_WINDOW_SIZE of {new_value} opens a window too far")


class _FrameHeads:
    """Walks from frame header to frame header, so that an absurd length is noticed at once.

    On the way it counts what says nothing of a call, and says where to stop for a while.
    """

    __slots__ = ("_block", "_first", "_head", "_is_client", "_largest", "_largest_block", "_to_header", "overhead")

    def __init__(self, is_client: bool, options: WireOptions) -> None:
        self.overhead = 0
        self._is_client = is_client
        self._to_header = 0 if is_client else _PREFACE_SIZE  # bytes to come before the next frame header
        self._largest = options.max_frame
        self._largest_block = options.header_list_bound
        self._block = 0  # bytes of the header block so far, of which h2 counts the frames only
        self._head = b""  # the beginning of a header whose end has not come
        self._first = True

    def check(self, data: bytes) -> int:
        """Returns how much of the data to read now."""
        before = len(self._head)
        if before:
            data, self._head = self._head + data, b""
        position, cost = self._to_header, 0
        while position + _FRAME_HEADER_SIZE <= len(data):
            if cost >= _STEP:
                self._to_header = 0
                return position - before
            length = int.from_bytes(data[position : position + 3])
            if self._first:
                self._check_first(data[position : position + _FRAME_HEADER_SIZE])
            if length > self._largest:
                agreed = f"where {self._largest} were agreed on"
                raise Violation(ErrorCode.FRAME_SIZE_ERROR, f"frame of {length} bytes, {agreed}")
            kind = data[position + 3]
            self._check_block(kind, length)
            self.overhead += self._overhead(kind, data[position + 4], length)
            cost += 1 + (length >> (_SHIFT if kind else _DATA_SHIFT))
            position += _FRAME_HEADER_SIZE + length
        self._head = data[position:]
        self._to_header = max(0, position - len(data))
        return len(data) - before

    def _overhead(self, kind: int, flags: int, length: int) -> int:
        if kind == DATA:
            return 0  # whether it is empty shows when its padding is gone
        if kind == HEADERS:
            return self._is_client  # one or two answer a request; a server's others begin one
        if kind == CONTINUATION:
            return not flags & END_HEADERS and length < _FULL  # who has more to say fills the frame
        return 1 + length // MANY_SETTINGS if kind == SETTINGS else 1

    def _check_block(self, kind: int, length: int) -> None:
        if kind not in (HEADERS, CONTINUATION):
            return
        self._block = length if kind == HEADERS else self._block + length
        if self._block > self._largest_block:
            raise Violation(ErrorCode.ENHANCE_YOUR_CALM, f"header block without end: {self._block} bytes so far")

    def _check_first(self, header: bytes) -> None:
        self._first = False
        if header[3] != SETTINGS:  # RFC 9113 §3.4
            speaks = "HTTP/1" if header.startswith(b"HTTP/") else repr(header)
            text = f"it does not speak HTTP/2: its first bytes are {speaks}, not a SETTINGS frame"
            raise Violation(ErrorCode.FRAME_SIZE_ERROR, text)


# -- h2's events in our words


def _headers(event: Any) -> Event:
    return HeadersReceived(event.stream_id, event.headers, event.stream_ended is not None)


def _data(event: Any) -> Event:
    return DataReceived(event.stream_id, event.data, event.flow_controlled_length, event.stream_ended is not None)


def _reset(event: Any) -> Event:
    if event.remote_reset:
        return StreamReset(event.stream_id, int(event.error_code))
    return StreamBroken(event.stream_id, int(event.error_code), "it broke a rule of HTTP/2 on this stream")


_TRANSLATIONS: dict[type, Callable[[Any], Event]] = {
    h2.events.RequestReceived: _headers,
    h2.events.ResponseReceived: _headers,
    h2.events.TrailersReceived: _headers,
    h2.events.DataReceived: _data,
    h2.events.StreamReset: _reset,
    h2.events.WindowUpdated: lambda event: WindowOpened(event.stream_id),
    h2.events.RemoteSettingsChanged: lambda event: SettingsReceived(),
    h2.events.PingAckReceived: lambda event: PingAcked(event.ping_data),
    h2.events.ConnectionTerminated: lambda event: GoAwayReceived(
        # h2 reads the reserved bit into it, which says nothing (RFC 9113 §6.8).
        event.last_stream_id & _LAST_STREAM_ID,
        int(event.error_code),
        event.additional_data or b"",
    ),
}


def _complaint(error: h2.exceptions.ProtocolError) -> str:
    if isinstance(error, h2.exceptions.NoSuchStreamError):
        return f"{type(error).__name__} on stream {error.stream_id}"  # it says the number and nothing else
    return complaint(error) or type(error).__name__


def _translate(event: h2.events.Event) -> Event | None:
    """None for what gRPC has no use for: informational responses, priorities, acknowledged settings."""
    translation = _TRANSLATIONS.get(type(event))
    return translation(event) if translation is not None else None
