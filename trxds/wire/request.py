"""What a call says first: the request's headers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trxds.ground.metadata import Headers, encode_timeout

USER_AGENT = b"grpc-python-trxds/0.1.0"
MAX_RECEIVE_SIZE = 4 * 1024 * 1024


@dataclass(slots=True)
class Request:
    """One attempt of a call, before it has a stream.

    `metadata` is encoded for the wire. `deadline` is on Trio's clock. `on_headers` is called by
    the connection's reader when the server's headers commit the call, which a trailers-only answer
    does not; it is plain and does not raise. A received message above `max_receive_size` bytes ends
    the stream with RESOURCE_EXHAUSTED.
    """

    path: str
    authority: str
    metadata: Headers = field(default_factory=list)
    deadline: float = math.inf
    on_headers: Callable[[], None] | None = None
    max_receive_size: int = MAX_RECEIVE_SIZE

    def headers(self, scheme: bytes = b"http") -> Headers:
        """All that goes out in HEADERS but the timeout, which depends on when that is."""
        return [
            (b":method", b"POST"),
            (b":scheme", scheme),
            (b":path", self.path.encode()),
            (b":authority", self.authority.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", USER_AGENT),
            *self.metadata,
        ]

    def timeout(self, now: float) -> Headers:
        """The time that is left, as a header; nothing if there is no deadline."""
        if self.deadline == math.inf:
            return []
        return [(b"grpc-timeout", encode_timeout(self.deadline - now))]
