"""A cookie's `Expires` is parsed as browsers do (RFC 6265 §5.1.1), not by the standard library.

`http.cookiejar` takes 01-Jan-70, by which servers delete cookies, for 2070.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DELIMITERS = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[^0-9].*)?")
_DAY = re.compile(r"([0-9]{1,2})(?:[^0-9].*)?")
_YEAR = re.compile(r"([0-9]{2,4})(?:[^0-9].*)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def parse_cookie_date(text: str) -> float | None:
    """Return the date in seconds since 1970, or None if it is none. The time zone is ignored: it is always UTC."""
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
