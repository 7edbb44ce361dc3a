"""What each frame of a server means to the client's engine: events, answers, and what counts as overhead."""

from __future__ import annotations

import pytest

from trxds.transport import frames
from trxds.transport.events import (
    ConnectionFailed,
    DataReceived,
    ErrorCode,
    Event,
    HeadersReceived,
    SettingsReceived,
    StreamFailed,
    UnaryResponse,
    WindowUpdated,
)
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.frames import END_HEADERS, END_STREAM, MAX_WINDOW
from trxds.transport.framing import frame as message_frame
from trxds.transport.options import WireOptions

FIELDS = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))
OK, EARLY_HINTS, NEW_HEADER = b"\x88", b"\x08\x03103", b"\x88\x10\x01x\x011"  # header blocks that change no table


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream_id: int = 1) -> bytes:
    return frames.head(len(payload), kind, flags, stream_id) + payload


def headers(block: bytes = OK, *, end: bool = False, stream_id: int = 1) -> bytes:
    return frame(frames.HEADERS, block, END_HEADERS | (END_STREAM if end else 0), stream_id)


def data(payload: bytes = b"", *, end: bool = False, stream_id: int = 1) -> bytes:
    return frame(frames.DATA, payload, END_STREAM if end else 0, stream_id)


def begin(*, ended: bool = False, options: WireOptions | None = None) -> FastHttp2Engine:
    """Return an engine whose stream 3 was reset, and whose stream 1 has got headers; `ended`: it sends no more."""
    engine = FastHttp2Engine(options or WireOptions())
    engine.open_stream(FIELDS, [], [], b"request" if ended else None)
    engine.open_stream(FIELDS, [], [])
    engine.reset(3, ErrorCode.CANCEL)
    engine.receive(frame(frames.SETTINGS, stream_id=0) + headers())
    engine.outgoing.take()
    engine.overhead = 0
    return engine


def answers(engine: FastHttp2Engine, *received: bytes) -> bytes:
    engine.receive(b"".join(received))
    return engine.outgoing.take()


NOT_FULL, FULL = b"\x88", b"\x88" * 16_384


@pytest.mark.parametrize(
    ("received", "overhead"),
    [
        (data(b"x"), 0),
        (data(), 1),
        (data(end=True), 0),
        (headers(end=True), 0),
        (headers(EARLY_HINTS, stream_id=5), 1),
        (headers(stream_id=3), 1),
        (frame(frames.PRIORITY, bytes(5)), 1),
        (frame(frames.RST_STREAM, bytes(4)), 0),
        (frame(frames.RST_STREAM, bytes(4), stream_id=3), 1),
        (frame(frames.SETTINGS, stream_id=0), 1),
        (frame(frames.SETTINGS, bytes(6) * 64, stream_id=0), 3),
        (frame(frames.SETTINGS, flags=frames.ACK, stream_id=0), 1),
        (frame(frames.PING, bytes(8), stream_id=0), 1),
        (frame(frames.GOAWAY, bytes(8), stream_id=0), 1),
        (frame(frames.WINDOW_UPDATE, b"\0\0\0\1"), 1),
        (frame(99), 1),
        (frame(frames.HEADERS, OK) + frame(frames.CONTINUATION, NOT_FULL), 1),
        (frame(frames.HEADERS, OK) + frame(frames.CONTINUATION, FULL), 0),
        (frame(frames.HEADERS, OK, END_STREAM) + frame(frames.CONTINUATION, flags=END_HEADERS), 0),
    ],
)
def test_only_frames_that_carry_nothing_of_a_call_are_overhead(received: bytes, overhead: int) -> None:
    engine = begin(options=WireOptions(max_header_list=1 << 20))
    engine.open_stream(FIELDS, [], [])
    assert not [event for event in engine.receive(received) if isinstance(event, ConnectionFailed)]
    assert engine.overhead == overhead


