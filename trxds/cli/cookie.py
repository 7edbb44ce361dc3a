"""`trxds cookie`: the content of a session cookie, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from trxds.session_affinity.cookie import decode

_UNNAMED = "not named, so the draw of a route with several clusters decides"


class ReadCookie(Struct, frozen=True):
    """The content of a cookie. `expires` is in seconds since 1970, infinite if not stated; `cluster` may be empty."""

    addresses: tuple[str, ...]
    cluster: str
    expires: float
    usable: bool


def read_cookie(value: str) -> ReadCookie | None:
    """Read a cookie's value, or `name=value`. Return None if it is no session cookie."""
    name, equals, rest = value.partition("=")
    # A value may itself end in =, the padding of base64.
    read = decode(rest) if equals and rest.strip("=") and name.isidentifier() else decode(value)
    if read is None:
        return None
    return ReadCookie(tuple(read.addresses.split(",")), read.cluster, read.expires, read.is_list_of_hosts)


def as_lines(cookie: ReadCookie) -> Iterator[str]:
    yield f"hosts: {', '.join(cookie.addresses)}"
    yield f"cluster: {cookie.cluster or _UNNAMED}"
    if not math.isinf(cookie.expires):
        yield f"expires: {_date(cookie.expires)}"
    if not cookie.usable:
        yield "not used: not every address is an ip:port or a unix:path, so calls are balanced as if they had no cookie"


def _date(epoch: float) -> str:
    try:
        return datetime.fromtimestamp(epoch, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # Envoy's field has 64 bits, of which a date takes 38
        return f"after the year 9999 ({int(epoch)} s since 1970)"
