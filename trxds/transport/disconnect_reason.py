"""The metrics of A94 say why a connection ended in a fixed set of words."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType

SHUTDOWN = "subchannel shutdown"
TIMED_OUT = "connection timed out"
UNKNOWN = "unknown"

_BY_NUMBER: Mapping[int | None, str] = MappingProxyType(
    {
        errno.ECONNRESET: "connection reset",
        errno.ETIMEDOUT: TIMED_OUT,
        errno.ECONNABORTED: "connection aborted",
    }
)


def disconnect_reason(error: BaseException | None) -> str:
    """Return the word for the transport's error; None means that the peer closed the connection."""
    if error is None:
        return UNKNOWN
    # Trio's BrokenResourceError has the operating system's error as its cause.
    cause = error.__cause__ or error
    return _BY_NUMBER.get(getattr(cause, "errno", None), "socket error")
