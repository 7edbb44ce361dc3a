"""The metrics of A94 say why a connection ended in a fixed set of words."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType

from .events import ErrorCode

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


_CODES = frozenset(ErrorCode)


def goaway_reason(code: int) -> str:
    """Return the words for a GOAWAY with this error code."""
    # A94 has the codes of the RFC. Of others there are billions, and each would be one more series of the metrics.
    # RFC 9113 §7: they may be treated as INTERNAL_ERROR.
    return f"GOAWAY {ErrorCode(code if code in _CODES else ErrorCode.INTERNAL_ERROR).name}"


def disconnect_reason(error: BaseException | None) -> str:
    """Return the word for the transport's error; None means that the peer closed the connection."""
    if error is None:
        return UNKNOWN
    # Trio's BrokenResourceError has the operating system's error as its cause.
    cause = error.__cause__ or error
    return _BY_NUMBER.get(getattr(cause, "errno", None), "socket error")
