"""A large message is copied to its place, which is made when a good part of it has come."""

from __future__ import annotations

import tracemalloc

import pytest

from trxds.transport.message_buffer import MessageBuffer


@pytest.mark.parametrize("cut", [1, 7, 999, 5000])
def test_the_message_is_all_parts_in_order(cut: int) -> None:
    message = bytes(range(250)) * 20
    buffer = MessageBuffer(len(message))
    for start in range(0, len(message), cut):
        buffer.add(memoryview(message)[start : start + cut])
    assert buffer.take() == message


def test_later_bytes_of_the_reader_do_not_change_a_part() -> None:
    read, buffer = bytearray(b"ab"), MessageBuffer(2)
    buffer.add(memoryview(read))
    read[:] = b"xy"
    assert buffer.take() == b"ab"


def test_a_length_that_the_peer_only_claims_takes_no_memory() -> None:
    size = 16 * 1024 * 1024
    assert peak_of(size, [b"", b"x" * 1000]) < 16_000


def test_a_message_takes_little_more_than_its_size() -> None:
    size, part = 1024 * 1024, bytes(64 * 1024)
    assert peak_of(size, [part] * 16) < 1.2 * size


def peak_of(size: int, parts: list[bytes]) -> int:
    tracemalloc.start()
    try:
        buffer = MessageBuffer(size)
        for part in parts:
            buffer.add(part)
        if sum(map(len, parts)) == size:
            buffer.take()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
