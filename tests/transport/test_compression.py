"""Messages are compressed and decompressed, and malformed ones are refused."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.core.status import Status, StatusCode
from trxds.transport.compression import Compressed, compress, decompress, parse_encoding

MIB = 1 << 20
ENCODINGS = ["gzip", "deflate"]


def refusal(data: bytes, encoding: str, max_size: int = MIB) -> Status:
    result = decompress(Compressed(data), encoding, max_size)
    assert isinstance(result, Status)
    return result


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=st.binary(max_size=50), times=st.integers(1, 200))
def test_a_compressed_message_decompresses_to_itself(encoding: str, text: bytes, times: int) -> None:
    message = text * times
    short = compress(message, encoding)
    assert len(short) <= len(message)
    if isinstance(short, Compressed):
        assert decompress(short, encoding, len(message)) == message
    else:
        assert short == message


def test_the_compression_formats_are_those_of_gzip_and_zlib() -> None:
    message = b"a" * 100
    assert gzip.decompress(compress(message, "gzip")) == message
    assert zlib.decompress(compress(message, "deflate")) == message


def test_a_message_that_compression_makes_longer_stays_uncompressed() -> None:
    assert type(compress(b"xy", "gzip")) is bytes


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_receive_limit_is_on_the_decompressed_size(encoding: str) -> None:
    short = compress(b"a" * 1000, encoding)
    assert decompress(Compressed(short), encoding, 1000) == b"a" * 1000
    status = refusal(short, encoding, 999)
    assert status.code is StatusCode.RESOURCE_EXHAUSTED
    assert status.message.endswith("larger than the limit of 999 when decompressed; raise max_receive_size")


def test_a_compression_bomb_costs_at_most_twice_the_limit_of_memory() -> None:
    bomb = compress(bytes(256 * MIB), "gzip")
    tracemalloc.start()
    try:
        assert refusal(bomb, "gzip", MIB).code is StatusCode.RESOURCE_EXHAUSTED
        assert tracemalloc.get_traced_memory()[1] < 2.2 * MIB + 2 * len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_malformed_compressed_messages_are_refused(encoding: str) -> None:
    short = compress(b"a" * 1000, encoding)
    for data, reason in ((short[:-1], "cut short"), (short + b"x", "more behind its end"), (b"what?", "is no ")):
        status = refusal(data, encoding)
        assert status.code is StatusCode.INTERNAL and reason in status.message


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.binary(max_size=200))
def test_decompressing_any_bytes_gives_a_message_or_a_status(encoding: str, data: bytes) -> None:
    assert isinstance(decompress(Compressed(data), encoding, 1000), bytes | Status)


@pytest.mark.parametrize("limit", [sys.maxsize, 2**100])
def test_decompression_accepts_a_huge_limit(limit: int) -> None:
    assert decompress(Compressed(compress(bytes(1000), "gzip")), "gzip", limit) == bytes(1000)


def test_an_unknown_compression_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="'snappy' is unknown; write one of deflate, gzip, identity"):
        parse_encoding("snappy")
