"""h2's connection with the changes whose reasons are in `h2_engine.py`, its only user.

It depends on internals of h2: `test_engines_agree.py` and `test_malformed_requests.py` in `tests/transport` would show
if those changed.
"""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import h2.stream
from hyperframe.frame import RstStreamFrame
from msgspec import Struct

from .events import ErrorCode, StreamFailed
from .frames import MAX_WINDOW
from .hpack_decoder import ENTRY_OVERHEAD, BoundedDecoder, HeaderListTooLargeError, PrivateTable
from .options import WireOptions
from .stream_state import DEFAULT_MAX_FRAME, DEFAULT_WINDOW

_SWEEP_INTERVAL = 64
_KNOWN_SETTINGS = frozenset(h2.settings.SettingCodes)
_WRONG_LENGTH = "its content-length is wrong"
_OUT_OF_ORDER = "its frames are out of order"


def make_h2(client: bool, options: WireOptions) -> PatchedH2Connection:
    """Return h2's connection for one end, with these options and without h2's own header checks."""
    connection = PatchedH2Connection(
        h2.config.H2Configuration(
            client_side=client,
            header_encoding=None,
            # The channel checks metadata before it is sent. Received headers are checked by `response.py` at a
            # client, and by `server/malformed.py` at a server.
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
        values[codes.MAX_CONCURRENT_STREAMS] = 0  # otherwise h2 would accept streams that a server opens
    elif options.max_concurrent_streams is not None:
        values[codes.MAX_CONCURRENT_STREAMS] = options.max_concurrent_streams
    connection.local_settings = h2.settings.Settings(client=client, initial_values=values)
    connection.max_inbound_frame_size = options.max_frame
    connection.decoder = _Decoder(options.header_list_bound)
    connection.encoder.header_table = PrivateTable()
    return connection


class _Decoder(BoundedDecoder):
    """A decoder for h2, which reports every list. So one field stands for a list that was dropped."""

    def decode(self, data: bytes, raw: bool = True) -> Any:
        try:
            return super().decode(data, raw)
        except HeaderListTooLargeError as error:
            # Not all of its size: 20 KB can stand for 64 MB.
            size = min(error.size, self.max_header_list_size + 1)
            return [(b"", bytes(max(size - ENTRY_OVERHEAD, 0)))]


class _PeerLimits(Struct, eq=False):
    """The limits in the peer's SETTINGS that hold for every stream."""

    initial_window: int
    max_frame: int
    max_offset: int = 0
    """The most that any stream's window has been above the initial one, closed streams included."""


class _Stream(h2.stream.H2Stream):
    """h2's stream, which keeps only the difference of its window from the initial one.

    The fast engine does the same (`stream_state.py`). Every stream of h2's becomes one as soon as it is made.
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
        """Ignore h2's value for a stream: the limit is the connection's."""
        return self.limits.max_frame

    @max_outbound_frame_size.setter
    def max_outbound_frame_size(self, size: int) -> None:
        """Ignore h2's value for a stream: the limit is the connection's."""

    @property
    def _still_receives(self) -> bool:
        return self.state_machine.state in (h2.stream.StreamState.OPEN, h2.stream.StreamState.HALF_CLOSED_LOCAL)

    def receive_headers(self, headers: Any, end_stream: bool, header_encoding: Any) -> Any:
        # RFC 9113 §8.1: behind the first block come trailers, which end the stream, and no informational responses.
        if self._still_receives and self.state_machine.headers_received and not end_stream:
            raise _StreamError(self, _OUT_OF_ORDER)
        return super().receive_headers(headers, end_stream, header_encoding)

    def receive_data(self, data: bytes, end_stream: bool, flow_control_len: int) -> Any:
        if self._still_receives and not self.state_machine.headers_received:
            raise _StreamError(self, _OUT_OF_ORDER)
        return super().receive_data(data, end_stream, flow_control_len)

    def _initialize_content_length(self, headers: Any) -> None:
        try:
            super()._initialize_content_length(headers)
        except h2.exceptions.ProtocolError:
            raise _StreamError(self, _WRONG_LENGTH) from None

    def _track_content_length(self, length: int, end_stream: bool) -> None:
        try:
            super()._track_content_length(length, end_stream)
        except h2.exceptions.InvalidBodyLengthError:
            raise _StreamError(self, _WRONG_LENGTH) from None


class _StreamError(h2.exceptions.StreamClosedError):
    """An error of one stream, in the form for which h2's connection sends RST_STREAM, returns `_events` and goes on."""

    def __init__(self, stream: h2.stream.H2Stream, message: str) -> None:
        super().__init__(stream.stream_id)
        self.error_code = h2.errors.ErrorCodes.PROTOCOL_ERROR
        self._events = [StreamFailed(stream.stream_id, ErrorCode.PROTOCOL_ERROR, message)]
        stream.state_machine.state = h2.stream.StreamState.CLOSED
        stream.state_machine.stream_closed_by = h2.stream.StreamClosedBy.SEND_RST_STREAM


class _OpenAfterGoAway(h2.connection.H2ConnectionStateMachine):
    """h2's table of (state, input) without the two rows by which a GOAWAY closes the connection."""

    def process_input(self, input_: h2.connection.ConnectionInputs) -> list[h2.events.Event]:
        if input_ in (h2.connection.ConnectionInputs.RECV_GOAWAY, h2.connection.ConnectionInputs.SEND_GOAWAY):
            return []
        return super().process_input(input_)


class PatchedH2Connection(h2.connection.H2Connection):
    """h2's connection, which survives a GOAWAY and only sometimes walks over its streams."""

    def __init__(self, config: h2.config.H2Configuration) -> None:
        super().__init__(config)
        self.state_machine = _OpenAfterGoAway()
        self._until_sweep = _SWEEP_INTERVAL
        self._limits = _PeerLimits(DEFAULT_WINDOW, self.max_outbound_frame_size)

    def clear_outbound_data_buffer(self) -> None:
        """Keep the output. h2 calls this at a GOAWAY, but the acknowledgements in it still have to leave."""

    @property
    def open_outbound_streams(self) -> int:
        """Always 0, as we count streams ourselves. h2 asks at each opening, and drops closed streams then."""
        return self._sweep()

    @property
    def open_inbound_streams(self) -> int:
        self._sweep()
        return 0 if self.config.client_side else -1  # below any limit, because the server itself refuses streams

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

    def _handle_data_on_closed_stream(
        self, events: list[h2.events.Event], exc: h2.exceptions.StreamClosedError, frame: Any
    ) -> Any:
        # With events it is this frame for which the stream is reset, and not an earlier one.
        closed_by = self._stream_closed_by(exc.stream_id)
        was_reset = not exc._events and closed_by is h2.stream.StreamClosedBy.SEND_RST_STREAM
        frames, events = super()._handle_data_on_closed_stream(events, exc, frame)
        # RFC 9113 §5.1: what was on its way when we reset the stream is ignored. nginx fails a call whose answer it has
        # if a second reset follows the first one's NO_ERROR.
        if was_reset:
            frames = [each for each in frames if not isinstance(each, RstStreamFrame)]
        return frames, events

    def _receive_priority_frame(self, frame: Any) -> Any:
        # RFC 9113 §6.4: an idle stream cannot be reset, so the connection ends for it.
        if frame.depends_on == frame.stream_id <= self.highest_inbound_stream_id:
            stream = self.streams.get(frame.stream_id)
            if stream is not None and not stream.closed:
                raise _StreamError(stream, "it depends on itself")
            frame.depends_on = 0  # what a closed stream depends on does not matter
        return super()._receive_priority_frame(frame)

    def _receive_settings_frame(self, frame: Any) -> Any:
        if "ACK" not in frame.flags:
            # h2 would keep 65,536 unknown ones for good.
            frame.settings = {key: value for key, value in frame.settings.items() if key in _KNOWN_SETTINGS}
            # h2 would walk over all streams for it.
            max_frame = frame.settings.pop(h2.settings.SettingCodes.MAX_FRAME_SIZE, None)
            if max_frame is not None:
                if not DEFAULT_MAX_FRAME <= max_frame < 2**24:
                    text = f"MAX_FRAME_SIZE of {max_frame}"
                    # Our ErrorCode has the numbers of h2's own enum, which the annotation wants.
                    raise h2.exceptions.InvalidSettingsValueError(text, ErrorCode.PROTOCOL_ERROR)  # type: ignore[arg-type]
                self._limits.max_frame = self.max_outbound_frame_size = max_frame
        return super()._receive_settings_frame(frame)

    def _flow_control_change_from_settings(self, old_value: int | None, new_value: int) -> None:
        limits = self._limits
        if new_value + limits.max_offset > MAX_WINDOW:
            # Closed streams may have raised the maximum, so it is computed anew before the setting is refused.
            windows = [stream.outbound_flow_control_window for stream in self.streams.values() if not stream.closed]
            limits.max_offset = max(0, max(windows, default=0) - limits.initial_window)
        limits.initial_window = new_value
        if new_value + limits.max_offset > MAX_WINDOW:
            raise h2.exceptions.FlowControlError(f"INITIAL_WINDOW_SIZE of {new_value} opens a window too far")
