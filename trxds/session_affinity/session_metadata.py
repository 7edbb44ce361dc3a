"""`SessionMetadata` has the cookies and session headers of a session: its calls send them, their responses set them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import trio

from trxds.core.metadata import EMPTY, Metadata, Value, is_value
from trxds.lb.pick import PickArgs

from . import cookie
from .cookie_jar import CookieJar, parse_set_cookie
from .session_hosts import CookieKey, SessionHost, hosts_of
from .session_token import MAX_EXPIRY, SessionToken, TokenCookie, portable

IsStale = Callable[[CookieKey], bool]


class SessionMetadata:
    """A cookie jar, and the headers of session filters that use a header of their own.

    `epoch` returns seconds since 1970, for the `Expires` of cookies.
    """

    def __init__(self, epoch: Callable[[], float]) -> None:
        self.epoch = epoch
        self._jar = CookieJar()
        self._headers: dict[str, str] = {}
        # The last arguments and result of `fill`: a session's calls often have equal ones.
        self._last_filled = EMPTY, "", EMPTY

    def fill(self, metadata: Metadata, path: str) -> Metadata:
        """Return the call's metadata with one Cookie header: the jar's cookies, then the caller's own."""
        # The caller's own header wins: it may come from an outer request.
        kept = [(name, value) for name, value in self._headers.items() if metadata.first(name) is None]
        metadata = Metadata((*metadata, *kept)) if kept else metadata
        cookies = self._jar.header(path, trio.current_time())
        if not cookies:
            return metadata
        last_metadata, last_cookies, filled = self._last_filled
        if metadata is not last_metadata or cookies != last_cookies:
            # A request has one Cookie header at most (RFC 6265 §5.4).
            own = [value for value in metadata.all("cookie") if isinstance(value, str)]
            rest = [(key, value) for key, value in metadata if key != "cookie"]
            filled = Metadata((*rest, ("cookie", "; ".join((cookies, *own)))))
            self._last_filled = metadata, cookies, filled
        return filled

    @property
    def header_names(self) -> Collection[str]:
        """Return the names of the session headers, in lower case."""
        return self._headers.keys()

    def store(
        self, set_cookies: Iterable[Value], metadata: Metadata, call: PickArgs, is_stale: IsStale
    ) -> list[tuple[CookieKey, str]]:
        """Store the cookies and session headers of a response, and return them; leave out those that are stale."""
        stored = []
        for header in set_cookies:
            received = parse_set_cookie(header, self.epoch()) if isinstance(header, str) else None
            if received is None or is_stale(received.key):
                continue
            if self._jar.store(received, trio.current_time()):
                stored.append((received.key, received.value))
        for name in call.session_headers:
            value, key = metadata.first(name), CookieKey(name, "")
            if not isinstance(value, str) or is_stale(key):
                continue
            # A header that no request may have would fail all later calls.
            if len(value) <= cookie.MAX_SIZE and is_value(value):
                self._headers[name] = value
                stored.append((key, value))
        return stored

    def hosts(self, now: float, cluster: str) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie or header names; `cluster` is that of the session's host."""
        cookies = self._jar.live(now)
        # A copy, as in the jar: a thread may ask (`trxds.sync`).
        cookies += [(CookieKey(name, ""), value) for name, value in dict(self._headers).items()]
        return hosts_of(cookies, cluster)

    def expiry(self, keys: Iterable[CookieKey]) -> float:
        """Return when the first of these cookies expires, on Trio's clock; infinite if none does."""
        return self._jar.expiry(keys)

    def remove(self, key: CookieKey) -> None:
        """Remove a cookie or header."""
        self._jar.remove(key)
        self._headers.pop(key.name, None)

    def renew(self, key: CookieKey) -> None:
        """Let a cookie's time begin now."""
        self._jar.renew(key, trio.current_time())

    def copy(self) -> SessionMetadata:
        """Return the same cookies and headers; neither sees what the other stores later."""
        made = SessionMetadata(self.epoch)
        made._jar, made._headers = self._jar.copy(), dict(self._headers)
        return made

    def take_changes(self, changed: SessionMetadata, since: SessionMetadata) -> None:
        """Take what `changed` has got after it was copied from `since`."""
        self._jar.take_changes(changed._jar, since._jar)
        self._headers |= {name: value for name, value in changed._headers.items() if since._headers.get(name) != value}

    # -- in another process

    def export(self, target: str, now: float, keys: Collection[CookieKey]) -> SessionToken:
        """Return what another process needs to continue the session: of the cookies only those of `keys`."""
        epoch = self.epoch()
        cookies = tuple(
            TokenCookie(key.name, key.path, value, round(epoch + left, 3) if epoch + left < MAX_EXPIRY else None)
            for key, value, left in self._jar.remaining(now)
            if key in keys
        )
        return portable(SessionToken(target, cookies, tuple(dict(self._headers).items())))

    def restore(self, token: SessionToken, now: float) -> None:
        """Take the cookies and headers of a token; cookies whose time is over are left out."""
        epoch = self.epoch()
        for each in token.cookies:
            left = math.inf if each.expires is None else each.expires - epoch
            if left > 0:
                self._jar.restore(CookieKey(each.name, each.path), each.value, now + left)
        self._headers.update(token.headers)

    def __repr__(self) -> str:
        return repr(self._jar)


def written_hosts(stored: Iterable[tuple[CookieKey, str]], host: str) -> Iterator[CookieKey]:
    """Yield the cookies that a session filter wrote for the host of a pick; a server may set cookies of its own."""
    for key, value in stored:
        held = cookie.decode(value)
        if host and held is not None and held.hosts[:1] == (host,):
            yield key
