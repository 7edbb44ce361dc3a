"""A session has a cookie jar for the calls of one `channel.session()` block, which wait for the first one's cookie.

Twenty calls begun at once, before any of them has a cookie, would go to twenty hosts. So the
others wait until the first one has response headers or has ended.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import trio

from trxds.core.metadata import EMPTY, Metadata, Value, is_value
from trxds.lb.pick import PickArgs

from ..lb.override_host.repin_reason import Repin, reason_of
from .cookie import MAX_SIZE
from .cookie_jar import CookieJar
from .session_hosts import CookieKey, SessionHost, hosts_of
from .session_token import MAX_EXPIRY, SessionToken, TokenCookie, portable


class SessionCookies:
    """The cookies of one session, and its present host.

    `number` identifies the session in its channel. `host` and `cluster` are empty while it has no cookie. Only the last
    move is kept, so that a session that stays costs nothing.
    """

    def __init__(self, wait_for_first: bool = True, number: int = 0, epoch: Callable[[], float] = time.time) -> None:
        self.number = number
        self.since = trio.current_time()
        self.calls = 0
        self.host = self.cluster = ""
        self.moves = 0
        self.last_move: Repin | None = None
        self._epoch = epoch
        self._jar = CookieJar()
        self._headers: dict[str, Value] = {}  # of session filters that use a header of their own
        self._filter_cookies: tuple[str, ...] = ()  # the names of those that session filters wrote, or a token brought
        # The last arguments and result of `fill`: a session's calls often have equal ones.
        self._last_filled = EMPTY, "", EMPTY
        self._first_ended = trio.Event()
        if not wait_for_first:
            self._first_ended.set()

    def begin_call(self) -> bool:
        """Begin a call; return whether it is the first one, which ends by `end_first`.

        Others `wait_for_first_response`.
        """
        self.calls += 1
        return self.calls == 1

    @property
    def has_first_response(self) -> bool:
        """Whether the first call has brought headers or has ended, so that no call waits for it."""
        return self._first_ended.is_set()

    async def wait_for_first_response(self) -> None:
        """Wait until the first call has response headers or has ended."""
        if not self._first_ended.is_set():
            await self._first_ended.wait()

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

    def record_response(self, metadata: Metadata, call: PickArgs | None) -> None:
        """Keep the cookies and session headers of a call's response headers, and let waiting calls go on."""
        has_session = False
        for name in call.session_headers if call is not None else ():
            value = metadata.first(name)
            if isinstance(value, str) and len(value) <= MAX_SIZE and is_value(value):
                self._headers[name], has_session = value, True
        for value in metadata.all("set-cookie"):
            if isinstance(value, str):
                self._jar.store(value, trio.current_time(), self._epoch())
                has_session = True
        if has_session and call is not None:
            self._filter_cookies = tuple(dict.fromkeys((*self._filter_cookies, *call.session_cookies)))
            self._record_host(call)
        # Even without a cookie: a server without sessions must not make calls wait one after another.
        self._first_ended.set()

    def _record_host(self, call: PickArgs) -> None:
        """Record the session's host: response headers with a session may name another one."""
        override = call.override
        if override is None or not override.actual_address_list:
            return
        # The cluster of a session that a token brought may be unknown.
        host, same_cluster = override.actual_address_list.partition(",")[0], self.cluster in ("", call.cluster)
        # A cookie is also written again for other reasons, such as a new list of addresses.
        if host == self.host and same_cluster:
            self.cluster = call.cluster
            return
        if self.host:
            self.moves += 1
            self.last_move = Repin(trio.current_time(), self.host, host, reason_of(override, same_cluster))
        self.host, self.cluster = host, call.cluster

    def hosts(self, now: float) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie, or session header, names now."""
        cookies = [(CookieKey(name, path), value) for name, path, value in self._jar.live(now)]
        for name, value in dict(self._headers).items():
            if isinstance(value, str):
                cookies.append((CookieKey(name, ""), value))
        return hosts_of(cookies, self.cluster)

    # -- in another process

    def export(self, target: str, now: float) -> SessionToken:
        """Return what another process needs to continue the session; of an application's own cookies, nothing."""
        epoch = self._epoch()
        cookies = tuple(
            TokenCookie(name, path, value, round(epoch + left, 3) if epoch + left < MAX_EXPIRY else None)
            for name, path, value, left in self._jar.remaining(now)
            if name in self._filter_cookies
        )
        headers = tuple((name, value) for name, value in dict(self._headers).items() if isinstance(value, str))
        return portable(SessionToken(target, cookies, headers))

    def restore(self, token: SessionToken) -> None:
        """Continue the session of a token; cookies whose time is over are left out."""
        now, epoch = trio.current_time(), self._epoch()
        for each in token.cookies:
            left = math.inf if each.expires is None else each.expires - epoch
            if left > 0:
                self._jar.restore(each.name, each.path, each.value, now + left)
                self._filter_cookies += (each.name,)
        self._headers.update(token.headers)
        # No call waits for the first one: the host is known. The cookie that was set last is the session's last host.
        for at in self.hosts(now).values():
            self.host, self.cluster = at.host, at.cluster
            self._first_ended.set()

    def end_first(self) -> None:
        """Let waiting calls go on, because the first call has ended, perhaps without headers."""
        self._first_ended.set()

    def __repr__(self) -> str:
        return f"<SessionCookies {self.number} on {self.host or 'no host'}, {self._jar!r}>"
