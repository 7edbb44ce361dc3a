"""`trxds cookie`: the content of a session cookie, for people.

Clients ignore a cookie that they cannot use, because it may come from anywhere. Somebody who asks about one wants to
know what is wrong with it. So the command refuses a cookie without an address, and says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from trxds.session_affinity.cookie import MAX_HOSTS, MAX_SIZE, NO_ADDRESS, SessionCookie, decode

from .call.printable import printable

_UNNAMED = "not named, so the draw of a route with several clusters decides"
_FORMS = "write the value as in Set-Cookie, without the attributes behind it: base64 of ip:port[,ip:port...];cluster"
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


class ReadCookie(Struct, frozen=True):
    """The content of a cookie. `expires` is in seconds since 1970, infinite if not stated; `cluster` may be empty.

    `unused` are the `addresses` that calls do not use. `usable` is false if they use none: the cookie has expired.
    """

    addresses: tuple[str, ...]
    cluster: str
    expires: float
    usable: bool
    unused: tuple[str, ...]


def read_cookie(value: str, now: float) -> ReadCookie:
    """Read a cookie's value, or `name=value`, at `now` seconds since 1970.

    `ValueError` says why it names no host, and does not show it: it may be another program's secret.
    """
    rest = value.partition("=")[2]
    # A value may itself end in =, the padding of base64, and be in quotes.
    start = len(value) - len(rest) if rest.strip('="') else 0
    read = decode(value[start:])
    if read is None or not read.names_host:
        raise ValueError(f"{_why_none(value, start, read)}; {_FORMS}")
    addresses = tuple(read.addresses.split(","))
    hosts = read.hosts  # the first ones, with another text in place of each that is no address
    unused = tuple(each for number, each in enumerate(addresses) if number >= MAX_HOSTS or hosts[number] == NO_ADDRESS)
    return ReadCookie(addresses, read.cluster, read.expires, read.expires >= now, unused)


def _why_none(value: str, start: int, read: SessionCookie | None) -> str:
    text = value[start:].strip().strip('"')
    if not text:
        return "it is empty"
    if len(value) - start > MAX_SIZE:
        return f"clients read {MAX_SIZE} characters of a value at most"
    first = value.index(text, start)
    # In all of the value, whose characters the reader counts.
    if (wrong := _NO_BASE64.search(value, first, first + len(text))) is not None:
        return f"it is not base64, which has no {wrong[0]!r} (character {wrong.start() + 1})"
    if read is None:
        return "it is not base64, or a part of it is missing: its length, or the '=' in it, does not fit"
    if "\ufffd" in read.addresses:
        return "it is base64 of bytes that are no text"
    cluster = ", and clients use its cluster alone" if read.cluster else ""
    return f"it is base64 of a text without an address ip:port or unix:path{cluster}"


def as_lines(cookie: ReadCookie) -> Iterator[str]:
    # It may be any program's cookie: no text of it may begin a line, or be obeyed by a terminal.
    yield f"hosts: {_list(cookie.addresses)}"
    yield f"cluster: {printable(cookie.cluster, keep='') or _UNNAMED}"
    if not math.isinf(cookie.expires):
        yield f"expires: {_date(cookie.expires)}{'' if cookie.usable else '; it has expired, so calls do not use it'}"
    beyond = len(cookie.addresses[MAX_HOSTS:])
    if wrong := cookie.unused[: len(cookie.unused) - beyond]:
        yield f"not used: {_list(wrong)}, as an address is ip:port or unix:path"
    if beyond:
        last = "the last address" if beyond == 1 else f"the last {beyond} addresses"
        yield f"not used: {last}, as clients read {MAX_HOSTS} of a cookie"


def _list(addresses: tuple[str, ...]) -> str:
    return ", ".join(printable(each, keep="") or "(empty)" for each in addresses)


def _date(epoch: float) -> str:
    try:
        return datetime.fromtimestamp(epoch, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # Envoy's field has 64 bits, of which a date takes 38
        return f"after the year 9999 ({int(epoch)} s since 1970)"
