"""The cookies of one session: name, path, Max-Age and Expires, as a browser keeps them (RFC 6265)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from trxds.core.metadata import is_value

from .cookie import MAX_SIZE, path_matches
from .cookie_date import parse_cookie_date

MAX_COOKIES = 50  # cookies; what RFC 6265 has a client keep at least
MAX_ATTRIBUTE_SIZE = 1024  # characters of an attribute's value; a longer one is passed over, as by browsers

_AGE = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class _Kept:
    value: str = field(repr=False)
    expires: float  # seconds on the clock that `now` is read from


class CookieJar:
    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str], _Kept] = {}  # by name and path

    def take(self, header: str, now: float, epoch: float) -> None:
        """Keep what a Set-Cookie header says; a cookie whose time is over is deleted.

        `now` is on the clock of `header`, `epoch` the same moment in seconds since 1970, for `Expires`. A cookie that
        no request could carry, or that is too large, is passed over, as browsers do: it would take all later calls
        with it.
        """
        pair, *attributes = header.split(";")
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or len(pair) > MAX_SIZE or not is_value(pair):
            return
        path, age = _scope(attributes, epoch)
        key = (name.strip(), path)
        self._cookies.pop(key, None)
        if age > 0 and self._has_room(now):
            self._cookies[key] = _Kept(value.strip(), now + age)

    def _has_room(self, now: float) -> bool:
        """A full jar takes no new names: the one that keeps the session is the first to come, and has to stay."""
        if len(self._cookies) >= MAX_COOKIES:
            self._cookies = {key: kept for key, kept in self._cookies.items() if kept.expires > now}
        return len(self._cookies) < MAX_COOKIES

    def header(self, path: str, now: float) -> str:
        """The cookies for an RPC to that path, longest path first; empty if there are none."""
        live = [
            (len(prefix), f"{name}={kept.value}")
            for (name, prefix), kept in self._cookies.items()
            if kept.expires > now and path_matches(prefix, path)
        ]
        return "; ".join(text for _, text in sorted(live, key=lambda item: -item[0]))

    def live(self, now: float) -> list[tuple[str, str, str]]:
        """Return name, path and value of each cookie whose time is not over. The values are credentials."""
        # A copy: a thread may ask (`trxds.sync`) while Trio's thread takes a cookie.
        return [(*key, kept.value) for key, kept in dict(self._cookies).items() if kept.expires > now]

    def __repr__(self) -> str:
        return f"<CookieJar {', '.join(name for name, _ in self._cookies) or 'empty'}>"


def _scope(attributes: list[str], epoch: float) -> tuple[str, float]:
    """For which paths a cookie is, and for how many seconds from now. Max-Age wins over Expires (RFC 6265 §5.3)."""
    path, age, expires = "", None, math.inf
    for attribute in attributes:
        key, _, value = (part.strip() for part in attribute.partition("="))
        if len(value) > MAX_ATTRIBUTE_SIZE:
            continue
        match key.lower():
            case "path":
                path = value
            case "max-age" if _AGE.fullmatch(value):
                age = float(value)  # infinite for hundreds of digits
            case "expires" if (date := parse_cookie_date(value)) is not None:
                expires = date - epoch
    return path, expires if age is None else age
