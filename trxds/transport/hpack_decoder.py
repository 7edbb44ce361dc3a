"""An HPACK decoder (RFC 7541) with bounded work for a block, which can go on behind a list that is too large.

The fields of such a list are dropped, and most of them are not even decoded. But what they insert into the table is
inserted, so that the next block can be read: the list costs only its stream (RFC 9113 §10.5.1), as with C-core.
"""

from __future__ import annotations

from typing import Any

from hpack import Decoder, HPACKDecodingError, InvalidTableSizeError, OversizedHeaderListError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

ENTRY_OVERHEAD = 32
"""The bytes that each field of a list or table counts for, besides name and value (RFC 7541 §4.1, RFC 9113 §6.5.2)."""

MAX_TABLE_SIZE = 4096
"""The size of every table, in bytes, as long as nobody asks for another (RFC 9113 §6.5.2)."""

# RFC 7541 §4.2 allows two new table sizes at the beginning of a block; each byte of a block could be one more.
_MAX_RESIZES = 2
_MAX_INTEGER_SHIFT = 28  # hpack reads no more bytes either
_MAX_HUFFMAN_BITS = 30  # of one byte (RFC 7541, appendix B)

# A whole block may cost the decoder's limit and this much more, whatever the size of its list; the unit is roughly what
# a byte of a list takes. By default the sum is 147,456: 18,432 indexed fields (5 ms), 9,216 literal ones that do not
# enter the table (8 ms), 4,608 that do (6 ms), or 117,965 bytes of Huffman code at 1¼ each (16 ms). 64 KiB of JSON
# are within it, whose Huffman code may be 1.66 times as long.
_EXTRA_COST = 64 * 1024
_INDEXED_COST = 8
_LITERAL_COST = 16
_INSERTED_COST = 32
_TOO_MUCH_WORK = "a header block that takes more work than max_metadata_size allows"


class HeaderListTooLargeError(Exception):
    """A header list is larger than the decoder's limit. The next block can be decoded."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a header list of at least {size} bytes")
        self.size = size
        """Its size, or less where not all of it was decoded; always above the limit."""


class PrivateTable(HeaderTable):
    """hpack's dynamic table, whose `repr` would show all values that are in it."""

    def __repr__(self) -> str:
        return f"<PrivateTable {len(self.dynamic_entries)} fields>"


class CountedTable(PrivateTable):
    """hpack's dynamic table, which counts its changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.resizes = 0
        """The number of new sizes in the present block."""

    def add(self, name: bytes, value: bytes) -> None:
        self.changes += 1
        super().add(name, value)

    @property
    def maxsize(self) -> int:
        return self._maxsize

    @maxsize.setter
    def maxsize(self, size: int) -> None:
        self.changes += 1
        self.resizes += 1
        if self.resizes > _MAX_RESIZES:
            raise HPACKDecodingError("the table has more than two new sizes in one block")
        HeaderTable.maxsize.fset(self, size)  # type: ignore[attr-defined]  # mypy takes a property for its value


class BoundedDecoder(Decoder):
    """hpack's decoder, which copies less, does not log, and goes on behind lists that are too large."""

    header_table: CountedTable

    def __init__(self, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self.header_table = CountedTable()

    def decode(self, data: bytes, raw: bool = True) -> Any:
        """Return the fields of a block as pairs of bytes, `raw` or not.

        `HeaderListTooLargeError` if they are larger than the limit. With an error of hpack's the table is lost: the
        block is invalid, or (`OversizedHeaderListError`) it takes too much work.
        """
        self.header_table.resizes = 0
        try:
            return self._decode(data)
        except IndexError:
            raise HPACKDecodingError("the block ends within a field") from None

    def _decode(self, data: bytes) -> list[tuple[bytes, bytes]]:
        table, most = self.header_table, self.max_header_list_size
        fields: list[tuple[bytes, bytes]] = []
        budget = most + _EXTRA_COST
        size = position = 0
        while position < len(data):
            first = data[position]
            inserts = first & 0xC0 == 0x40
            budget -= _INDEXED_COST if first & 0x80 else _INSERTED_COST if inserts else _LITERAL_COST
            if budget < 0:
                raise OversizedHeaderListError(_TOO_MUCH_WORK)
            if first & 0x80:  # an index of a field (RFC 7541 §6.1)
                index, position = _decode_integer(data, position, 0x7F)
                name, value = table.get_by_index(index)
            elif first & 0xE0 == 0x20:  # a new size of the table (§6.3)
                position = self._resize(data, position, is_first=not size)
                continue
            else:  # a literal, which may be inserted into the table (§6.2)
                index, position = _decode_integer(data, position, 0x3F if inserts else 0x0F)
                limit = max(most - size, MAX_TABLE_SIZE if inserts else 0)
                if index:
                    name = table.get_by_index(index)[0]
                else:
                    name, position, budget = _decode_string(data, position, limit, budget)
                value, position, budget = _decode_string(data, position, limit, budget)
            if inserts:
                table.add(name, value)  # one that is larger than the table empties it (§4.4)
            size += ENTRY_OVERHEAD + len(name) + len(value)
            if size <= most:
                fields.append((name, value))
        if size > most:
            raise HeaderListTooLargeError(size)
        return fields

    def _resize(self, data: bytes, position: int, *, is_first: bool) -> int:
        """Set the table's size, and return the position behind it."""
        if not is_first:
            raise HPACKDecodingError("a new table size behind a field")
        size, position = _decode_integer(data, position, 0x1F)
        if size > self.max_allowed_table_size:
            raise InvalidTableSizeError("a table size above the largest that is allowed")
        self.header_table.maxsize = size
        return position


def _decode_integer(data: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return an integer that begins in the masked bits of a byte, and the position behind it (RFC 7541 §5.1)."""
    value = data[position] & mask
    position += 1
    if value < mask:
        return value, position
    for shift in range(0, _MAX_INTEGER_SHIFT + 1, 7):
        byte = data[position]
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HPACKDecodingError("an integer of too many bytes")


def _decode_string(data: bytes, position: int, limit: int, budget: int) -> tuple[bytes, int, int]:
    """Return a text, the position behind it, and what is left of the budget for work (RFC 7541 §5.2).

    A text that must be longer than `limit` is not decoded. As many bytes as it has at least stand for it.
    """
    is_huffman = data[position] & 0x80
    length, start = _decode_integer(data, position, 0x7F)
    end = start + length
    if end > len(data):
        raise HPACKDecodingError("the block ends within a text")
    text = data[start:end]
    if not is_huffman:
        return text, end, budget
    least = length * 8 // _MAX_HUFFMAN_BITS
    if least > limit:
        return text[:least], end, budget
    budget -= length + length // 4
    if budget < 0:
        raise OversizedHeaderListError(_TOO_MUCH_WORK)
    return decode_huffman(text), end, budget
