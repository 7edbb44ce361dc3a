"""The error code of a RST_STREAM decides the status of its call (PROTOCOL-HTTP2, "Errors"; RFC 9113 §8.7)."""

from __future__ import annotations

from trxds.core.status import Status, StatusCode

from .events import ErrorCode, code_name

_STATUS_CODES: dict[int, StatusCode] = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}


def rst_stream_status(code: int, *, deadline_passed: bool) -> Status:
    """Return the status of a call whose stream the server reset with this HTTP/2 error code."""
    if code == ErrorCode.CANCEL and deadline_passed:
        # The server's timer fired a little before the caller's, for the same deadline.
        return Status(StatusCode.DEADLINE_EXCEEDED, "the server gave up at the deadline")
    return Status(_STATUS_CODES.get(code, StatusCode.INTERNAL), f"the server reset the stream: {code_name(code)}")


def is_refused(code: int) -> bool:
    """Return whether the server says that it processed nothing of the request, so that the call may be sent again."""
    return code == ErrorCode.REFUSED_STREAM
