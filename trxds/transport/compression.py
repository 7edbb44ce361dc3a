"""gRPC compresses each message by itself, with gzip or deflate (gRPC's compression.md).

A peer may send a bomb: a thousand bytes that stand for a million. So a message is decompressed only when the
application takes it, one at a time, and never further than the limit on its size.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from trxds.core.status import Status, StatusCode

Compression: TypeAlias = Literal["gzip", "deflate", "identity"]
"""The encodings of messages, by gRPC's names; `identity` is no compression."""

IDENTITY: Compression = "identity"

# The values are zlib's `wbits`: gRPC's deflate is zlib's format (RFC 1950), and 16 more selects gzip's header.
_FORMATS: Mapping[str, int] = MappingProxyType({"deflate": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS + 16})

_NAME = re.compile(r"[a-z0-9-]{1,12}", re.ASCII | re.IGNORECASE)
_MAX_OUTPUT = sys.maxsize - 1  # bytes; zlib accepts no larger limit

ACCEPTED = ",".join((IDENTITY, *_FORMATS)).encode()
"""The encodings that can be read here, as the value of `grpc-accept-encoding`."""


class Compressed(bytes):
    """A message as the wire has it with the compressed flag; `original_size` is 0 if it was not made here."""

    original_size = 0


def parse_encoding(name: str) -> str:
    """Return the encoding to send with, empty for `identity`; `ValueError` if it is not supported."""
    if name == IDENTITY:
        return ""
    if not isinstance(name, str) or name not in _FORMATS:  # type: ignore[redundant-expr]  # a caller without types
        raise ValueError(f"compression {name!r} is unknown; write one of {', '.join((*_FORMATS, IDENTITY))}")
    return name


def is_known_encoding(encoding: str) -> bool:
    """Return whether messages in this encoding can be read."""
    return encoding in _FORMATS


def describe_encoding(encoding: str) -> str:
    """Return an encoding for an error text. It is quoted only in the form of a name: anything else may be a secret."""
    return repr(encoding) if _NAME.fullmatch(encoding) else "of no name"


def compress(message: bytes, encoding: str) -> bytes:
    """Return the message compressed, or unchanged if compression does not make it shorter."""
    compressor = zlib.compressobj(wbits=_FORMATS[encoding])
    shorter = compressor.compress(message) + compressor.flush()
    # compression.md: a message may be sent uncompressed although an encoding was agreed on.
    if len(shorter) >= len(message):
        return message
    compressed = Compressed(shorter)
    compressed.original_size = len(message)
    return compressed


def decompress(message: Compressed, encoding: str, max_size: int) -> bytes | Status:
    """Return the message decompressed, or the status that says what is wrong with it.

    It takes up to twice `max_size` of memory, because zlib joins pieces.
    """
    decompressor = zlib.decompressobj(wbits=_FORMATS[encoding])
    try:
        # One byte more than the limit shows that the message is too large, without the rest of a bomb.
        whole = decompressor.decompress(message, min(max_size, _MAX_OUTPUT) + 1)
    except zlib.error as error:
        return Status(StatusCode.INTERNAL, f"received message is no {encoding}: {error}")
    if len(whole) > max_size:
        text = f"received message of {len(message)} bytes of {encoding} is larger than the limit of {max_size}"
        return Status(StatusCode.RESOURCE_EXHAUSTED, f"{text} when decompressed; raise max_receive_size")
    if not decompressor.eof or decompressor.unused_data:
        what = "is cut short" if not decompressor.eof else "has more behind its end"
        return Status(StatusCode.INTERNAL, f"received message {what}, as {encoding}")
    return whole
