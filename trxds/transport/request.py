"""A call begins with the headers of its request."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct, field

from trxds.core.metadata import Headers
from trxds.core.observe import AttemptObserver
from trxds.core.status import Status, StatusCode
from trxds.core.version import VERSION

from .compression import ACCEPTED
from .engine import Fields
from .grpc_timeout import encode_timeout
from .header_blocks import list_size

USER_AGENT = f"grpc-python-trxds/{VERSION}".encode()
MAX_RECEIVE_SIZE = 4 * 1024 * 1024

_MAX_CACHED_METHODS = 1024
# Bytes that the headers other than metadata stay below, unless path or authority are very long.
_MAX_OTHER_HEADERS = 4096
_NOTHING: Headers = []


class Request(Struct, eq=False):
    """One attempt of a call, before it has a stream.

    `metadata` is encoded for the wire. `deadline` is on Trio's clock. `on_headers` is called by the connection's
    reading task when the server's headers commit the call, which a trailers-only answer does not; it is plain and does
    not raise. A received message above `max_receive_size` bytes ends the stream with RESOURCE_EXHAUSTED. `message` is
    the only message of the request, if that is known: it leaves with the headers. `observer`, if any, is told of the
    messages. With `one_reply` the server has to send exactly one message before OK. With `overrides_authority` the
    peer's certificate has to prove the authority, which is not the channel's (A81).
    """

    path: str
    authority: str
    metadata: Headers = field(default_factory=list)
    deadline: float = math.inf
    on_headers: Callable[[], None] | None = None
    max_receive_size: int = MAX_RECEIVE_SIZE
    message: bytes | None = None
    observer: AttemptObserver | None = None
    one_reply: bool = False
    overrides_authority: bool = False

    def __repr__(self) -> str:
        return f"<Request {self.path} to {self.authority}>"  # metadata and message may be secrets

    def timeout(self, now: float) -> Headers:
        """Return the remaining time as a header; no header if there is no deadline."""
        if self.deadline == math.inf:
            return []
        return [(b"grpc-timeout", encode_timeout(self.deadline - now))]


class RequestHeaders:
    """The headers of calls on one connection: those common to a method, and the peer's limit on their size."""

    def __init__(self, peer: str, scheme: bytes, user_agent: str = "") -> None:
        """`user_agent` is the application's, and follows trxds's own, as gRPC's `grpc.secondary_user_agent` does."""
        self.limit = math.inf
        """The peer's SETTINGS_MAX_HEADER_LIST_SIZE, which `list_size` is compared with."""
        self._peer = peer
        self._scheme = scheme
        self._user_agent = b"%s %s" % (USER_AGENT, user_agent.encode()) if user_agent else USER_AGENT
        self._cached_fields: dict[tuple[str, str], Fields] = {}
        self._last_accepted = _NOTHING  # the last metadata that was within the limit

    def fields(self, path: str, authority: str) -> Fields:
        """Return the fields that every call of a method has in common, made once for each method."""
        fields = self._cached_fields.get((path, authority))
        if fields is None:
            if len(self._cached_fields) >= _MAX_CACHED_METHODS:
                self._cached_fields.clear()
            fields = self._cached_fields[path, authority] = self._make(path, authority)
        return fields

    def _make(self, path: str, authority: str) -> Fields:
        return (
            # RFC 9113 §8.3: pseudo-header fields come first.
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", path.encode()),
            (b":authority", authority.encode()),
            # PROTOCOL-HTTP2: it shows proxies that drop trailers.
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"grpc-accept-encoding", ACCEPTED),
            (b"user-agent", self._user_agent),
        )

    def set_limit(self, limit: float) -> None:
        """Set the limit that the peer's SETTINGS name."""
        self.limit, self._last_accepted = limit, _NOTHING

    def size_error(self, request: Request, now: float) -> Status | None:
        """Return why the request cannot be sent, if its headers are larger than the peer takes."""
        if request.metadata is self._last_accepted:
            return None
        size, limit = list_size(request.metadata), self.limit
        if size <= limit - _MAX_OTHER_HEADERS:
            if size <= _MAX_OTHER_HEADERS:  # large metadata should not outlive its call
                self._last_accepted = request.metadata
            return None
        size += list_size([*self.fields(request.path, request.authority), *request.timeout(now)])
        if size <= limit:
            return None
        text = f"{self._peer}: headers of {size} bytes are more than the {limit} that it takes; send less metadata"
        return Status(StatusCode.RESOURCE_EXHAUSTED, text)
