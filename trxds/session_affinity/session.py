"""A session has a cookie jar for the calls of one `channel.session()` block, and a host by each cookie of a filter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import trio

from trxds.core.metadata import EMPTY, Metadata, Value, is_value
from trxds.lb.override_host.repin_reason import Repin, RepinReason, reason_of
from trxds.lb.pick import Override, PickArgs

from . import cookie
from .cookie_jar import CookieJar, parse_set_cookie
from .first_call import FirstCall
from .session_events import SessionMoved, SessionPinned
from .session_hosts import CookieKey, SessionHost, hosts_of


class SessionListener(Protocol):
    """An object that is called when a session gets a host, moves, or gives its host up."""

    def find_change(self, host: SessionHost, reason: RepinReason) -> str:
        """Return the version of the resource for which sessions leave the host for that reason; empty if none does."""

    def session_pinned(
        self, session: SessionCookies, before: SessionHost | None, event: SessionPinned | SessionMoved
    ) -> None:
        """The event's cookie binds the session to a host. `before` is the host to which it did so until now."""

    def session_unpinned(self, session: SessionCookies, key: CookieKey, before: SessionHost) -> None:
        """The session has given up the cookie's host, and its next call chooses anew."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The host that a cookie binds the session to, and the call whose pick chose it.

    `strict`: no other host may serve the session (Envoy's `StatefulSession.strict`).
    """

    host: SessionHost
    path: str
    metadata: Metadata = field(repr=False)  # the caller's headers; a route may match them
    strict: bool = False


