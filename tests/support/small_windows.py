"""Small windows, and a message with its prefix."""

from __future__ import annotations

from trxds.transport.options import WireOptions

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
SMALL = WireOptions(stream_window=10_000, connection_window=65_535, max_frame=16_384, unsent_bound=5_000)


def prefixed(size: int) -> bytes:
    return b"\0" + size.to_bytes(4) + bytes(size)
