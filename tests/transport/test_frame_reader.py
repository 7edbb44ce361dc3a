"""Frames that come in pieces are passed on whole, but large DATA as it comes."""

from __future__ import annotations

import random
import tracemalloc
from functools import partial
from typing import Any

from trxds.transport import frames


def test_a_frame_that_comes_byte_by_byte_takes_no_more_than_a_few_times_its_size() -> None:
    reader, size = frames.FrameReader(65_536), 60_000
    whole = frames.settings({}) + frames.head(size, frames.HEADERS, 0, 1) + bytes(size)
    tracemalloc.start()
    try:
        sizes: list[int] = []
        for at in range(len(whole)):
            reader.read(whole[at : at + 1], lambda *frame: sizes.append(len(frame[3])), lambda *_: False)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [0, size]
    assert most < 5 * size


def into(found: list[tuple[int, int, int, bytes]], *frame: Any) -> None:
    found.append(frame)


def test_frames_are_the_same_however_their_bytes_are_cut() -> None:
    kinds = random.Random(1)
    sent = [(frames.SETTINGS, 0, 0, b"")]
    sent += [(frames.DATA, 0, n, kinds.randbytes(kinds.choice((0, 1, 5, 100, 5000)))) for n in range(1, 40)]
    stream = b"".join(frames.head(len(data), kind, flags, to) + data for kind, flags, to, data in sent)
    for longest in (1, 7, 300, 6000, len(stream)):
        reader, found, at = frames.FrameReader(16_384), [], 0
        while at < len(stream):
            size = kinds.randint(1, longest)
            reader.read(stream[at : at + size], partial(into, found), lambda *_: False)
            at += size
        assert found == sent


def test_a_large_data_frame_is_passed_on_in_the_parts_that_come_and_only_the_last_one_ends_the_stream() -> None:
    reader, found = frames.FrameReader(65_536), []
    data = random.Random(1).randbytes(20_000)
    stream = frames.settings({}) + frames.head(len(data), frames.DATA, frames.END_STREAM, 1) + data
    for part in (stream[:30], stream[30:9000], stream[9000:], frames.head(0, frames.PING, 0, 0)):
        reader.read(part, partial(into, found), lambda *_: False)
    assert found == [
        (frames.SETTINGS, 0, 0, b""),
        (frames.DATA, 0, 1, data[:12]),
        (frames.DATA, 0, 1, data[12:8982]),
        (frames.DATA, frames.END_STREAM, 1, data[8982:]),
        (frames.PING, 0, 0, b""),
    ]


def test_a_padded_frame_is_passed_on_whole_as_its_padding_is_at_its_end() -> None:
    reader, found = frames.FrameReader(65_536), []
    payload = bytes([3]) + b"d" * 20_000 + bytes(3)
    stream = frames.settings({}) + frames.head(len(payload), frames.DATA, frames.PADDED, 1) + payload
    for part in (stream[:9000], stream[9000:]):
        reader.read(part, partial(into, found), lambda *_: False)
    assert found[1:] == [(frames.DATA, frames.PADDED, 1, payload)]
