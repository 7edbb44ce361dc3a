"""Header blocks (HPACK, RFC 7541), where the work that is the same for every call is done once.

Outgoing: the fields that a method's calls have in common enter the dynamic table, and are a byte each from the second
call on. Metadata enters no table, not even a proxy's: it is secret (a cookie, a token), or different in each call. No
entry is evicted. A table that is full stays as it is and further methods are sent literally, because methods that take
turns in evicting each other would cost more than literals do. So after the first call of each method its block is
constant.

Incoming: the peer may use its table. As long as that does not change, the same bytes mean the same fields, so a
server's usual answer is decoded once.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from hpack import HPACKError, OversizedHeaderListError
from hpack.table import HeaderTable

from trxds.core.metadata import Headers, find

from .engine import Fields
from .events import ErrorCode
from .frames import Http2ProtocolError
from .hpack_decoder import ENTRY_OVERHEAD, MAX_TABLE_SIZE, BoundedDecoder, HeaderListTooLargeError
from .hpack_logs import hide_values

hide_values()

_EMPTY_TABLE = b"\x20"  # a table size of zero
_STATIC_FIELDS = frozenset(HeaderTable.STATIC_TABLE)
_FIRST_INDEX = 1 + len(HeaderTable.STATIC_TABLE)  # of the newest entry (RFC 7541 §2.3.3)
# A path or an authority above it would leave too little room for what all calls have in common.
_MAX_ENTRY_SIZE = 1024
_INSERTED = (0x40, 6)  # flags and bits of a literal that enters the table (RFC 7541 §6.2.1)
_NEVER_INDEXED = (0x10, 4)  # those of one that may enter no table on its way: it may be a secret (§6.2.3, §7.1.3)

# Bounds of the caches. A block of 256 bytes cannot have more than 256 fields.
_MAX_CACHED_BLOCKS = 64
_MAX_CACHED_BLOCK_SIZE = 256
_MAX_CACHED_METHODS = 1024
_MAX_CACHED_FIELDS = 64
_MAX_CACHED_FIELD_SIZE = 2048  # bytes, about the size of a large token

_ADDRESS = re.compile("<memory at [^>]*>")
_MAX_ERROR_TEXT = 1024  # characters; hpack quotes the whole block
# `repr` of bytes or str, which the end of the text may cut short. An apostrophe, as in h2's "mustn't", begins none.
_QUOTED = re.compile(r"""(?<!\w)b?(?:'(?:[^'\\]|\\.)*(?:'|\\?$)|"(?:[^"\\]|\\.)*(?:"|\\?$))""")


class EncoderTable:
    """The dynamic table of our blocks, as the peer keeps it (RFC 7541 §2.3.2), but without evictions."""

    __slots__ = ("_positions", "_room")

    def __init__(self, size: int) -> None:
        self._positions: dict[tuple[bytes, bytes], int] = {}  # in the order of insertion
        self._room = size

    def __repr__(self) -> str:
        return f"<EncoderTable {len(self)} fields, room for {self._room} bytes>"

    def __len__(self) -> int:
        return len(self._positions)

    def index(self, field: tuple[bytes, bytes]) -> int:
        """Return the index of a field, which the next insertion changes; 0 if it is not in the table."""
        position = self._positions.get(field)
        return 0 if position is None else _FIRST_INDEX + len(self) - 1 - position

    def insert(self, field: tuple[bytes, bytes]) -> bool:
        """Insert a field that is not in the table; False if there is no room."""
        size = len(field[0]) + len(field[1]) + ENTRY_OVERHEAD
        if size > min(self._room, _MAX_ENTRY_SIZE):
            return False
        self._room -= size
        self._positions[field] = len(self)
        return True


class BlockEncoder:
    """Encodes the requests of one connection. The peer must get every block, in order, as each may change its table."""

    __slots__ = ("_encoded_fields", "_method_blocks", "_prefix", "_table")

    def __init__(self) -> None:
        self._table = EncoderTable(MAX_TABLE_SIZE)  # room for some forty methods
        # The key is the tuple's `id`: to hash it each time would cost more. The entry keeps the tuple alive.
        self._method_blocks: dict[int, tuple[Fields, bytes]] = {}
        self._encoded_fields: dict[tuple[bytes, bytes], bytes] = {}  # recent metadata: a cookie, a token
        self._prefix = b""  # new table sizes, which the next block has to begin with

    def set_table_limit(self, limit: int) -> None:
        """Keep to the peer's SETTINGS_HEADER_TABLE_SIZE, from the next block on."""
        size = min(limit, MAX_TABLE_SIZE)
        self._table = EncoderTable(size)
        self._method_blocks.clear()
        # The peer must be told the least of all limits since the last block, and the last one (RFC 7541 §4.2). Zero is
        # no more than any of them, and empties the peer's table too (§4.3).
        self._prefix = _EMPTY_TABLE + _encode_integer(0x20, 5, size) if size else _EMPTY_TABLE

    def encode(self, method_headers: Fields, metadata: Headers, uncached_headers: Headers) -> bytes:
        kept = self._method_blocks.get(id(method_headers))
        block = self._encode_method_headers(method_headers) if kept is None else kept[1]
        if self._prefix:
            block, self._prefix = self._prefix + block, b""
        for field in metadata:
            block += self._encoded_fields.get(field) or self._encode_field(field)
        for name, value in uncached_headers:
            block += _encode_literal(name, value)
        return block

    def _encode_method_headers(self, fixed: Fields) -> bytes:
        if len(self._method_blocks) >= _MAX_CACHED_METHODS:
            self._method_blocks.clear()
        entries = len(self._table)
        block = b"".join([self._encode_method_field(field) for field in fixed])
        if len(self._table) == entries:
            self._method_blocks[id(fixed)] = fixed, block
        else:
            self._method_blocks.clear()  # an insertion changes the indices of all other entries
        return block

    def _encode_method_field(self, field: tuple[bytes, bytes]) -> bytes:
        index = self._table.index(field)
        if index:
            return _encode_integer(0x80, 7, index)
        if field not in _STATIC_FIELDS and self._table.insert(field):
            return _encode_literal(*field, *_INSERTED)
        return _encode_literal(*field)

    def _encode_field(self, field: tuple[bytes, bytes]) -> bytes:
        encoded = _encode_literal(*field, *_NEVER_INDEXED)
        if len(encoded) <= _MAX_CACHED_FIELD_SIZE:
            if len(self._encoded_fields) >= _MAX_CACHED_FIELDS:
                self._encoded_fields.clear()
            self._encoded_fields[field] = encoded
        return encoded


def _encode_literal(name: bytes, value: bytes, flags: int = 0, bits: int = 4) -> bytes:
    """Encode a field by its index in the static table, or as a literal (RFC 7541 §6.1, §6.2).

    `flags` and `bits` are those of a literal's first byte; by default the literal enters no table.
    """
    index, values = HeaderTable.STATIC_TABLE_MAPPING.get(name, (0, {}))
    if value in values:
        return _encode_integer(0x80, 7, values[value])
    named = _encode_integer(flags, bits, index) if index else bytes((flags,)) + _encode_string(name)
    return named + _encode_string(value)


def _encode_string(text: bytes) -> bytes:
    return _encode_integer(0, 7, len(text)) + text


def _encode_integer(flags: int, bits: int, value: int) -> bytes:
    """Encode an integer in the low bits of the first byte, and more bytes if it does not fit (RFC 7541 §5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((flags | value,))
    rest, tail = value - most, bytearray((flags | most,))
    while rest >= 0x80:
        tail.append(rest & 0x7F | 0x80)
        rest >>= 7
    tail.append(rest)
    return bytes(tail)


class HeaderBlock(NamedTuple):
    """A decoded header block. Many answers may share it, so no code changes it."""

    headers: Headers
    size: int
    """The size as `list_size` counts it.

    A list above the decoder's bound has no `headers`, and this size or a larger one, as not all of it was decoded.
    """

    is_informational: bool
    """Whether it is a 1xx response, which the final one follows."""

    def __repr__(self) -> str:
        return f"<Block of {len(self.headers)} fields, {self.size} bytes>"


class BlockDecoder:
    """Decodes the header blocks of one peer. It must see every block, in order, used or not."""

    __slots__ = ("_bound", "_cached_blocks", "_decoder", "_limit", "cached_headers")

    def __init__(self, header_list_bound: int, limit: float = math.inf) -> None:
        self.cached_headers: dict[bytes, Headers] = {}
        """The headers of known blocks that are within `limit` and no informational response."""
        self._bound = header_list_bound
        self._limit = limit
        self._cached_blocks: dict[bytes, HeaderBlock] = {}
        self._decoder: BoundedDecoder | None = None  # the first block makes it: a thousand idle hosts need no tables

    def decode(self, data: bytes) -> HeaderBlock:
        """Return the block; `Http2ProtocolError` if it is invalid, which also loses the table and so the connection."""
        block = self._cached_blocks.get(data)
        if block is None:
            decoder = self._decoder = self._decoder or BoundedDecoder(self._bound)
            before = decoder.header_table.changes
            block = _decode(decoder, data)
            # A block that changes the table means something else the next time, and so may every other block.
            if decoder.header_table.changes != before:
                self._clear_caches()
            elif len(data) <= _MAX_CACHED_BLOCK_SIZE:
                self._cache(data, block)
        return block

    def _cache(self, data: bytes, block: HeaderBlock) -> None:
        if len(self._cached_blocks) >= _MAX_CACHED_BLOCKS:
            self._clear_caches()
        self._cached_blocks[data] = block
        if not block.is_informational and block.size <= self._limit:
            self.cached_headers[data] = block.headers

    def _clear_caches(self) -> None:
        self._cached_blocks.clear()
        self.cached_headers.clear()


def _decode(decoder: BoundedDecoder, data: bytes) -> HeaderBlock:
    try:
        headers: Headers = decoder.decode(data)
    except HeaderListTooLargeError as error:
        return HeaderBlock([], error.size, is_informational=False)
    except OversizedHeaderListError as error:
        raise Http2ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from error
    except HPACKError as error:
        raise Http2ProtocolError(ErrorCode.COMPRESSION_ERROR, f"header block: {error_text(error)}") from error
    # Behind other fields a :status is malformed (RFC 9113 §8.3): `response.py` refuses it, as that of a final response.
    status = find(headers[:1], b":status") or b""
    return HeaderBlock(headers, list_size(headers), status.startswith(b"1"))


def error_text(error: Exception) -> str:
    """Return the message of an hpack or h2 error without the names and values that it quotes, which may be secrets.

    Memory addresses are removed too, so that equal failures have equal messages.
    """
    return _QUOTED.sub("(not shown)", _ADDRESS.sub("the bytes", str(error)[:_MAX_ERROR_TEXT]))


def list_size(headers: Headers) -> int:
    """Return the size by HTTP/2's rule: names, values, and 32 bytes for each field (RFC 9113 §6.5.2)."""
    size = ENTRY_OVERHEAD * len(headers)
    for name, value in headers:
        size += len(name) + len(value)
    return size
