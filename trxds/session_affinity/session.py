"""A session has a cookie jar for the calls of one `channel.session()` block, and a host by each cookie of a filter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import trio

from trxds.core.metadata import EMPTY, Metadata
from trxds.lb.override_host.repin_reason import Repin, RepinReason, reason_of
from trxds.lb.pick import Override, PickArgs

from .first_call import FirstCall
from .session_events import SessionMoved, SessionPinned
from .session_hosts import CookieKey, SessionHost
from .session_metadata import SessionMetadata, written_hosts
from .session_token import SessionToken


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
    """The cookies of one session, in `metadata`, and its present host.

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
        self.metadata = SessionMetadata(epoch)
        self._listener = listener
        self._is_moving = False
        self._has_imported_pins = False  # of a token, which has no call that chose the host
        self._left: dict[CookieKey, _LeftHost] = {}
        self.first_call = FirstCall(wait_for_first)

    def begin_call(self) -> bool:
        """Count a call; return whether it is the first one, for which the others wait."""
        self.calls += 1
        return self.first_call.begin_call()

    # -- requests and responses

    def record_response(self, metadata: Metadata, call: PickArgs | None) -> None:
        """Keep the cookies and session headers of a call's response headers, and let waiting calls go on."""
        cookies = metadata.all("set-cookie")
        if cookies or (call is not None and call.session_headers):
            stored = self.metadata.store(cookies, metadata, call, lambda key: self._is_stale(key, call))
            if stored and call is not None and call.override is not None:
                self._record_hosts(stored, call, call.override)
        if self._has_imported_pins and call is not None:
            self._complete_pins(call)
        # Even without a cookie: a server without sessions must not make calls wait one after another.
        if not self.first_call.is_over:
            self.first_call.end()

    def _is_stale(self, key: CookieKey, call: PickArgs | None) -> bool:
        """Return whether the call was sent to a host that the program has made the session leave since."""
        left = self._left.get(key)
        if left is None or call is None or call.override is None:
            return False
        return left.host.host in call.override.addresses

    def _record_hosts(self, stored: list[tuple[CookieKey, str]], call: PickArgs, override: Override) -> None:
        """Record the session's host: response headers with a session may name another one."""
        host = override.actual_address_list.partition(",")[0]
        same_cluster = self.cluster in ("", call.cluster)  # a token of a session header has no cluster
        for key in written_hosts(stored, host):
            pin = Pin(SessionHost(host, call.cluster), call.path, call.metadata, override.strict)
            self._pin(key, pin, reason_of(override, same_cluster))

    def _complete_pins(self, call: PickArgs) -> None:
        """Complete the pins of a token by the first response: from where they are used, no new cookie comes."""
        host = call.override.actual_address_list.partition(",")[0] if call.override is not None else ""
        for key, pin in self.pins.items():
            if not pin.path and call.override is not None and pin.host.host == host:
                # The token's text may write the cluster in another form (A60).
                strict = call.override.strict
                self._pin(key, Pin(SessionHost(host, call.cluster), call.path, call.metadata, strict), reason=None)
        self._has_imported_pins = any(not pin.path for pin in self.pins.values())

    def _pin(self, key: CookieKey, pin: Pin, reason: RepinReason | None) -> None:
        """Bind the session to a host by a cookie. Without a `reason` it is bound to that host already, by a token."""
        before, left = self.pins.get(key), self._left.get(key)
        self.pins[key] = pin
        last = before.host if before is not None else None
        self.host, self.cluster = pin.host.host, pin.host.cluster
        if last == pin.host:
            return
        old = last if reason is not None else None
        if left is not None:
            if last is None:
                # After a release: the host that the session had until then.
                old, reason = (left.host, left.reason) if left.host != pin.host else (None, None)
            if left.host == pin.host:
                del self._left[key]  # it is the session's host again, so its responses count
        now = trio.current_time()
        event: SessionPinned | SessionMoved = SessionPinned(now, key, pin.host)
        if old is not None and reason is not None:
            change = self._listener.find_change(old, reason) if self._listener is not None else ""
            self.moves += 1
            self.last_move = Repin(now, old.host, pin.host.host, reason, change)
            event = SessionMoved(now, key, old, pin.host, reason, change)
        if self._listener is not None:
            self._listener.session_pinned(self, last, event)

    # -- what a program sees and steers

    def hosts(self, now: float) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie, or session header, names now."""
        found = dict(self.metadata.hosts(now, self.cluster))
        for key, pin in dict(self.pins).items():
            # Session headers, and cookies of a target without a control plane, name no cluster; the pin has it.
            if key in found and found[key].host == pin.host.host:
                found[key] = pin.host
        return found

    @property
    def release_reason(self) -> RepinReason | None:
        """Why the session has given up a host for which it has no other yet; None if it has not."""
        return next((left.reason for key, left in self._left.items() if key not in self.pins), None)

    def release(self, key: CookieKey, reason: RepinReason) -> None:
        """Give up the cookie's host, so that the next call chooses anew; the others wait for that call."""
        pin = self.pins.pop(key, None)
        self.metadata.remove(key)
        if pin is None:
            return
        self._left[key] = _LeftHost(pin.host, reason)
        others = [other.host for other in self.pins.values()]
        self.host, self.cluster = (others[-1].host, others[-1].cluster) if others else ("", "")
        self.first_call.start_over()
        if self._listener is not None:
            self._listener.session_unpinned(self, key, pin.host)

    @contextmanager
    def only_move(self) -> Iterator[None]:
        """Allow one move at a time. Raises `RuntimeError` if the session is moving."""
        if self._is_moving:
            raise RuntimeError("the session is moving already; leave the block of that moving() first")
        self._is_moving = True
        try:
            yield
        finally:
            self._is_moving = False

    def copy(self, without: CookieKey | None = None) -> SessionCookies:
        """Return the cookies for calls that are bound to one host; they report to nobody."""
        made = SessionCookies(False, self.number, self.metadata.epoch)
        made.host, made.cluster = self.host, self.cluster
        made.metadata, made.pins = self.metadata.copy(), dict(self.pins)
        if without is not None:
            made.metadata.remove(without)
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
            self.metadata.take_changes(each.metadata, since.metadata)
        for other, new in target.pins.items():
            if since.pins.get(other) is not new:
                self._pin(other, new, RepinReason.REQUESTED)

    # -- in another process

    def export(self, target: str, now: float) -> SessionToken:
        """Return what another process needs to continue the session; of an application's own cookies, nothing."""
        return self.metadata.export(target, now, self.pins)

    def restore(self, token: SessionToken, cluster: str = "") -> None:
        """Continue the session of a token; cookies whose time is over are left out.

        `cluster` is that of hosts for which the token names none.
        """
        now = trio.current_time()
        self.metadata.restore(token, now)
        for key, host in self.hosts(now).items():
            # No call waits for the first one: the host is known. The call that will be made there completes the pin.
            self.first_call.end()
            self._has_imported_pins = True
            self._pin(key, Pin(SessionHost(host.host, host.cluster or cluster), "", EMPTY), reason=None)

    def __repr__(self) -> str:
        return f"<SessionCookies {self.number} on {self.host or 'no host'}, {self.metadata!r}>"


@dataclass(frozen=True, slots=True)
class _LeftHost:
    """The host that the program made the session leave. A response of a call that was sent there is stale."""

    host: SessionHost
    reason: RepinReason
