"""A cookie jar keeps the cookies of one session as a browser does: by name and path, until they expire (RFC 6265)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import ClassVar

from msgspec import structs

from trxds.core.metadata import is_value
from trxds.core.redacted_struct import RedactedStruct

from .cookie import MAX_SIZE, decode_hosts, path_matches
from .session_hosts import CookieKey

MAX_COOKIES = 50  # RFC 6265 §6.1: a client keeps at least 50 per domain
MAX_JAR_SIZE = 8192  # characters of all names and values: servers commonly take so much as one header
MAX_ATTRIBUTE_SIZE = 1024  # characters of an attribute's value; a longer one is ignored, as by browsers

_AGE = re.compile(r"-?[0-9]+")


class ReceivedCookie(RedactedStruct, frozen=True):
    """A cookie as a response brings it; `age` is the seconds that it lasts, 0 or less to delete it."""

    redacted: ClassVar[frozenset[str]] = frozenset({"value"})
    key: CookieKey
    value: str
    age: float


class _StoredCookie(RedactedStruct, frozen=True):
    redacted: ClassVar[frozenset[str]] = frozenset({"value"})
    value: str
    expires: float  # in seconds on the clock of `now`
    age: float = math.inf  # the seconds that it lasts
    is_foreign: bool = False  # an application's own, and no session filter's


class CookieJar:
    """The cookies of one session, at most `MAX_COOKIES` and `MAX_JAR_SIZE`. It reads no clock: times are arguments."""

    def __init__(self) -> None:
        self._cookies: dict[CookieKey, _StoredCookie] = {}

    def store(self, received: ReceivedCookie, now: float) -> bool:
        """Store a cookie that came at `now`, or delete it if it has expired; return whether the jar has it now."""
        kept = self._cookies.get(received.key)
        # RFC 6265 §5.3: a new value keeps the age of the cookie and so its place in the header, unless that expired.
        if kept is None or kept.expires <= now or received.age <= 0:
            self._cookies.pop(received.key, None)
            if received.age <= 0:
                return False
        is_foreign = decode_hosts(received.value) is None
        self._cookies[received.key] = _StoredCookie(received.value, now + received.age, received.age, is_foreign)
        self._make_room(now)
        return received.key in self._cookies

    def renew(self, key: CookieKey, now: float) -> None:
        """Let the cookie's time begin at `now`, as if it had just come."""
        kept = self._cookies.get(key)
        if kept is not None:
            self._cookies[key] = structs.replace(kept, expires=now + kept.age)

    def restore(self, key: CookieKey, value: str, expires: float) -> None:
        """Put a cookie back that a jar has had, until `expires`, on the clock of `store`'s `now`."""
        self._cookies[key] = _StoredCookie(value, expires)

    def remove(self, key: CookieKey) -> None:
        """Remove the cookie, if there is one."""
        self._cookies.pop(key, None)

    def copy(self) -> CookieJar:
        """Return a jar with the same cookies; neither sees what the other stores later."""
        jar = CookieJar()
        jar._cookies.update(self._cookies)
        return jar

    def take_changes(self, changed: CookieJar, since: CookieJar) -> None:
        """Take the cookies that `changed` has got after it was copied from `since`."""
        for key, kept in changed._cookies.items():
            if since._cookies.get(key) is not kept:
                self._cookies[key] = kept
        self._make_room(-math.inf)

    def _make_room(self, now: float) -> None:
        """Remove expired cookies of a jar that is too full, then the youngest ones, foreign ones first.

        The session filter's cookie comes after those of the server, and without it the session would have no host.
        """
        if not self._is_too_full:
            return
        self._cookies = {key: kept for key, kept in self._cookies.items() if kept.expires > now}
        while self._is_too_full:
            foreign = [key for key, kept in self._cookies.items() if kept.is_foreign]
            del self._cookies[(foreign or list(self._cookies))[-1]]

    @property
    def _is_too_full(self) -> bool:
        if len(self._cookies) > MAX_COOKIES:
            return True
        # As in a request, where "; " stands between cookies.
        return sum(len(key.name) + len(kept.value) + 3 for key, kept in self._cookies.items()) > MAX_JAR_SIZE

    def header(self, path: str, now: float) -> str:
        """Return the Cookie header of an RPC to `path`, longest cookie path first (RFC 6265 §5.4), or an empty text."""
        live = [
            (len(prefix), f"{name}={kept.value}")
            for (name, prefix), kept in self._cookies.items()
            if kept.expires > now and path_matches(prefix, path)
        ]
        return "; ".join(text for _, text in sorted(live, key=lambda pair: -pair[0]))

    def expiry(self, keys: Iterable[CookieKey]) -> float:
        """Return when the first of these cookies expires; infinite if none does."""
        return min((self._cookies[key].expires for key in keys if key in self._cookies), default=math.inf)

    def live(self, now: float) -> list[tuple[CookieKey, str]]:
        """Return key and value of each cookie whose time is not over. The values are credentials."""
        return [(key, value) for key, value, _ in self.remaining(now)]

    def remaining(self, now: float) -> list[tuple[CookieKey, str, float]]:
        """Return key, value and remaining seconds of each cookie whose time is not over."""
        # A copy: a thread may ask (`trxds.sync`) while Trio's thread takes a cookie.
        kept = dict(self._cookies).items()
        return [(key, each.value, each.expires - now) for key, each in kept if each.expires > now]

    def __repr__(self) -> str:
        return f"<CookieJar {', '.join(name for name, _ in self._cookies) or 'empty'}>"


