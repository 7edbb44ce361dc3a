"""This file checks, encodes and decodes metadata and status messages (gRPC's PROTOCOL-HTTP2).

The pairs that users pass are checked here once, before anything is sent, so that the transport never has to reject a
header in the middle of a request.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, overload
from urllib.parse import quote, unquote_to_bytes

Value: TypeAlias = str | bytes
Pairs: TypeAlias = Iterable[tuple[str, Value]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_NOT_IN_KEY = re.compile(r"[^0-9a-z_.\-]")
# PROTOCOL-HTTP2's ASCII-Value, which is narrower than what HTTP allows.
_NOT_IN_VALUE = re.compile(r"[^\x20-\x7e]")
# PROTOCOL-HTTP2 reserves all of "grpc-", but tracers and interceptors do set such names (grpc-trace-bin). So only those
# are rejected that the transport itself sends, here and in `_checked`.
# RFC 9113 §8.2.2: connection-specific fields must not be sent; the peer resets the stream for one.
_RESERVED = frozenset(
    {"te", "content-type", "user-agent", "host", "grpc-timeout"}
    | {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
# A length that does not fit makes a message malformed (RFC 9113 §8.1.1), and the client counts attempts itself (A6).
_RESERVED_WHEN_SENT = _RESERVED | {"content-length", "grpc-previous-rpc-attempts"}
# The protocol's own fields of response headers, which are not part of a user's metadata.
_PROTOCOL = frozenset({b"grpc-status", b"grpc-message", b"content-type", b"grpc-encoding", b"grpc-accept-encoding"})


class Metadata(tuple[tuple[str, Value], ...]):
    """Metadata is a tuple of pairs of lower-case key and value, in order; a key may occur several times.

    The value of a key that ends in `-bin` is `bytes`, any other is `str` (PROTOCOL-HTTP2).
    """

    _encoded: Headers | None = None  # cached by `encode`, because the calls of a method tend to have the same metadata

    def __repr__(self) -> str:
        """Show keys and sizes only: the values may be secrets, and a `repr` is logged. Iterate to see them."""
        return f"<Metadata {', '.join(f'{_key_shown(key)} ({_size(value)})' for key, value in self) or 'empty'}>"

    @overload
    def first(self, key: str) -> Value | None: ...
    @overload
    def first(self, key: str, default: Value) -> Value: ...
    def first(self, key: str, default: Value | None = None) -> Value | None:
        """Return the first value of that key, or `default`."""
        for name, value in self:
            if name == key:
                return value
        return default

    def all(self, key: str) -> list[Value]:
        """Return every value of that key, in order."""
        return [value for name, value in self if name == key]


EMPTY = Metadata()


def is_key(name: str) -> bool:
    """Return whether a lower-case name is a valid metadata key."""
    return name != "" and _NOT_IN_KEY.search(name) is None


def is_value(text: str) -> bool:
    """Return whether a text is a valid value of metadata whose key does not end in `-bin`."""
    return _NOT_IN_VALUE.search(text) is None


def describe_flaw(text: str) -> str:
    """Return why `text` is no valid value: the kind and position of the first bad character; empty if it is valid.

    The text itself is not shown, because it may be a secret.
    """
    return _describe_first(_NOT_IN_VALUE, text)


def check(pairs: Iterable[tuple[str, Value]], *, is_sent: bool = True) -> Metadata:
    """Return the caller's pairs as Metadata, with keys in lower case.

    `TypeError` or `ValueError` names a bad pair by its key, or by its index, and never shows its value. What is not
    sent, such as a response that a filter changes, may have every field that a peer can have sent.
    """
    reserved = _RESERVED_WHEN_SENT if is_sent else _RESERVED
    try:
        each = iter(pairs)
    except TypeError:
        form = "metadata is pairs of key and value, as in [('user', '7')]"
        raise TypeError(f"{form}, not {type(pairs).__name__}") from None
    return Metadata([_checked(index, pair, reserved) for index, pair in enumerate(each)])


def _checked(index: int, pair: Any, reserved: frozenset[str]) -> tuple[str, Value]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
        kind = type(pair).__name__
        raise TypeError(f"metadata[{index}] is of type {kind}; write a pair of key and value, such as ('user', '7')")
    key, value = pair
    name = key.lower()
    if not name or _NOT_IN_KEY.search(name):
        # The key is not shown either: it is the secret if the caller swapped key and value.
        flaw = f"has {_describe_first(_NOT_IN_KEY, name)}" if name else "is empty"
        raise ValueError(f"metadata[{index}]: its key {flaw}; use letters, digits, '_', '.' and '-' only")
    if name in reserved or name.startswith(("grpc-status", "grpc-message", "grpc-encoding", "grpc-accept-encoding")):
        raise ValueError(f"metadata key {key!r} belongs to the protocol; choose another name")
    if name.endswith("-bin"):
        if not isinstance(value, bytes):
            raise TypeError(f"metadata {key!r} ends in -bin: its value must be bytes, not {type(value).__name__}")
        return name, value
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"metadata {key!r}: its value is {kind}, not str; for bytes end the key in -bin")
    if not is_value(value):
        raise ValueError(f"metadata {key!r}: its value has {describe_flaw(value)}; {_remedy(value)}")
    return name, value


def _remedy(value: str) -> str:
    if is_value(value.strip("\r\n")):
        return "strip it, as files end in one"
    return "a value is printable ASCII; for bytes end the key in -bin"


def _describe_first(bad: re.Pattern[str], text: str) -> str:
    """Return the kind and position of the first bad character; empty if there is none."""
    found = bad.search(text)
    return f"{_kind(found[0])} at position {found.start()}" if found else ""


def _kind(character: str) -> str:
    """Return the kind of a character and not the character itself, which may be part of a secret."""
    if character in "\r\n":
        return "a line end"
    if character == "\0":
        return "a NUL"
    if character > "\x7e":
        return "a character that is not ASCII" if character > "\x7f" else "a control character"
    if character < " ":
        return "a tab" if character == "\t" else "a control character"
    return "a blank" if character == " " else "a punctuation mark"


def _key_shown(key: str) -> str:
    """Return the key as shown in a `repr`; a peer's invalid key is not shown, because it may have any content."""
    return key if is_key(key) else "of no name"