def test_settings_are_acknowledged_and_an_acknowledgement_is_not() -> None:
    engine = begin()
    assert answers(engine, frame(frames.SETTINGS, stream_id=0)) == frame(frames.SETTINGS, b"", frames.ACK, 0)
    assert answers(engine, frame(frames.SETTINGS, b"", frames.ACK, 0)) == b""
    assert engine.receive(frame(frames.SETTINGS, stream_id=0)) == [SettingsReceived()]


def test_a_header_block_in_two_frames_is_one_event() -> None:
    engine = begin()
    engine.receive(frame(frames.HEADERS, OK, END_STREAM))
    (event,) = engine.receive(frame(frames.CONTINUATION, b"\x10\x01x\x011", END_HEADERS))
    assert isinstance(event, HeadersReceived) and event.end
    assert list(event.headers) == [(b":status", b"200"), (b"x", b"1")]


def test_a_stream_that_both_ends_have_ended_by_data_is_forgotten() -> None:
    engine = begin(ended=True)
    assert engine.receive(data(b"x", end=True)) == [DataReceived(1, b"x", 1, True)]
    assert answers(engine, frame(frames.RST_STREAM, bytes(4))) == b"" and engine.receive(data(b"x")) == []


def test_data_behind_the_end_ends_the_stream_and_its_window_is_given_back_once() -> None:
    options = WireOptions(connection_window=65_536)
    engine = begin(options=options)
    engine.receive(data(end=True))
    events = engine.receive(data(bytes(16_384)))
    assert [type(event) for event in events] == [StreamFailed]
    reset = frames.uint32_frame(frames.RST_STREAM, 1, ErrorCode.STREAM_CLOSED)
    window = frames.uint32_frame(frames.WINDOW_UPDATE, 0, 16_384)
    assert engine.outgoing.take() == window + reset
    assert engine.receive_window == 65_536
    # The same for the data of a stream that is closed.
    assert answers(engine, data(bytes(16_384), stream_id=3)) == window
    assert answers(engine, data(bytes(16_383), stream_id=3)) == b""


def test_a_server_may_use_the_whole_window_of_the_connection() -> None:
    engine = begin(options=WireOptions(stream_window=100_000, connection_window=65_536))
    events = engine.receive(data(bytes(16_384)) * 4)
    assert [type(event) for event in events] == [DataReceived] * 4
    failure = engine.receive(data(b"x"))[0]
    assert isinstance(failure, ConnectionFailed) and failure.code == ErrorCode.FLOW_CONTROL_ERROR


def test_a_server_may_open_the_connections_window_to_the_largest_one() -> None:
    engine = begin()
    left = MAX_WINDOW - engine.connection_window
    engine.receive(frame(frames.WINDOW_UPDATE, left.to_bytes(4), stream_id=0))
    assert engine.connection_window == MAX_WINDOW
    failure = engine.receive(frame(frames.WINDOW_UPDATE, b"\0\0\0\1", stream_id=0))[0]
    assert isinstance(failure, ConnectionFailed) and failure.code == ErrorCode.FLOW_CONTROL_ERROR


def test_an_answer_with_new_headers_is_read_frame_by_frame() -> None:
    engine = begin()

    def answer(block: bytes) -> list[Event]:
        stream_id = engine.open_stream(FIELDS, [], [], b"request")
        parts = headers(block, stream_id=stream_id), data(message_frame(b"x"), stream_id=stream_id)
        return engine.receive(b"".join((*parts, headers(b"\x88", end=True, stream_id=stream_id))))

    for block in (OK, OK, NEW_HEADER, OK):
        events = [type(event) for event in answer(block)]
    assert events == [UnaryResponse]
    assert [type(event) for event in answer(NEW_HEADER[:-1] + b"2")] == [HeadersReceived, DataReceived, HeadersReceived]


def test_a_window_that_was_open_is_no_news() -> None:
    engine = begin()
    assert engine.receive(frame(frames.WINDOW_UPDATE, b"\0\0\0\1", stream_id=0)) == []
    engine.receive(frame(frames.SETTINGS, b"\0\4\0\0\0\0", stream_id=0))  # INITIAL_WINDOW_SIZE of 0
    assert engine.receive(frame(frames.WINDOW_UPDATE, b"\0\0\0\1")) == [WindowUpdated(1)]
