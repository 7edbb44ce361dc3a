"""The fast engine, and frames for it by hand."""

from __future__ import annotations

import hpack

from trxds.transport import frames
from trxds.transport.options import WireOptions

FIXED = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"), (b"te", b"trailers"))
RESPONSE = [(b":status", b"200"), (b"content-type", b"application/grpc")]
OPTIONS = WireOptions(stream_window=1000, connection_window=65_535, max_header_list=2000)


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return frames.head(len(payload), kind, flags, stream_id) + payload


def headers(fields: list[tuple[bytes, bytes]], flags: int = 4, stream_id: int = 1) -> bytes:
    return frame(1, flags, stream_id, hpack.Encoder().encode(fields, huffman=False))
