"""The content-type of gRPC: `application/grpc`, maybe with a subtype such as `+proto` (PROTOCOL-HTTP2)."""

from __future__ import annotations

CONTENT_TYPE = b"application/grpc"
_SEPARATORS = (b"+", b";")  # of a subtype, and of parameters


def content_subtype(content_type: bytes | None) -> str | None:
    """Return the message format in a gRPC content-type ("proto", empty if none); None if it is not gRPC's."""
    # Media types are case-insensitive (RFC 9110 §8.3.1).
    value = (content_type or b"").strip().lower()
    if not value.startswith(CONTENT_TYPE):
        return None
    rest = value[len(CONTENT_TYPE) :]
    # "application/grpc-web" is another protocol. Blanks may stand before parameters (RFC 9110 §5.6.6).
    if rest and not rest.lstrip().startswith(_SEPARATORS):
        return None
    return rest[1:].split(b";")[0].strip().decode("latin-1") if rest[:1] == b"+" else ""
