"""What a call says first: the request's headers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trxds.ground.metadata import Headers, encode_timeout
from trxds.ground.observe import AttemptObserver

from .compression import ACCEPTED
from .engine import Fields

USER_AGENT = b"grpc-python-trxds/0.1.0"
MAX_RECEIVE_SIZE = 4 * 1024 * 1024

_KEPT_METHODS = 1024


@dataclass(slots=True)
class Request:
    """One attempt of a call, before it has a stream.

    `metadata` is encoded for the wire. `deadline` is on Trio's clock. `on_headers` is called by
    whoever reads the connection when the server's headers commit the call, which a trailers-only answer
    does not; it is plain and does not raise. A received message above `max_receive_size` bytes ends
    the stream with RESOURCE_EXHAUSTED. `message` is the whole of what the caller has to say, if that is
    known: it leaves with the headers. `observer`, if any, is told of the messages. With `one_reply` the server has
    to send exactly one message before OK.
    """

    path: str
    authority: str
    metadata: Headers = field(default_factory=list, repr=False)
    deadline: float = math.inf
    on_headers: Callable[[], None] | None = None
    max_receive_size: int = MAX_RECEIVE_SIZE
    message: bytes | None = field(default=None, repr=False)
    observer: AttemptObserver | None = None
    one_reply: bool = False

    def timeout(self, now: float) -> Headers:
        """The time that is left, as a header; nothing if there is no deadline."""
        if self.deadline == math.inf:
            return []
        return [(b"grpc-timeout", encode_timeout(self.deadline - now))]


class FixedFields:
    """The header fields that every call of a method has in common, made once for each on a connection."""

    __slots__ = ("_known", "_scheme")

    def __init__(self, scheme: bytes) -> None:
        self._scheme = scheme
        self._known: dict[tuple[str, str], Fields] = {}

    def __call__(self, path: str, authority: str) -> Fields:
        fields = self._known.get((path, authority))
        if fields is None:
            if len(self._known) >= _KEPT_METHODS:
                self._known.clear()
            fields = self._known[path, authority] = self._make(path, authority)
        return fields

    def _make(self, path: str, authority: str) -> Fields:
        return (
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", path.encode()),
            (b":authority", authority.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"grpc-accept-encoding", ACCEPTED),
            (b"user-agent", USER_AGENT),
        )
