"""Rules of the fast engine alone: bounds, errors of RFC 9113, and cached header blocks."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines import receive_all
from support.fast_engine import FIXED, OPTIONS, RESPONSE, frame, headers

from trxds.transport import frames
from trxds.transport.events import (
    ConnectionFailed,
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    StreamFailed,
    WindowUpdated,
)
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.frames import Http2ProtocolError
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.header_blocks import BlockDecoder, BlockEncoder
from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow


# -- what ends the connection, and by which code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(0, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(0, 0, 3, b"x"), ErrorCode.PROTOCOL_ERROR),  # never opened
        (frame(0, 0, 2, b"x"), ErrorCode.PROTOCOL_ERROR),
        (headers(RESPONSE, stream_id=2), ErrorCode.PROTOCOL_ERROR),
        (headers(RESPONSE, flags=0, stream_id=3), ErrorCode.PROTOCOL_ERROR),
        (frame(1, 0xC, 1, b"\x05abc"), ErrorCode.PROTOCOL_ERROR),  # padding
        (frame(1, 0x24, 1, b"abc"), ErrorCode.FRAME_SIZE_ERROR),  # priority
        (frame(1, 4, 1, b"\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
        (frame(2, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
        (frame(2, 0, 1, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(3, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(3, 0, 3, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(3, 0, 1, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(4, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(4, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(4, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.settings({2: 1}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({4: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.settings({5: 16_383}), ErrorCode.PROTOCOL_ERROR),
        (frames.settings({5: 2**24}), ErrorCode.PROTOCOL_ERROR),
        (frame(5, 4, 1, bytes(3) + b"\2"), ErrorCode.PROTOCOL_ERROR),
        (frame(6, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(6, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(7, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(7, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
        (frame(8, 0, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
        (frame(8, 0, 0, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
        (frames.uint32_frame(8, 0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.uint32_frame(8, 3, 1), ErrorCode.PROTOCOL_ERROR),
        (frame(9, 4, 1), ErrorCode.PROTOCOL_ERROR),  # of nothing
        (headers(RESPONSE, flags=0) + frame(6, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (headers(RESPONSE, flags=0) + frame(99, 0, 1), ErrorCode.PROTOCOL_ERROR),
        (headers(RESPONSE, flags=0) + frame(9, 4, 3), ErrorCode.PROTOCOL_ERROR),
        (headers(RESPONSE) + frame(0, 0, 1, bytes(1001)), ErrorCode.FLOW_CONTROL_ERROR),
    ],
)
def test_a_protocol_error_ends_the_connection(engine: FastHttp2Engine, data: bytes, code: ErrorCode) -> None:
    broken = engine.receive(data)[-1]
    assert isinstance(broken, ConnectionFailed) and broken.code == code
    goaway = engine.outgoing.take()
    assert goaway.endswith(broken.message.encode()) and code.to_bytes(4) in goaway


def test_events_before_a_protocol_error_are_still_reported(engine: FastHttp2Engine) -> None:
    first, second = engine.receive(headers(RESPONSE) + frame(9, 4, 1))
    assert isinstance(first, HeadersReceived) and isinstance(second, ConnectionFailed)


def test_more_data_than_the_connections_window_is_a_flow_control_error() -> None:
    engine = FastHttp2Engine(WireOptions(stream_window=10**6, connection_window=70_000, max_frame=16_384))
    engine.receive(frames.settings({}))
    engine.open_stream(FIXED, [], [])
    events = engine.receive(headers(RESPONSE) + frame(0, 0, 1, bytes(14_001)) * 5)
    assert events[-1] == ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window allows")


# -- what ends a stream only, or nothing


def test_a_stream_window_that_is_opened_too_far_costs_the_stream(engine: FastHttp2Engine) -> None:
    broken = StreamFailed(1, ErrorCode.FLOW_CONTROL_ERROR, "WINDOW_UPDATE opens its window too far")
    assert engine.receive(frames.uint32_frame(8, 1, 2**31 - 1)) == [broken]
    assert engine.outgoing.take() == frames.uint32_frame(3, 1, ErrorCode.FLOW_CONTROL_ERROR)


@pytest.mark.parametrize("more", [frame(0, 0, 1, b"x"), headers(RESPONSE)])
def test_a_frame_after_end_stream_costs_the_stream(engine: FastHttp2Engine, more: bytes) -> None:
    events = engine.receive(headers(RESPONSE, flags=5) + more)
    assert events[1:] == [StreamFailed(1, ErrorCode.STREAM_CLOSED, "more after the end")]


def test_data_of_a_closed_stream_is_ignored_and_its_window_given_back(engine: FastHttp2Engine) -> None:
    engine.reset(1, ErrorCode.CANCEL)
    engine.outgoing.take()
    data = headers(RESPONSE) + frame(0, 0, 1, bytes(9000)) + frames.uint32_frame(8, 1, 5) + frames.uint32_frame(3, 1, 0)
    assert engine.receive(data * 2) == []
    assert engine.outgoing.take() == frames.uint32_frame(8, 0, 18_000)


@pytest.mark.parametrize("kind", [2, 10, 12, 200])
def test_priority_and_unknown_frames_are_ignored(engine: FastHttp2Engine, kind: int) -> None:
    assert engine.receive(frame(kind, 0xFF, 1, bytes(5))) == []


def test_an_informational_response_is_not_the_response(engine: FastHttp2Engine) -> None:
    assert engine.receive(headers([(b":status", b"103")]) + headers(RESPONSE)) == [HeadersReceived(1, RESPONSE, False)]


def test_reserved_bits_are_ignored(engine: FastHttp2Engine) -> None:
    assert engine.receive(frame(7, 0, 0, b"\x80\0\0\1" + bytes(4))) == [GoAwayReceived(1, 0, b"")]
    engine.receive(frame(8, 0, 1, b"\x80\0\0\1"))
    assert engine.stream_window(1) == 65_536


# -- bounds


def test_a_flood_of_continuations_ends_even_if_they_are_empty(engine: FastHttp2Engine) -> None:
    (event,) = engine.receive(frame(1, 0, 1) + frame(9, 0, 1) * 100)
    assert isinstance(event, ConnectionFailed) and event.code == ErrorCode.ENHANCE_YOUR_CALM


def test_a_header_block_may_not_outgrow_the_largest_one_that_we_keep(engine: FastHttp2Engine) -> None:
    size = OPTIONS.max_frame
    begun = frame(1, 0, 1, bytes(size)) + frame(9, 0, 1, bytes(size)) * (OPTIONS.header_block_bound // size - 1)
    assert receive_all(engine, begun) == []
    (event,) = engine.receive(frame(9, 0, 1, b"\0"))
    assert isinstance(event, ConnectionFailed) and event.code == ErrorCode.ENHANCE_YOUR_CALM


def test_the_fast_engine_reads_the_same_events_however_bytes_are_cut() -> None:
    data = frames.settings({4: 9}) + headers(RESPONSE, flags=0)[:-3] + headers(RESPONSE)[-3:] + frame(9, 4, 1)
    data += frame(0, 8, 1, b"\x02ab\0\0") + headers([(b"grpc-status", b"0")], flags=5)

    def events(size: int) -> list[Event]:
        engine = FastHttp2Engine(OPTIONS)
        engine.open_stream(FIXED, [], [])
        return [event for at in range(0, len(data), size) for event in engine.receive(data[at : at + size])]

    assert DataReceived(1, b"ab", 5, False) in events(1000)
    assert events(1) == events(7) == events(1000)


# -- header blocks


texts = st.binary(max_size=300)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([b"cookie", b":path", b"te", b"x-mine", b"accept"]), texts)), st.lists(texts))
def test_every_encoded_header_block_is_decoded_by_hpack(
    metadata: list[tuple[bytes, bytes]], times: list[bytes]
) -> None:
    passing = [(b"grpc-timeout", time) for time in times]
    block = BlockEncoder().encode(FIXED, metadata, passing)
    assert hpack.Decoder(2**20).decode(block, raw=True) == [*FIXED, *metadata, *passing]


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from([b"cookie", b"x"]), st.sampled_from([b"a", b"b", bytes(3000)])))))
def test_the_encoders_cache_does_not_change_what_each_request_says(requests: list[list[tuple[bytes, bytes]]]) -> None:
    encoder, decoder = BlockEncoder(), hpack.Decoder(2**20)
    for metadata in requests:
        assert decoder.decode(encoder.encode(FIXED, metadata, []), raw=True) == [*FIXED, *metadata]


def test_the_encoders_caches_are_bounded() -> None:
    encoder = BlockEncoder()
    for number in range(1000):
        encoder.encode(FIXED, [(b"x-trace", b"%d" % number), (b"large", bytes(3000))], [])
    assert len(encoder._encoded_fields) <= 64 and max(map(len, encoder._encoded_fields.values())) < 100


def test_a_block_is_decoded_once_while_the_table_does_not_change() -> None:
    decoder = BlockDecoder(2000)
    assert decoder.decode(b"\x88") is decoder.decode(b"\x88")


def test_a_block_is_decoded_anew_when_the_table_has_changed() -> None:
    decoder = BlockDecoder(2000)
    decoder.decode(b"\x40\x01a\x01b")
    assert decoder.decode(b"\xbe").headers == [(b"a", b"b")]
    assert decoder.decode(b"\xbe").headers == [(b"a", b"b")]
    decoder.decode(b"\x40\x01c\x01d")
    assert decoder.decode(b"\xbe").headers == [(b"c", b"d")]
    decoder.decode(b"\x20")
    with pytest.raises(Http2ProtocolError):
        decoder.decode(b"\xbe")


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([1, 2, 3000])), max_size=4)))
def test_the_decoders_cache_does_not_change_what_hpack_wrote(blocks: list[list[tuple[bytes, int]]]) -> None:
    encoder, decoder = hpack.Encoder(), BlockDecoder(10**6)
    for block in blocks:
        fields = [(name, b"x" * size) for name, size in block]  # the large ones push each other out
        assert decoder.decode(encoder.encode(fields)).headers == fields


@settings(deadline=None)
@given(st.lists(st.sampled_from([bytes([n]) * n for n in (1, 40, 200)]) | st.binary(max_size=50), max_size=20))
def test_an_arbitrary_header_block_raises_nothing_but_a_protocol_error(blocks: list[bytes]) -> None:
    decoder = BlockDecoder(2000)
    for block in blocks:
        try:
            decoder.decode(block)
        except Http2ProtocolError:
            return


def test_a_window_update_of_an_open_window_is_no_event(engine: FastHttp2Engine) -> None:
    assert engine.receive(frames.uint32_frame(8, 0, 10) + frames.uint32_frame(8, 1, 10)) == []


def test_a_window_update_of_the_closed_connection_window_is_an_event(engine: FastHttp2Engine) -> None:
    engine.write(1, memoryview(bytes(65_535)), end=False, limit=10**6)
    assert engine.receive(frames.uint32_frame(8, 0, 10)) == [WindowUpdated(0)]


# -- what is sent


def test_large_headers_are_cut_into_what_the_peer_takes() -> None:
    engine, server = FastHttp2Engine(WireOptions()), H2LibraryEngine(client=False, options=WireOptions())
    metadata = [(b"x", b"y" * 50_000)]
    engine.open_stream(FIXED, metadata, [])
    assert receive_all(server, engine.outgoing.take())[-1] == HeadersReceived(1, [*FIXED, *metadata], False)


def test_large_headers_of_a_small_request_are_cut_as_well(engine: FastHttp2Engine) -> None:
    engine.open_stream(FIXED, [(b"x", b"y" * 20_000)], [], b"all")
    kinds: list[int] = []
    reader = frames.FrameReader(16_384)  # which takes no more
    unread = _greeted(engine)
    while unread:
        unread = reader.read(unread, lambda kind, *_: kinds.append(kind), lambda *_: False)
    assert kinds[1:] == [frames.HEADERS, frames.CONTINUATION, frames.DATA]


def test_data_is_cut_into_what_the_peer_takes(engine: FastHttp2Engine) -> None:
    engine.receive(frames.settings({5: 20_000}))
    engine.outgoing.take()
    assert engine.write(1, memoryview(bytes(40_001)), end=True, limit=10**6) == 40_001
    sizes: list[tuple[int, int]] = []
    frames.FrameReader(2**20).read(
        _greeted(engine), lambda _, flags, __, payload: sizes.append((len(payload), flags)), lambda *_: False
    )
    assert sizes[1:] == [(20_000, 0), (20_000, 0), (1, frames.END_STREAM)]


def _greeted(engine: FastHttp2Engine) -> bytes:
    return frames.settings({}) + engine.outgoing.take()
