"""`trxds cookie`: the content of a session cookie, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from trxds.session_affinity.cookie import decode

from .call.printable import printable

_UNNAMED = "not named, so the draw of a route with several clusters decides"


class ReadCookie(Struct, frozen=True):
    """The content of a cookie. `expires` is in seconds since 1970, infinite if not stated; `cluster` may be empty.

    `unused` are the `addresses` that calls do not use; `usable` is false if calls use none of them.
    """

    addresses: tuple[str, ...]
    cluster: str
    expires: float
    usable: bool
    unused: tuple[str, ...]


def read_cookie(value: str) -> ReadCookie | None:
    """Read a cookie's value, or `name=value`. Return None if it is no session cookie."""
    rest = value.partition("=")[2]
    # A value may itself end in =, the padding of base64, and be in quotes.
    read = decode(rest if rest.strip('="') else value)
    if read is None:
        return None
    addresses = tuple(read.addresses.split(","))
    unused = tuple(each for each in addresses if each not in read.hosts)
    return ReadCookie(addresses, read.cluster, read.expires, read.names_host, unused)


def as_lines(cookie: ReadCookie) -> Iterator[str]:
    # It may be any program's cookie: no text of it may begin a line, or be obeyed by a terminal.
    yield f"hosts: {printable(', '.join(cookie.addresses), keep='')}"
    yield f"cluster: {printable(cookie.cluster, keep='') or _UNNAMED}"
    if not math.isinf(cookie.expires):
        yield f"expires: {_date(cookie.expires)}"
    if not cookie.usable:
        yield "not used: no address is ip:port or unix:path, so calls may go to any host"
    elif cookie.unused:
        yield f"not used: {printable(', '.join(cookie.unused), keep='')}, as an address is ip:port or unix:path"


def _date(epoch: float) -> str:
    try:
        return datetime.fromtimestamp(epoch, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # Envoy's field has 64 bits, of which a date takes 38
        return f"after the year 9999 ({int(epoch)} s since 1970)"
