"""Our HPACK decoder reads what hpack's does, and goes on behind a list that is too large."""

from __future__ import annotations

import json

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trxds.transport.hpack_decoder import BoundedDecoder, HeaderListTooLargeError

NEW_SIZE, INSERTED, PLAIN, INDEXED = b"\x3f\xe1\x1f", b"\x40", b"\x00", b"\xbe"

PARTS = [NEW_SIZE, INSERTED, PLAIN, INDEXED, b"\x01a", b"\x81", b"\x7f", b"\xff"]

names = st.sampled_from([b":status", b"content-type", b"x-a", b"x-b", b"date", b""])
# A list of such values takes less work than even the smallest limit allows.
values = st.sampled_from([b"200", b"", b"1", b"z" * 40, b"\n" * 900]) | st.integers(1, 4500).map(b"v".__mul__)
lists = st.lists(st.tuples(names, values, st.booleans()), max_size=12)
blocks = st.lists(st.tuples(lists, st.booleans(), st.none() | st.integers(0, 4096)), min_size=1, max_size=8)


def encoded(script: list) -> list[bytes]:
    """Return blocks of one encoder; of its fields some are secret, and its table changes its size."""
    encoder, made = hpack.Encoder(), []
    for fields, huffman, table_size in script:
        if table_size is not None:
            encoder.header_table_size = table_size
        made.append(encoder.encode(fields, huffman=huffman))
    return made


def string(text: bytes, flags: int = 0) -> bytes:
    length = hpack.hpack.encode_integer(len(text), 7)
    length[0] |= flags
    return bytes(length) + text


def huffman(text: bytes) -> bytes:
    return string(hpack.Encoder().huffman_coder.encode(text), 0x80)


JSON = json.dumps(json.dumps(json.dumps([{"id": "a", "at": "b"}] * 1600))).encode()
RUSSIAN = "Одна корзина, два товара. ".encode() * 600


@given(blocks)
def test_it_reads_what_hpack_reads(script) -> None:
    ours, theirs = BoundedDecoder(1 << 20), hpack.Decoder(1 << 20)
    for block in encoded(script):
        assert ours.decode(block) == theirs.decode(block, raw=True)
        assert ours.header_table.dynamic_entries == theirs.header_table.dynamic_entries


@given(st.binary(max_size=40) | st.lists(st.sampled_from(PARTS), max_size=20).map(b"".join))
@example(b"\xff\xff\xff\xff\xff\xff\x01")
@example(b"\x88\x20")
@example(b"\x3f\xff\x1f")
@example(b"\x80")
@example(b"\x40\x81\x00\x01a")
def test_it_refuses_what_hpack_refuses(data: bytes) -> None:
    ours, theirs = BoundedDecoder(1 << 20), hpack.Decoder(1 << 20)
    try:
        expected = theirs.decode(data, raw=True)
    except (hpack.HPACKError, IndexError, TypeError):
        with pytest.raises(hpack.HPACKError):
            ours.decode(data)
        return
    try:
        assert ours.decode(data) == expected
    except hpack.HPACKDecodingError as error:
        # RFC 7541 §4.2 allows no more, which hpack does not count.
        assert str(error) == "the table has more than two new sizes in one block"


@given(blocks, st.integers(0, 3000))
@example([([(b"x-a", b"\n" * 900, True)], True, None)], 200)
def test_its_table_is_in_step_behind_a_list_that_is_too_large(script, limit: int) -> None:
    ours, theirs = BoundedDecoder(limit), hpack.Decoder(1 << 20)
    for block in encoded(script):
        expected = theirs.decode(block, raw=True)
        size = sum(32 + len(name) + len(value) for name, value in expected)
        if size <= limit:
            assert ours.decode(block) == expected
        else:
            with pytest.raises(HeaderListTooLargeError) as caught:
                ours.decode(block)
            assert limit < caught.value.size <= size
        assert ours.header_table.dynamic_entries == theirs.header_table.dynamic_entries


@pytest.mark.parametrize("values", [[JSON[:65_000]], ["Ж".encode() * 18_000], [RUSSIAN[:24_000]] * 2])
def test_texts_whose_huffman_code_is_longer_than_they_are_count_as_long_as_they_are(values: list[bytes]) -> None:
    block = b"".join(PLAIN + string(b"x") + huffman(value) for value in values)
    assert len(block) > 1.5 * sum(map(len, values))
    assert BoundedDecoder(80 * 1024).decode(block) == [(b"x", value) for value in values]


@pytest.mark.parametrize(
    "block",
    [
        INSERTED + string(b"x") + string(b"y" * 4000) + INDEXED * 30_000,
        (INSERTED + string(b"x") + string(b"y")) * 8000,
        (PLAIN + string(b"x") + string(b"y" * 100)) * 20_000,
        INSERTED + string(b"x") + string(b"y" * 4000) + b"\x0f\x2f\x00" * 9216,
        (INSERTED + string(b"x") + huffman(b"y" * 3000)) * 60,
        # Lists within the limit, whose Huffman code is long.
        (PLAIN + string(b"x") + huffman(b"\n" * 300)) * 180,
        PLAIN + string(b"x") + huffman(b"\n" * 32_000),
    ],
)
def test_a_block_that_takes_too_much_work_is_refused_whatever_the_size_of_its_list(block: bytes) -> None:
    with pytest.raises(hpack.OversizedHeaderListError, match="more work than max_metadata_size allows"):
        BoundedDecoder(80 * 1024).decode(block)
