"""The status of a call follows from the server's headers, trailers and codes by pure functions.

The tables are those of gRPC's `PROTOCOL-HTTP2.md` and `http-grpc-status-mapping.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from trxds.core.metadata import Headers, Metadata, decode, decode_binary, decode_message, find
from trxds.core.status import Status, StatusCode, from_http

from .content_type import CONTENT_TYPE, content_subtype
from .events import ErrorCode, code_name

_NO_GRPC = "check that a gRPC server listens there"
_NO_UPSTREAM = f"{_NO_GRPC}, and that proxies before it reach it"

_STATUS_CODES = {b"%d" % code: code for code in StatusCode}

# PROTOCOL-HTTP2, "Errors"; RFC 9113 §8.7.
_STATUS_CODES_OF_RST_STREAM: dict[int, StatusCode] = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}

# The codes of a server that gives up at the deadline: its own, and what nginx and nghttpx make of that.
_CODES_AT_DEADLINE = frozenset({ErrorCode.CANCEL, ErrorCode.INTERNAL_ERROR})

# The HTTP statuses of proxies that get no answer: Bad Gateway, Service Unavailable, Gateway Timeout.
_STATUSES_OF_PROXIES = frozenset({b"502", b"503", b"504"})

# RFC 9113 §8.2.1 forbids capitals, spaces, controls and non-ASCII. A colon is only for pseudo-header fields, of which a
# response has one: `:status`, once and before all others (§8.3).
_NAME = re.compile(rb"[!-9;-@\[-~]+\Z")

# Errors show a peer's header only if it has the form that it should have. Anything else may be a secret.
_SHOWN_NAME = re.compile(rb"[A-Za-z0-9_.:-]{1,40}\Z")
_NUMBER = re.compile(rb"[0-9]{1,10}\Z")
_MEDIA_TYPE = re.compile(rb"[a-z]{1,20}/[a-z0-9.+-]{1,60}\Z", re.IGNORECASE)


_Initial: TypeAlias = tuple[Status | None, Metadata, str]


class ResponseHeaderParser:
    """Reads the headers and trailers of one server; those that equal the last ones are not read again."""

    __slots__ = ("_initial", "_initial_read", "_peer", "_trailers", "_trailers_read")

    _initial_read: _Initial
    _trailers_read: tuple[Status, Metadata]

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._initial: Headers | None = None  # the last ones that were read
        self._trailers: Headers | None = None

    def initial(self, headers: Headers) -> _Initial:
        """Return the error in response headers, if any, their metadata, and the encoding of messages, if any."""
        if headers is not self._initial and headers != self._initial:
            problem, encoding = headers_error(headers, self._peer), find(headers, b"grpc-encoding") or b""
            self._initial, self._initial_read = headers, (problem, decode(headers), encoding.decode("latin-1"))
        return self._initial_read

    def trailers(self, headers: Headers) -> tuple[Status, Metadata]:
        """Return the status and the metadata that came with it."""
        if headers is not self._trailers and headers != self._trailers:
            self._trailers, self._trailers_read = headers, (trailers_status(headers, self._peer), decode(headers))
        return self._trailers_read


def headers_error(headers: Headers, peer: str) -> Status | None:
    """Return the error in response headers that are not gRPC's; None if they are."""
    problem = _name_error(headers, peer)
    if problem is not None:
        return problem
    http = find(headers, b":status")
    if http != b"200":
        return _http_error(http, headers, peer)
    return _content_type_error(headers, peer)


def _http_error(http: bytes | None, headers: Headers, peer: str) -> Status:
    """Return the status of response headers whose HTTP status is not 200."""
    # http-grpc-status-mapping.md: a grpc-status counts, as in trailers. grpc-java's server sends one beside 4xx.
    if http is not None and find(headers, b"grpc-status") is not None:
        status = trailers_status(headers, peer)
        if status.code is not StatusCode.OK:
            return status
    return _http_status(http, peer)


def trailers_status(headers: Headers, peer: str) -> Status:
    """Return the status in trailers, or in a trailers-only answer."""
    problem = _name_error(headers, peer)
    if problem is not None:
        return problem
    # Of several values the last one counts, as in grpc-go and the C++ client.
    fields = dict(headers)
    text = fields.get(b"grpc-status")
    if text is None:
        return _status_without_code(headers, peer)
    # PROTOCOL-HTTP2: it is one or more digits, so zeros may lead.
    code = _STATUS_CODES.get(text.lstrip(b"0") or text[:1])
    encoded = fields.get(b"grpc-message")
    message, details = decode_message(encoded) if encoded else "", _decode_details(fields)
    if code is not None:
        return Status(code, message, details)
    # A code that gRPC does not define counts as UNKNOWN, and the message stays, as in the C++ client and grpc-java.
    shown = f"grpc-status {text.decode()!r}" if _NUMBER.match(text) else "a grpc-status that is not a number"
    note = f"the server sent {shown}, which gRPC does not define"
    return Status(StatusCode.UNKNOWN, message or note, details, note if message else "")


