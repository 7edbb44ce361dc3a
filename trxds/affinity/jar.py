"""The cookies of one session: name, path and Max-Age, as a browser keeps them (RFC 6265)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trxds.ground.metadata import is_value

from .cookie import path_matches

MOST = 50  # cookies; what RFC 6265 has a client keep at least


@dataclass(frozen=True, slots=True)
class _Kept:
    value: str
    expires: float  # seconds on the clock that `now` is read from


class CookieJar:
    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str], _Kept] = {}  # by name and path

    def take(self, header: str, now: float) -> None:
        """Keep what a Set-Cookie header says; Max-Age of 0 or less deletes the cookie.

        One that no request could carry is passed over, as browsers do: it would take all later calls with it.
        """
        pair, *attributes = header.split(";")
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not is_value(pair):
            return
        path, age = "", math.inf
        for attribute in attributes:
            key, _, its = attribute.partition("=")
            match key.strip().lower():
                case "path":
                    path = its.strip()
                case "max-age":
                    age = _seconds(its.strip(), age)
        key_ = (name.strip(), path)
        self._cookies.pop(key_, None)
        if age > 0 and self._has_room(now):
            self._cookies[key_] = _Kept(value.strip(), now + age)

    def _has_room(self, now: float) -> bool:
        """A full jar takes no new names: the one that keeps the session is the first to come, and has to stay."""
        if len(self._cookies) >= MOST:
            self._cookies = {key: kept for key, kept in self._cookies.items() if kept.expires > now}
        return len(self._cookies) < MOST

    def header(self, path: str, now: float) -> str:
        """The cookies for an RPC to that path, longest path first; empty if there are none."""
        live = [
            (len(prefix), f"{name}={kept.value}")
            for (name, prefix), kept in self._cookies.items()
            if kept.expires > now and path_matches(prefix, path)
        ]
        return "; ".join(text for _, text in sorted(live, key=lambda item: -item[0]))

    def __repr__(self) -> str:
        return f"<CookieJar {', '.join(name for name, _ in self._cookies) or 'empty'}>"


def _seconds(text: str, default: float) -> float:
    try:
        return float(int(text))
    except (ValueError, OverflowError):  # no number, or one of hundreds of digits
        return default