class SessionCookies:
    """The cookies of one session, and its present host.

    `number` identifies the session in its channel. `host` and `cluster` are empty while it has no cookie; `pins` has
    them for each cookie. Only the last move is kept, so that a session that stays costs nothing.
    """

    def __init__(
        self,
        wait_for_first: bool = True,
        number: int = 0,
        epoch: Callable[[], float] = time.time,
        listener: SessionListener | None = None,
    ) -> None:
        self.number = number
        self.since = trio.current_time()
        self.calls = 0
        self.host = self.cluster = ""
        self.moves = 0
        self.last_move: Repin | None = None
        self.pins: dict[CookieKey, Pin] = {}
        self._epoch = epoch
        self._listener = listener
        self._jar = CookieJar()
        self._headers: dict[str, Value] = {}  # of session filters that use a header of their own
        # The last arguments and result of `fill`: a session's calls often have equal ones.
        self._last_filled = EMPTY, "", EMPTY
        self._left: dict[CookieKey, _LeftHost] = {}
        self.first_call = FirstCall(wait_for_first)

    def begin_call(self) -> bool:
        """Count a call; return whether it is the first one, for which the others wait."""
        self.calls += 1
        return self.first_call.begin_call()

    # -- requests and responses

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
        cookies = metadata.all("set-cookie")
        if cookies or (call is not None and call.session_headers):
            written = [*self._store_cookies(cookies, call), *self._store_headers(metadata, call)]
            if written and call is not None and call.override is not None:
                self._record_hosts(written, call, call.override)
        # Even without a cookie: a server without sessions must not make calls wait one after another.
        self.first_call.end()

    def _store_cookies(self, headers: Iterable[Value], call: PickArgs | None) -> Iterator[tuple[CookieKey, str]]:
        for header in headers:
            received = parse_set_cookie(header, self._epoch()) if isinstance(header, str) else None
            if received is not None and not self._is_stale(received.key, call):
                self._jar.store(received, trio.current_time())
                yield received.key, received.value

    def _store_headers(self, metadata: Metadata, call: PickArgs | None) -> Iterator[tuple[CookieKey, str]]:
        for name in call.session_headers if call is not None else ():
            value, key = metadata.first(name), CookieKey(name, "")
            # A header that no request may have would fail all later calls.
            fits = isinstance(value, str) and len(value) <= cookie.MAX_SIZE and is_value(value)
            if isinstance(value, str) and fits and not self._is_stale(key, call):
                self._headers[name] = value
                yield key, value

    def _is_stale(self, key: CookieKey, call: PickArgs | None) -> bool:
        """Return whether the call was sent to a host that the program has made the session leave since."""
        left = self._left.get(key)
        if left is None or call is None or call.override is None:
            return False
        return left.host.host in call.override.addresses

    def _record_hosts(self, written: list[tuple[CookieKey, str]], call: PickArgs, override: Override) -> None:
        """Record the session's host: response headers with a session may name another one."""
        host = override.actual_address_list.partition(",")[0]
        for key, value in written:
            # A server may set cookies of its own, and a cookie is also written again for a new list of addresses.
            held = cookie.decode(value)
            if host and held is not None and held.hosts[:1] == (host,):
                pin = Pin(SessionHost(host, call.cluster), call.path, call.metadata, override.strict)
                self._pin(key, pin, reason_of(override, call.cluster == self.cluster))

    def _pin(self, key: CookieKey, pin: Pin, reason: RepinReason) -> None:
        before, left = self.pins.get(key), self._left.get(key)
        self.pins[key] = pin
        last = before.host if before is not None else None
        if last == pin.host:
            return
        old = last
        if left is not None:
            if last is None:
                # After a release: the host that the session had until then.
                old, reason = (left.host, left.reason) if left.host != pin.host else (None, left.reason)
            if left.host == pin.host:
                del self._left[key]  # it is the session's host again, so its responses count
        now, event = trio.current_time(), None
        if old is not None:
            change = self._listener.find_change(old, reason) if self._listener is not None else ""
            self.moves += 1
            self.last_move = Repin(now, old.host, pin.host.host, reason, change)
            event = SessionMoved(now, key, old, pin.host, reason, change)
        self.host, self.cluster = pin.host.host, pin.host.cluster
        if self._listener is not None:
            self._listener.session_pinned(self, last, event or SessionPinned(now, key, pin.host))

    # -- what a program sees and steers

    def hosts(self, now: float) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie, or session header, names now."""
        cookies = self._jar.live(now)
        for name, value in dict(self._headers).items():
            if isinstance(value, str):
                cookies.append((CookieKey(name, ""), value))
        return hosts_of(cookies, self.cluster)

    @property
    def release_reason(self) -> RepinReason | None:
        """Why the session has given up a host for which it has no other yet; None if it has not."""
        return next((left.reason for key, left in self._left.items() if key not in self.pins), None)

    def release(self, key: CookieKey, reason: RepinReason) -> None:
        """Give up the cookie's host, so that the next call chooses anew; the others wait for that call."""
        pin = self.pins.pop(key, None)
        self._jar.remove(key)
        self._headers.pop(key.name, None)
        if pin is None:
            return
        self._left[key] = _LeftHost(pin.host, reason)
        others = [other.host for other in self.pins.values()]
        self.host, self.cluster = (others[-1].host, others[-1].cluster) if others else ("", "")
        self.first_call.start_over()
        if self._listener is not None:
            self._listener.session_unpinned(self, key, pin.host)

    def copy(self, without: CookieKey | None = None) -> SessionCookies:
        """Return the cookies for calls that are bound to one host; they report to nobody."""
        made = SessionCookies(False, self.number, self._epoch)
        made.host, made.cluster = self.host, self.cluster
        made._jar, made._headers, made.pins = self._jar.copy(), dict(self._headers), dict(self.pins)
        if without is not None:
            made._jar.remove(without)
            made._headers.pop(without.name, None)
            made.pins.pop(without, None)
        return made

    def switch(self, key: CookieKey, since: SessionCookies, source: SessionCookies, target: SessionCookies) -> None:
        """Move from the cookie's host to that of `target`; responses of calls that were sent before do not count.

        `since` has the cookies of the time when `source` and `target` were copied, without the cookie that is replaced.
        """
        pin = self.pins.get(key)
        if pin is not None:
            self._left[key] = _LeftHost(pin.host, RepinReason.REQUESTED)
        if key not in target.pins:  # the session filter has a cookie of another name by now
            self.release(key, RepinReason.REQUESTED)
        for each in (source, target):  # the new host's cookies win
            self._jar.take_changes(each._jar, since._jar)
            self._headers |= {name: value for name, value in each._headers.items() if since._headers.get(name) != value}
        for other, new in target.pins.items():
            if since.pins.get(other) is not new:
                self._pin(other, new, RepinReason.REQUESTED)

    def __repr__(self) -> str:
        return f"<SessionCookies {self.number} on {self.host or 'no host'}, {self._jar!r}>"


@dataclass(frozen=True, slots=True)
class _LeftHost:
    """The host that the program made the session leave. A response of a call that was sent there is stale."""

    host: SessionHost
    reason: RepinReason
