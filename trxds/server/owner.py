"""The connection of a server's stream, as far as its streams know it."""

from __future__ import annotations

from typing import Protocol

from trxds.core.metadata import Headers
from trxds.transport.http2_connection import Http2Connection


class StreamOwner(Protocol):
    """What a call, or a plain answer, asks of its connection."""

    max_receive_size: int

    @property
    def http2(self) -> Http2Connection: ...

    def send_headers(self, stream_id: int, headers: Headers, *, end: bool = False) -> None:
        """Send headers or trailers, behind what the stream has sent."""

    def forget(self, stream_id: int) -> None:
        """The stream is over."""

    def call_served(self) -> None:
        """A call has ended with a status."""

    def count_reset(self) -> None:
        """The client has reset a call before it was answered."""
