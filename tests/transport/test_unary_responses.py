"""The fast engine reads a usual unary answer as one event, and any other frame by frame."""

from __future__ import annotations

import pytest
from support.engines import parts_of
from support.fast_engine import FIXED, OPTIONS, RESPONSE, frame, headers

from trxds.transport import frames
from trxds.transport.compression import Compressed
from trxds.transport.events import (
    ConnectionFailed,
    DataReceived,
    ErrorCode,
    HeadersReceived,
    StreamFailed,
    UnaryResponse,
)
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.framing import frame as message_frame
from trxds.transport.header_blocks import BlockEncoder
from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "answer",
    [
        frame(0, 0, 1, b"x"),  # before its headers
        headers(RESPONSE) + headers(RESPONSE),  # trailers without the end
        headers([(b":status", b"100")], flags=5),
        headers(RESPONSE) + headers([(b":status", b"103")]),
    ],
)
def test_an_answer_whose_frames_are_out_of_order_costs_its_stream_only(engine: FastHttp2Engine, answer: bytes) -> None:
    assert engine.open_stream(FIXED, [], []) == 3
    engine.outgoing.take()
    broken = engine.receive(answer)[-1]
    assert isinstance(broken, StreamFailed) and broken.code == ErrorCode.PROTOCOL_ERROR
    assert engine.outgoing.take() == frames.uint32_frame(3, 1, ErrorCode.PROTOCOL_ERROR)
    assert engine.receive(headers(RESPONSE, stream_id=3)) == [HeadersReceived(3, RESPONSE, False)]


TRAILERS = [(b"grpc-status", b"0")]


def plain(fields: list[tuple[bytes, bytes]], flags: int, stream_id: int) -> bytes:
    """Return headers that change no table, so that the same bytes mean the same again."""
    return frame(1, flags, stream_id, BlockEncoder().encode((), fields, []))


ONE = message_frame(b"data")


def answer_with(data: bytes, stream_id: int = 5) -> bytes:
    """Return an answer that is usual, except perhaps for its data."""
    return plain(RESPONSE, 4, stream_id) + frame(0, 0, stream_id, data) + plain(TRAILERS, 5, stream_id)


def answer(stream_id: int, message: bytes = b"data") -> bytes:
    return answer_with(message_frame(message), stream_id)


@pytest.fixture
def usual(engine: FastHttp2Engine) -> FastHttp2Engine:
    """Return an engine that has cached an answer's headers; streams 5 and 7 have sent their requests."""
    for stream_id in (3, 5, 7):
        assert engine.open_stream(FIXED, [], [], b"all") == stream_id
    assert [type(event) for event in engine.receive(answer(3))] == [HeadersReceived, DataReceived, HeadersReceived]
    return engine


def test_a_usual_unary_answer_is_one_event(usual: FastHttp2Engine) -> None:
    (event,) = usual.receive(answer(5))
    assert isinstance(event, UnaryResponse)
    assert list(parts_of(event)) == [
        HeadersReceived(5, RESPONSE, False),
        DataReceived(5, ONE, len(ONE), False),
        HeadersReceived(5, TRAILERS, True),
    ]


def test_a_usual_unary_answer_closes_its_stream(usual: FastHttp2Engine) -> None:
    usual.receive(answer(5))
    assert usual.receive(answer(5)) == []


def test_several_usual_unary_answers_in_one_read_are_one_event_each(usual: FastHttp2Engine) -> None:
    assert [type(event) for event in usual.receive(answer(5) + answer(7))] == [UnaryResponse, UnaryResponse]


@pytest.mark.parametrize(
    "data",
    [
        plain(RESPONSE, 4, 5) + frame(0, 0, 5, ONE) + plain([(b"grpc-status", b"5")], 5, 5),  # never read before
        plain(RESPONSE, 4, 5) + frame(0, 0, 5, ONE) + plain(TRAILERS, 5, 7),  # of two streams
        plain(RESPONSE, 4, 5) + frame(0, 0, 5, ONE) + plain(TRAILERS, 4, 5),  # the stream does not end
        plain(RESPONSE, 4, 5) + frame(0, 8, 5, message_frame(b"\0")) + plain(TRAILERS, 5, 5),  # padded, and by no byte
        answer_with(b""),
        answer_with(ONE + ONE),
        answer_with(ONE[:-1]),
        answer_with(ONE[:3]),
        answer_with(message_frame(Compressed(b"data"))),
        answer_with(b"\2" + ONE[1:]),  # no flag that gRPC has
        plain(RESPONSE, 4, 5) + frame(6, 0, 0, bytes(8)) + plain(TRAILERS, 5, 5),
        plain(RESPONSE, 4, 5) + frame(0, 0, 7, ONE) + plain(TRAILERS, 5, 5),  # data of another stream
        frame(1, 1, 7, b"x") + answer(5),  # in the middle of a header block
        answer(1),  # which has been answered in part below
    ],
)
def test_an_unusual_answer_is_read_frame_by_frame(usual: FastHttp2Engine, data: bytes) -> None:
    usual.receive(plain(RESPONSE, 4, 1))
    assert not any(isinstance(event, UnaryResponse) for event in usual.receive(data))


def test_a_usual_answer_of_more_than_the_window_allows_ends_the_connection(usual: FastHttp2Engine) -> None:
    events = usual.receive(answer(5, bytes(OPTIONS.stream_window + 1)))
    assert isinstance(events[-1], ConnectionFailed) and events[-1].code == ErrorCode.FLOW_CONTROL_ERROR


def test_a_usual_answer_of_more_than_the_connections_window_ends_the_connection(usual: FastHttp2Engine) -> None:
    usual._streams.receive_window = 3
    events = usual.receive(answer(5))
    assert isinstance(events[-1], ConnectionFailed) and events[-1].code == ErrorCode.FLOW_CONTROL_ERROR


def test_a_usual_answer_with_a_frame_that_is_too_long_ends_the_connection() -> None:
    engine = FastHttp2Engine(WireOptions(stream_window=100_000, connection_window=100_000))
    engine.receive(frames.settings({}))
    for _ in range(2):
        engine.open_stream(FIXED, [], [], b"all")
    engine.receive(answer(1))
    events = engine.receive(answer(3, bytes(WireOptions().max_frame + 1)))
    assert isinstance(events[-1], ConnectionFailed) and events[-1].code == ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize("position", [5, 5 + len(plain(RESPONSE, 4, 5)), -4 - len(plain(TRAILERS, 5, 5)) + 9])
def test_a_reserved_bit_changes_nothing_about_an_answer(usual: FastHttp2Engine, position: int) -> None:
    data = bytearray(answer(5))
    data[position] |= 0x80
    parts = [part for event in usual.receive(bytes(data)) for part in parts_of(event)]
    assert parts == list(parts_of(UnaryResponse(5, RESPONSE, b"data", TRAILERS)))


def test_a_usual_answer_is_charged_to_the_connections_window(usual: FastHttp2Engine) -> None:
    before = usual._streams.receive_window
    usual.receive(answer(5))
    assert before - usual._streams.receive_window == len(ONE)