def parse_set_cookie(header: str, epoch: float) -> ReceivedCookie | None:
    """Return the cookie of a Set-Cookie header that came at `epoch`, in seconds since 1970, for `Expires`.

    None for a cookie that is too large or that no request could carry, which browsers ignore too: with it all later
    calls would fail.
    """
    pair, *attributes = header.split(";")
    name, equals, value = pair.partition("=")
    if not equals or not name.strip() or len(pair) > MAX_SIZE or not is_value(pair):
        return None
    path, age = _parse_attributes(attributes, epoch)
    return ReceivedCookie(CookieKey(name.strip(), path), value.strip(), age)


def _parse_attributes(attributes: list[str], epoch: float) -> tuple[str, float]:
    """Return a cookie's path and its remaining seconds. Max-Age wins over Expires (RFC 6265 §5.3)."""
    path, age, expires = "", None, math.inf
    for attribute in attributes:
        key, _, value = (part.strip() for part in attribute.partition("="))
        if len(value) > MAX_ATTRIBUTE_SIZE:
            continue
        match key.lower():
            case "path":
                path = value if value.startswith("/") else ""  # RFC 6265 §5.2.4: else the default, which is all paths
            case "max-age" if _AGE.fullmatch(value):
                age = float(value)  # infinite for hundreds of digits
            case "expires" if (date := parse_cookie_date(value)) is not None:
                expires = date - epoch
    return path, expires if age is None else age


# -- dates

_DELIMITERS = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[^0-9].*)?")
_DAY = re.compile(r"([0-9]{1,2})(?:[^0-9].*)?")
_YEAR = re.compile(r"([0-9]{2,4})(?:[^0-9].*)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def parse_cookie_date(text: str) -> float | None:
    """Return an `Expires` in seconds since 1970, or None if it is no date. The time zone is ignored: it is always UTC.

    It is parsed as browsers do (RFC 6265 §5.1.1), not by the standard library: `http.cookiejar` takes 01-Jan-70, by
    which servers delete cookies, for 2070.
    """
    time = day = month = year = None
    for token in _DELIMITERS.split(text):
        if time is None and (found := _TIME.fullmatch(token)):
            time = [int(part) for part in found.groups()]
        elif day is None and (found := _DAY.fullmatch(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.fullmatch(token)):
            year = _full_year(int(found[1]))
    if time is None or day is None or month is None or year is None or year < 1601:
        return None
    try:
        return datetime(year, month, day, time[0], time[1], time[2], tzinfo=UTC).timestamp()
    except ValueError:  # no such day, hour, minute or second
        return None


def _full_year(year: int) -> int:
    # RFC 6265 §5.1.1, steps 3 and 4.
    if 70 <= year <= 99:
        return year + 1900
    return year + 2000 if year <= 69 else year