def _name_error(headers: Headers, peer: str) -> Status | None:
    """Return the error in a header's name. HTTP/2 forbids such names, and they cannot become metadata."""
    for index, (name, _) in enumerate(headers):
        if not _NAME.match(name) and (index or name != b":status"):
            # A name is shown only if it looks like one: it might contain a value.
            shown = f"by the name {name!r}" if _SHOWN_NAME.match(name) else f"with a name of {len(name)} bytes"
            shown += ", twice or behind others" if name == b":status" else ""
            return Status(StatusCode.INTERNAL, f"{peer}: it sent a header {shown}, which HTTP/2 forbids")
    return None


def _content_type_error(headers: Headers, peer: str) -> Status | None:
    """Return the error in the content-type of an answer; None if it is gRPC's."""
    content_type = find(headers, b"content-type") or b""
    if content_type == CONTENT_TYPE or content_subtype(content_type) is not None:
        return None
    return Status(StatusCode.UNKNOWN, f"{peer}: the answer has {_describe_content_type(content_type)}; {_NO_GRPC}")


def _describe_content_type(content_type: bytes) -> str:
    """Describe a content-type without its parameters. It is quoted only in that form: other values may be secrets."""
    kind = content_type.partition(b";")[0].strip()
    if not kind:
        return "no content-type"
    return f"content-type {kind.decode()!r}" if _MEDIA_TYPE.match(kind) else "a malformed content-type"


def _status_without_code(headers: Headers, peer: str) -> Status:
    http = find(headers, b":status")
    # http-grpc-status-mapping.md: the HTTP status decides only where grpc-status is missing.
    if http is not None and http != b"200":
        return _http_status(http, peer)
    # With an HTTP status these are all of the answer's headers: a page without a body, perhaps.
    not_grpc = _content_type_error(headers, peer) if http is not None else None
    return not_grpc or Status(StatusCode.UNKNOWN, f"{peer}: the call was ended without grpc-status")


def _http_status(http: bytes | None, peer: str) -> Status:
    if http is None:
        return Status(StatusCode.INTERNAL, f"{peer}: the answer has no HTTP status")
    shown = f"HTTP status {http.decode()}" if _NUMBER.match(http) else "an HTTP status that is not a number"
    remedy = _NO_UPSTREAM if http in _STATUSES_OF_PROXIES else _NO_GRPC
    return Status(_http_code(http), f"{peer}: the answer has {shown}; {remedy}")


def _http_code(text: bytes) -> StatusCode:
    # RFC 9110 §15: it has three digits. Any other is malformed (RFC 9113 §8.1.1), as no status at all is.
    return from_http(int(text)) if text.isdigit() and len(text) == 3 else StatusCode.INTERNAL


def _decode_details(fields: Mapping[bytes, bytes]) -> bytes | None:
    text = fields.get(b"grpc-status-details-bin")
    return None if text is None else decode_binary(text)


def rst_stream_status(code: int, *, deadline_passed: bool, hint: str = "") -> Status:
    """Return the status of a call whose stream the server reset with this HTTP/2 error code; `hint` is the reason."""
    if code in _CODES_AT_DEADLINE and deadline_passed:
        # The server's timer fired a little before the caller's, for the same deadline.
        return Status(StatusCode.DEADLINE_EXCEEDED, "the server gave up at the deadline")
    status = _STATUS_CODES_OF_RST_STREAM.get(code, StatusCode.INTERNAL)
    return Status(status, f"the server reset the stream: {code_name(code)}{hint}")


def failed_status(problem: Status, headers: Sequence[tuple[bytes, bytes]], *, deadline_passed: bool) -> Status:
    """Return the status of a call that ended with `problem` and these headers or trailers."""
    # A server that gives up at the deadline is a 502 of nginx, or an end without a status of Caddy and HAProxy. What a
    # server says itself stands.
    if not deadline_passed or find(headers, b"grpc-status") is not None:
        return problem
    return Status(StatusCode.DEADLINE_EXCEEDED, f"the deadline has passed; {problem.message}")


NO_STATUS = Status(StatusCode.UNKNOWN, "the server ended the call without a status")

# gRPC's statuscodes.md: for a wrong number of responses the client itself makes UNIMPLEMENTED.
NO_REPLY = Status(StatusCode.UNIMPLEMENTED, "the server said OK, but sent no message")
SECOND_REPLY = Status(StatusCode.UNIMPLEMENTED, "the server sent a second message where the method has one")
