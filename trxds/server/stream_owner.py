"""A server's streams know their connection by this protocol."""

from __future__ import annotations

from typing import Protocol

from trxds.core.metadata import Headers
from trxds.transport.http2_connection import Http2Connection


class StreamOwner(Protocol):
    """The connection of a call, or of a plain answer."""

    max_receive_size: int

    @property
    def http2(self) -> Http2Connection: ...

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers, behind the data that the stream has sent."""

    def forget(self, stream_id: int) -> None:
        """Remove a stream that has ended."""

    def call_served(self) -> None:
        """Count a call that has ended with a status."""

    def count_reset(self) -> None:
        """Count a call that the client has reset before it was answered."""
