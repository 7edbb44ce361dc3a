"""How messages are compressed: gzip and deflate, each message by itself (gRPC's compression.md).

What a peer sends may be a bomb: a thousand bytes that stand for a million. So a message is inflated only
when somebody takes it, one at a time, and never further than the limit on its size.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Mapping
from types import MappingProxyType

from trxds.core.status import Status, StatusCode

IDENTITY = "identity"

# By zlib's own numbers: deflate is zlib's format, gzip has another header around the same.
_FORMATS: Mapping[str, int] = MappingProxyType({"deflate": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS + 16})

_NAME = re.compile(r"[a-z0-9-]{1,12}", re.ASCII | re.IGNORECASE)
_MOST = sys.maxsize - 1  # bytes; zlib counts no further

ACCEPTED = ",".join((IDENTITY, *_FORMATS)).encode()
"""What we can read, as `grpc-accept-encoding` says it."""


class Compressed(bytes):
    """A message as it is on the wire with the compressed flag; `whole` is the size that it had, if we made it."""

    whole = 0


def encoding_named(name: str) -> str:
    """The encoding to send with, empty for `identity`; `ValueError` for one that we cannot make."""
    if name in _FORMATS:
        return name
    if name != IDENTITY:
        raise ValueError(f"compression {name!r} is unknown; write one of {', '.join((*_FORMATS, IDENTITY))}")
    return ""


def known(encoding: str) -> bool:
    """Whether messages in that encoding can be read."""
    return encoding in _FORMATS


def encoding_shown(encoding: str) -> str:
    """For errors: a peer may have put anything there, and what is no name of an encoding may be somebody's secret."""
    return repr(encoding) if _NAME.fullmatch(encoding) else "of no name"


def compress(message: bytes, encoding: str) -> bytes:
    """The message compressed, or as it is if that is not longer."""
    made = zlib.compressobj(wbits=_FORMATS[encoding])
    short = made.compress(message) + made.flush()
    if len(short) >= len(message):
        return message
    compressed = Compressed(short)
    compressed.whole = len(message)
    return compressed


def decompress(message: Compressed, encoding: str, max_size: int) -> bytes | Status:
    """The message as it was, or what is wrong with it; takes twice `max_size` at most, for zlib joins pieces."""
    inflating = zlib.decompressobj(wbits=_FORMATS[encoding])
    try:
        whole = inflating.decompress(message, min(max_size, _MOST) + 1)
    except zlib.error as error:
        return Status(StatusCode.INTERNAL, f"received message is no {encoding}: {error}")
    if len(whole) > max_size:
        text = f"received message of {len(message)} bytes of {encoding} is larger than the limit of {max_size}"
        return Status(StatusCode.RESOURCE_EXHAUSTED, f"{text} when decompressed; raise max_receive_size")
    if not inflating.eof or inflating.unused_data:
        what = "is cut short" if not inflating.eof else "has more behind its end"
        return Status(StatusCode.INTERNAL, f"received message {what}, as {encoding}")
    return whole