def _size(value: Value) -> str:
    return f"{len(value)} {'characters' if isinstance(value, str) else 'bytes'}"


def encode(metadata: Metadata) -> Headers:
    """Return the header fields, in a list that must not be changed; binary values are in base64 without padding.

    Blanks around a text are left out: HTTP/2 forbids them (RFC 9113 §8.2.1), and PROTOCOL-HTTP2 lets them be stripped.
    """
    if metadata._encoded is None:
        metadata._encoded = [
            (key.encode("ascii"), value.strip(" ").encode("ascii") if isinstance(value, str) else encode_binary(value))
            for key, value in metadata
        ]
    return metadata._encoded


def as_text(value: Value) -> str:
    """Return the value as a header has it: bytes in base64 without padding."""
    return value if isinstance(value, str) else encode_binary(value).decode("ascii")


def from_text(key: str, text: str) -> Value:
    """Return a value from its text. That of a `-bin` key is base64, padded or not; `ValueError` if it is not."""
    if not key.lower().endswith("-bin"):
        return text
    value = decode_binary(text.encode("ascii", "replace"))
    if value is None:
        raise ValueError(f"the value of {key!r} is not base64, as that of a -bin key must be")
    return value


def decode(headers: Iterable[tuple[bytes, bytes]]) -> Metadata:
    """Return a peer's metadata from its header fields, without pseudo headers and the protocol's own.

    A binary field may hold several values, joined by commas, padded or not (PROTOCOL-HTTP2). A value that is no base64
    is left out, because a peer's mistake in metadata should not fail the call.
    """
    pairs: list[tuple[str, Value]] = []
    for key, value in headers:
        if key in _PROTOCOL or key[:1] == b":":
            continue
        name = key.decode("latin-1")
        if key.endswith(b"-bin"):
            pairs.extend((name, part) for part in map(decode_binary, value.split(b",")) if part is not None)
        else:
            # A peer's value may have bytes above ASCII (RFC 9110, 5.5). latin-1 decodes all, so none fails a call.
            pairs.append((name, value.decode("latin-1")))
    return Metadata(pairs)


def encode_binary(value: bytes) -> bytes:
    """Return the base64 of a binary value, without padding."""
    return base64.b64encode(value).rstrip(b"=")


def decode_binary(text: bytes) -> bytes | None:
    """Return the bytes of a base64 text, padded or not; None if it is none."""
    stripped = text.strip().rstrip(b"=")
    try:
        # `validate`, because b64decode ignores foreign characters otherwise.
        return base64.b64decode(stripped + b"=" * (-len(stripped) % 4), validate=True)
    except ValueError:  # binascii.Error is one
        return None


def find(headers: Sequence[tuple[bytes, bytes]], key: bytes) -> bytes | None:
    """Return the first value of a raw header field; None if there is none."""
    for name, value in headers:
        if name == key:
            return value
    return None


# -- grpc-message: UTF-8, every byte outside printable ASCII and '%' itself percent-coded

_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_OUTER_BLANKS = re.compile("^ +| +$")


def encode_message(message: str) -> bytes:
    """Return the value of `grpc-message`."""
    # "replace": a lone surrogate has no UTF-8, and a message for people must not cause a second failure.
    encoded = quote(message, safe=_PLAIN, errors="replace")
    # HTTP/2 forbids blanks at the ends of a field (RFC 9113 §8.2.1): proxies on nghttp2 refuse them, h2 drops them.
    encoded = _OUTER_BLANKS.sub(lambda blanks: "%20" * len(blanks[0]), encoded)
    return encoded.encode("ascii")


def decode_message(value: bytes) -> str:
    """Return the text of `grpc-message`. It never fails: a broken escape is kept, bad UTF-8 becomes U+FFFD."""
    return unquote_to_bytes(value).decode("utf-8", "replace")
