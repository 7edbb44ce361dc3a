from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trxds.core.status import StatusCode
from trxds.transport.compression import Compressed
from trxds.transport.framing import PREFIX_SIZE, Deframer, frame

messages_and_cuts = st.tuples(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=12))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in itertools.pairwise(bounds)]


def taken(deframer: Deframer) -> list[bytes]:
    return list(iter(deframer.take, None))


@settings(deadline=None)
@given(messages_and_cuts)
def test_messages_are_the_same_however_their_bytes_are_cut(case: tuple[list[bytes], list[int]]) -> None:
    messages, cuts = case
    deframer = Deframer(100)
    for piece in pieces(b"".join(map(frame, messages)), cuts):
        assert deframer.feed(piece) is None
    assert taken(deframer) == messages
    assert deframer.between_messages and deframer.buffered == 0


@settings(deadline=None)
@given(messages_and_cuts)
def test_buffered_counts_bytes_that_were_fed_and_not_taken(case: tuple[list[bytes], list[int]]) -> None:
    messages, cuts = case
    deframer, fed = Deframer(100), 0
    for piece in pieces(b"".join(map(frame, messages)), cuts):
        deframer.feed(piece)
        fed += len(piece)
        assert deframer.buffered == fed
        if (message := deframer.take()) is not None:
            fed -= PREFIX_SIZE + len(message)


def test_a_message_above_the_limit_is_refused_by_its_prefix_alone() -> None:
    problem = Deframer(10).feed(frame(b"x" * 11)[:PREFIX_SIZE])
    assert problem is not None and problem.code is StatusCode.RESOURCE_EXHAUSTED
    assert problem.message == "received message of 11 bytes is larger than the limit of 10; raise max_receive_size"


def test_a_whole_message_above_the_limit_is_refused_too() -> None:
    problem = Deframer(10).feed(frame(b"x" * 11))
    assert problem is not None and problem.code is StatusCode.RESOURCE_EXHAUSTED


def test_a_message_at_the_limit_is_taken() -> None:
    deframer = Deframer(10)
    assert deframer.feed(frame(b"x" * 10)) is None
    assert deframer.take() == b"x" * 10


@pytest.mark.parametrize(
    ("flag", "encoding", "reason"),
    [
        (1, "", "the headers name no compression"),
        (1, "identity", "the headers name no compression"),
        (1, "snappy", "'snappy' is unknown here; known are identity,deflate,gzip"),
        (2, "gzip", "flag 2, which is neither 0 nor 1"),
    ],
)
def test_a_compressed_message_is_refused_unless_it_can_be_read(flag: int, encoding: str, reason: str) -> None:
    deframer = Deframer(10)
    deframer.encoding = encoding
    problem = deframer.feed(bytes([flag]) + b"\0\0\0\1x")
    assert problem is not None and problem.code is StatusCode.INTERNAL and reason in problem.message


@settings(deadline=None)
@given(messages_and_cuts)
def test_compressed_messages_come_out_as_such_however_they_are_cut(case: tuple[list[bytes], list[int]]) -> None:
    messages, cuts = case
    sent = [Compressed(each) if number % 2 else each for number, each in enumerate(messages)]
    deframer = Deframer(100)
    deframer.encoding = "gzip"
    for piece in pieces(b"".join(map(frame, sent)), cuts):
        assert deframer.feed(piece) is None
    found = taken(deframer)
    assert [(type(each), each) for each in found] == [(type(each), each) for each in sent]


def test_messages_before_a_bad_one_can_be_taken() -> None:
    deframer = Deframer(10)
    assert deframer.feed(frame(b"good") + b"\1\0\0\0\0") is not None
    assert taken(deframer) == [b"good"]


def test_a_stream_must_not_end_within_a_prefix_or_a_message() -> None:
    deframer = Deframer(10)
    deframer.feed(b"\0\0")
    assert not deframer.between_messages
    deframer.feed(b"\0\0\2a")
    assert not deframer.between_messages
    deframer.feed(b"b")
    assert deframer.between_messages
