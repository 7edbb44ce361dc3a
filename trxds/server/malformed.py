"""A server checks requests and trailers by the rules for header fields (RFC 9113 §8.2, §8.3).

A malformed request costs its stream and nothing else (§8.1.1). h2's own validation would end the connection, with every
other call on it, and its messages show values. The messages here name fields only: a value may be a secret.

One rule is left out: a value may begin or end with spaces. gRPC allows that in metadata (PROTOCOL-HTTP2).
"""

from __future__ import annotations

import re

from trxds.core.metadata import Headers

_NAME = re.compile(rb":?[!-9;-@\[-~]+\Z")  # §8.2.1: no controls, spaces, capitals or inner colons
_REGULAR_NAME = re.compile(rb"[!-9;-@\[-~]+\Z")
_NOT_IN_VALUE = re.compile(rb"[\0\r\n]")
_REQUEST_PSEUDO_FIELDS = frozenset((b":method", b":scheme", b":authority", b":path"))
_CONNECTION_SPECIFIC = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
_TE = (b"te", b"trailers")
_NOTHING: frozenset[bytes] = frozenset()


def malformed_request(headers: Headers) -> str | None:
    """Return what is wrong with a request's headers; None if nothing is."""
    return None if _is_usual_request(headers) else malformed_request_field(headers)


def _is_usual_request(headers: Headers) -> bool:
    """Return whether a request is as all gRPC clients make it, by one check of all fields: one by one is slow."""
    names = [name for name, _ in headers]
    return (
        frozenset(names[:4]) == _REQUEST_PSEUDO_FIELDS
        # A colon there would be a pseudo-header field behind others, or one too many (§8.3).
        and all(map(_REGULAR_NAME.match, names[4:]))
        and _CONNECTION_SPECIFIC.isdisjoint(names)
        # §8.2.2: "te" may only say "trailers"; other spellings are left to the check field by field.
        and names.count(b"te") == headers.count(_TE)
        # A41: "host" may come once, which the check field by field counts.
        and b"host" not in names
        and _NOT_IN_VALUE.search(b" ".join([value for _, value in headers])) is None
        and all([value for _, value in headers[:4]])
    )


def malformed_request_field(headers: Headers) -> str | None:
    """Return what is wrong with a request's headers, checked field by field; None if nothing is."""
    problem = _malformed_fields(headers, _REQUEST_PSEUDO_FIELDS)
    if problem is not None:
        return problem
    pseudo = {name: value for name, value in headers if name in _REQUEST_PSEUDO_FIELDS}
    if b":method" not in pseudo:
        return "it has no :method"
    # CONNECT has neither scheme nor path; gRPC refuses it later, but it is not malformed.
    needed = (b":authority",) if pseudo[b":method"] == b"CONNECT" else (b":scheme", b":path")  # §8.5
    for name in needed:
        if not pseudo.get(name):
            return f"it has no {name.decode()}"
    return None


def malformed_trailers(headers: Headers) -> str | None:
    """Return what is wrong with a request's trailers; None if nothing is."""
    return _malformed_fields(headers, _NOTHING)


def _malformed_fields(headers: Headers, pseudo_fields: frozenset[bytes]) -> str | None:
    seen: set[bytes] = set()  # fields that may come only once
    regular = False
    for name, value in headers:
        if name[:1] == b":":
            if name not in pseudo_fields:
                return f"the pseudo-header field {_quote(name)} does not belong here"
            if name in seen or regular:
                return f"{name.decode()} comes twice" if name in seen else f"{name.decode()} comes behind other fields"
            seen.add(name)
        else:
            regular = True
        problem = _malformed_field(name, value)
        if problem is not None:
            return problem
        if name == b"host":  # A41: with several values none can be trusted
            if name in seen:
                return "host comes twice"
            seen.add(name)
    return None


def _malformed_field(name: bytes, value: bytes) -> str | None:
    if not _NAME.match(name):
        return f"the field name {_quote(name)} has characters that names must not have"
    if _NOT_IN_VALUE.search(value):
        return f"the value of {_quote(name)} has a NUL, CR or LF"
    if name in _CONNECTION_SPECIFIC:
        return f"{name.decode()} is of HTTP/1"
    if name == b"te" and value.lower() != b"trailers":
        return "te is not trailers"
    return None


def _quote(name: bytes) -> str:
    return repr(name[:80].decode("latin-1"))
