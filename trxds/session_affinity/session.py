"""A session has a cookie jar for the calls of one `channel.session()` block, and a host by each cookie of a filter."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, Protocol

import trio
from msgspec import Struct

from trxds.core.determinism import wall_clock
from trxds.core.metadata import EMPTY, Metadata
from trxds.core.redacted_struct import RedactedStruct
from trxds.lb.override_host.repin_reason import RepinReason, reason_of
from trxds.lb.pick import Override, PickArgs

from .cookie import possible_names
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


class Pin(RedactedStruct, frozen=True):
    """The host that a cookie binds the session to, and the call whose pick chose it.

    `strict`: no other host may serve the session (Envoy's `StatefulSession.strict`).
    """

    redacted: ClassVar[frozenset[str]] = frozenset({"metadata"})
    host: SessionHost
    path: str
    metadata: Metadata  # of the request, with the session's own; a route may match it
    strict: bool = False


class SessionView(NamedTuple):
    """The hosts of a session by cookie, and its first call, as one call saw them when it began. Never changed.

    `released` has the first call after the last release of each cookie.
    """

    pins: Mapping[CookieKey, Pin]
    first_call: FirstCall
    released: Mapping[CookieKey, FirstCall]


class SessionCookies:
    """The cookies of one session, in `metadata`, and its present host.

    `number` identifies the session in its channel. `host` and `cluster` are empty while it has no cookie; `view` has
    them for each cookie. Only the last move is kept, so that a session that stays costs nothing.
    """

    def __init__(
        self,
        wait_for_first: bool = True,
        number: int = 0,
        epoch: Callable[[], float] | None = None,
        listener: SessionListener | None = None,
    ) -> None:
        self.number = number
        self.since = trio.current_time()
        self.calls = 0
        self.host = self.cluster = ""
        self.moves = 0
        self.last_move: SessionMoved | None = None
        self.view = SessionView({}, FirstCall(wait_for_first), {})
        self.metadata = SessionMetadata(epoch or wall_clock())
        self.is_moving = False
        self.expires = math.inf  # when the time of a host's cookie is over, so that calls wait for a first one again
        self._listener = listener
        self._waits_for_first = wait_for_first
        self._has_imported_pins = False  # of a token, which has no call that chose the host
        self._left: dict[CookieKey, _LeftHost] = {}

    @property
    def pins(self) -> Mapping[CookieKey, Pin]:
        """The host that each cookie binds the session to."""
        return self.view.pins

    def detach(self) -> None:
        """Report nothing more: the session has ended."""
        self._listener = None

    # -- responses

    def record_response(
        self, metadata: Metadata, call: PickArgs, seen: SessionView
    ) -> SessionPinned | SessionMoved | None:
        """Keep the cookies and session headers of a call's response headers, and let waiting calls go on.

        Return the event if the host is new to the session; if several cookies have one, that of a move goes first.
        `seen` is the view when the call began. If the session has got another host by a cookie since, or has released
        it, the response's cookie of that name does not count: it would take the session to a host that it did not
        choose last.
        """
        cookies, override, event = metadata.all("set-cookie"), call.override, None
        if cookies or call.session_headers:
            stored = self.metadata.store(cookies, metadata, call, lambda key: self._has_changed(key, seen))
            if override is not None:
                event = self._record_hosts(stored, call, override)
        if self._has_imported_pins and override is not None:
            self._complete_pins(call, override)
        # Even without a cookie: a server without sessions must not make calls wait one after another.
        if not seen.first_call.is_over:
            seen.first_call.end()
        return event

    def _has_changed(self, key: CookieKey, seen: SessionView) -> bool:
        """Return whether the session has got another host by the cookie, or given it up, since `seen`."""
        view = self.view
        # What was got and then given up is among the pins of neither.
        return view.pins.get(key) is not seen.pins.get(key) or view.released.get(key) is not seen.released.get(key)

    def _record_hosts(
        self, stored: list[tuple[CookieKey, str]], call: PickArgs, override: Override
    ) -> SessionPinned | SessionMoved | None:
        """Record the session's host, and return the event if it is new: headers with a session may name another."""
        host = override.actual_address_list.partition(",")[0]
        events: list[SessionPinned | SessionMoved] = []
        for key in written_hosts(stored, host):
            pin = Pin(SessionHost(host, call.cluster), call.path, call.metadata, override.strict)
            # The cookie of a longer path would stand first in requests (RFC 6265 §5.4) and name the old host. One of a
            # shorter path may still be that of another route.
            longer = [each for each in self.pins if each.name == key.name and len(each.path) > len(key.path)]
            for other in [each for each in longer if each.matches(call.path)]:
                left = self._drop(other).host
                if key not in self.pins:
                    self._left[key] = _LeftHost(left, reason_of(override, _is_of_cluster(left, call.cluster)))
            before = self.pins.get(key)
            same_cluster = before is None or _is_of_cluster(before.host, call.cluster)
            if event := self._pin(key, pin, reason_of(override, same_cluster)):
                events.append(event)
        return max(events, key=lambda event: isinstance(event, SessionMoved), default=None)

    def _complete_pins(self, call: PickArgs, override: Override) -> None:
        """Complete the pins of a token by the first response: from where they are used, no new cookie comes."""
        host = override.actual_address_list.partition(",")[0]
        for key, pin in self.pins.items():
            # Another cookie of the session may name the same host: only the one that the call has sent is completed.
            if pin.path or pin.host.host != host or not key.matches(call.path):
                continue
            if pin.host.cluster and call.cluster not in possible_names(pin.host.cluster):
                continue
            self._pin(key, Pin(SessionHost(host, call.cluster), call.path, call.metadata, override.strict), reason=None)
        self._has_imported_pins = any(not pin.path for pin in self.pins.values())

    def _pin(self, key: CookieKey, pin: Pin, reason: RepinReason | None) -> SessionPinned | SessionMoved | None:
        """Bind the session to a host by a cookie, and return the event if the host is new to the session.

        Without a `reason` it is bound to that host already, by a token.
        """
        before, left = self.pins.get(key), self._left.pop(key, None)
        # A new view: each call keeps the one of its beginning, and `record_response` compares the pins by identity.
        self.view = SessionView({**self.pins, key: pin}, self.view.first_call, self.view.released)
        if self._waits_for_first:
            self.expires = self.metadata.expiry(self.pins)
        last = before.host if before is not None else None
        self.host, self.cluster = pin.host.host, pin.host.cluster
        if last == pin.host:
            return None
        old = last
        if left is not None:
            # After a release: the host that the session had until then. A move that began before the release counts.
            why = reason if reason is RepinReason.REQUESTED else left.reason
            old, reason = (left.host, why) if left.host != pin.host else (None, None)
        now = trio.current_time()
        event: SessionPinned | SessionMoved = SessionPinned(now, key, pin.host)
        if old is not None and reason is not None:
            change = self._listener.find_change(old, reason) if self._listener is not None else ""
            self.moves += 1
            event = self.last_move = SessionMoved(now, key, old, pin.host, reason, change)
        if self._listener is not None:
            self._listener.session_pinned(self, last, event)
        return event if left is None or left.host != pin.host else None

    def _drop(self, key: CookieKey) -> Pin:
        """Forget the host of a cookie, and the cookie."""
        pin = self.pins[key]
        pins = {other: kept for other, kept in self.pins.items() if other != key}
        self.view = SessionView(pins, self.view.first_call, self.view.released)
        self.metadata.remove(key)
        last = [other.host for other in pins.values()][-1:]
        self.host, self.cluster = (last[0].host, last[0].cluster) if last else ("", "")
        if self._listener is not None:
            self._listener.session_unpinned(self, key, pin.host)
        return pin

    # -- what a program sees and steers

    def hosts(self, now: float) -> Mapping[CookieKey, SessionHost]:
        """Return the host and cluster that each cookie, or session header, names now."""
        found = dict(self.metadata.hosts(now, self.cluster))
        for key, pin in dict(self.pins).items():
            # Session headers, and cookies of a target without a control plane, name no cluster; the pin has it.
            if key in found and found[key].host == pin.host.host:
                found[key] = pin.host
        return found

    def leaves_cluster(self, call: PickArgs) -> bool:
        """Return whether the host of the call's cookie is known to be in another cluster than the call's."""
        named = call.override.addresses[:1] if call.override is not None else ()
        hosts = [pin.host for key, pin in self.pins.items() if key.matches(call.path) and named == (pin.host.host,)]
        return bool(hosts) and not any(_is_of_cluster(host, call.cluster) for host in hosts)

    @property
    def release_reason(self) -> RepinReason | None:
        """Why the session has given up a host for which it has no other yet; None if it has not."""
        return next((left.reason for left in self._left.values()), None)

    def release(self, key: CookieKey, reason: RepinReason) -> None:
        """Give up the cookie's host, so that the next call chooses anew; the others wait for that call."""
        if key not in self.pins:
            self.metadata.remove(key)
            return
        self._left[key] = _LeftHost(self._drop(key).host, reason)
        last, first = self.view, FirstCall(self._waits_for_first)
        self.view = SessionView(last.pins, first, {**last.released, key: first})
        last.first_call.end()  # those that wait for it wait for the next one

    def expire(self) -> None:
        """Give up the hosts whose cookies' time is over, as by `release`."""
        live = self.hosts(trio.current_time())
        for key in self.pins.keys() - live.keys():
            self.release(key, RepinReason.NO_COOKIE)
        self.expires = self.metadata.expiry(self.pins)

    @contextmanager
    def only_move(self) -> Iterator[None]:
        """Allow one move at a time. Raises `RuntimeError` if the session is moving."""
        if self.is_moving:
            raise RuntimeError("the session is moving already; leave the block of that moving() first")
        self.is_moving = True
        try:
            yield
        finally:
            self.is_moving = False

    def keys_like(self, key: CookieKey) -> tuple[CookieKey, ...]:
        """Return the cookie, and the others that name its host for the same calls: they would hold a session there."""
        pin = self.pins[key]
        same = [other for other, at in self.pins.items() if at.host.host == pin.host.host and other.matches(pin.path)]
        return (key, *(other for other in same if other != key))

    def copy(self, without: Collection[CookieKey] = ()) -> SessionCookies:
        """Return the cookies for calls that are bound to one host; they report to nobody."""
        made = SessionCookies(False, self.number, self.metadata.epoch)
        made.host, made.cluster, made.metadata = self.host, self.cluster, self.metadata.copy()
        pins = {key: pin for key, pin in self.pins.items() if key not in without}
        made.view = SessionView(pins, made.view.first_call, {})
        for key in without:
            made.metadata.remove(key)
        return made

    def switch(
        self, keys: Iterable[CookieKey], since: SessionCookies, source: SessionCookies, target: SessionCookies
    ) -> None:
        """Move from the host of these cookies to that of `target`.

        `since` has the cookies of the time when `source` and `target` were copied, without those that are replaced.
        """
        for each in (source, target):  # the new host's cookies win
            self.metadata.take_changes(each.metadata, since.metadata)
        new = {key: pin for key, pin in target.pins.items() if since.pins.get(key) is not pin}
        for key in keys:
            if key in new:
                continue
            # The session filter has a cookie of another name or path by now.
            self.metadata.remove(key)
            if key in self.pins:
                left = _LeftHost(self._drop(key).host, RepinReason.REQUESTED)
                self._left |= {other: left for other in new if other not in self.pins}
        for key, pin in new.items():
            self.metadata.renew(key)  # the block may have taken most of the cookie's time
            self._pin(key, pin, RepinReason.REQUESTED)
        if new:
            self.view.first_call.end()  # after a `release` in the block: the host is known again

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
            self.view.first_call.end()
            self._has_imported_pins = True
            self._pin(key, Pin(SessionHost(host.host, host.cluster or cluster), "", EMPTY), reason=None)

    def __repr__(self) -> str:
        return f"<SessionCookies {self.number} on {self.host or 'no host'}, {self.metadata!r}>"


def _is_of_cluster(host: SessionHost, cluster: str) -> bool:
    return host.cluster in ("", cluster)  # a token of a session header has no cluster


class _LeftHost(Struct, frozen=True):
    """The host that the session has left without having another one yet, and why."""

    host: SessionHost
    reason: RepinReason
