"""`PinnedSessions` knows which sessions are bound to which host, and tells them what becomes of it.

It is called when a session gets a host or moves, and when a configuration comes into force: never by an RPC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakSet

from trxds.core.connectivity import Connectivity
from trxds.core.limited_log import LimitedLog
from trxds.core.observe import SessionChanged
from trxds.core.observers import Observers
from trxds.core.plural import plural
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.resolver.config_selector import ConfigSelector
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_events import SessionDraining, SessionHostLost, SessionMoved, SessionPinned
from trxds.session_affinity.session_hosts import CookieKey, SessionHost
from trxds.transport.subchannel import Subchannel

from .dataplane import LiveDataPlane
from .session_event_stream import SessionEvents
from .session_host_status import USABLE, HostStatus, read_statuses, unreachable

_log = logging.getLogger("trxds.client")


_Event: TypeAlias = SessionPinned | SessionMoved | SessionDraining | SessionHostLost


class PinnedSessions:
    """The sessions of one channel by their hosts; it implements `SessionListener`."""

    def __init__(self, target: str, observers: Observers, data_plane: LiveDataPlane, now: Callable[[], float]) -> None:
        self.by_host: dict[SessionHost, dict[tuple[SessionCookies, CookieKey], None]] = {}
        # The clusters, or endpoints, of the newest configuration, also while the channel is IDLE; None before one.
        self.entries: object = None
        self._target = target
        self._observers = observers
        self._data_plane = data_plane
        self._now = now
        self._moves_log = LimitedLog(_log)
        self._statuses: dict[SessionHost, HostStatus] = {}
        self._checked: object = None  # the configuration that they were read from
        self._streams: dict[SessionCookies, WeakSet[SessionEvents]] = {}
        self.subchannels: Callable[[], Iterable[Subchannel]] = tuple  # of the channel's pool

    # -- subscriptions

    def subscribe(self, session: SessionCookies, *, with_status: bool = False) -> SessionEvents:
        """Return the session's events from now on; `with_status`: the first ones are those of its hosts' status now."""
        stream = SessionEvents()
        self._streams.setdefault(session, WeakSet()).add(stream)
        live = session.hosts(self._now()) if with_status else ()
        for key, pin in session.pins.items():
            if key not in live:
                continue
            for event in self._status_events(key, pin.host, USABLE, self._statuses[pin.host]):
                stream.put(event)
        return stream

    def unsubscribe(self, session: SessionCookies, stream: SessionEvents) -> None:
        """Forget a stream that nobody reads any more; one that nobody holds is forgotten by itself."""
        streams = self._streams.get(session)
        if streams is not None:
            streams.discard(stream)
            if not streams:
                del self._streams[session]

    def close(self, session: SessionCookies) -> None:
        """Forget a session, because it has ended."""
        session.detach()
        for key, pin in session.pins.items():
            self.session_unpinned(session, key, pin.host)
        for stream in self._streams.pop(session, ()):
            stream.end()

    # -- a session gets a host, moves, or gives its host up

    def find_change(self, host: SessionHost, reason: RepinReason) -> str:
        """Return the version of the resource for which sessions leave the host; empty if none does."""
        if reason is RepinReason.CLUSTER_MISMATCH:
            plane = self._data_plane.current
            routes = plane.selector.routes if plane is not None and isinstance(plane.selector, ConfigSelector) else None
            # A cluster that is still routed to was left for another route, or another draw of weights: no change.
            if routes is None or routes.standing is None or host.cluster in routes.clusters:
                return ""
            return routes.standing.change
        status = self._statuses.get(host, USABLE)
        return status.change if status.lost is reason else ""

    def session_pinned(
        self, session: SessionCookies, before: SessionHost | None, event: SessionPinned | SessionMoved
    ) -> None:
        """Report the session's host, and note it."""
        host = event.host if isinstance(event, SessionPinned) else event.new
        if before is not None:
            self.session_unpinned(session, event.cookie, before)
        self.by_host.setdefault(host, {})[session, event.cookie] = None
        # Set only while sessions have hosts, so that updates cost other channels nothing.
        self._data_plane.on_publish = self.check
        if isinstance(event, SessionMoved):
            why = f"{event.reason}, {event.change}" if event.change else event.reason
            text = "%s: session %d moved from %s to %s (%s)"
            self._moves_log.info(event.at, text, self._target, session.number, event.old.host, host.host, why)
        # Before the report, in which an observer may release the session: then nothing of the host is kept.
        status = self._statuses.get(host)
        if status is None:
            found = read_statuses(self.entries, host.cluster, {host.host: USABLE})
            status = self._statuses[host] = found.get(host.host, USABLE)
        self._report(session, event)
        # As if the host had been usable until now: a session that comes to a DRAINING one has to learn it.
        self._report_status(session, event.cookie, host, USABLE, status)

    def session_unpinned(self, session: SessionCookies, key: CookieKey, before: SessionHost) -> None:
        """Forget the session's host."""
        pinned = self.by_host[before]
        del pinned[session, key]
        if not pinned:
            del self.by_host[before], self._statuses[before]
        if not self.by_host:
            self._data_plane.on_publish = None

    # -- what becomes of the hosts

    def check(self) -> None:
        """Report the hosts of which the configuration, or the data plane in force, says something new. Synchronous."""
        entries, is_watched = self.entries, bool(self._streams or self._observers.active)
        is_new = entries is not self._checked
        if entries is None or not (is_new or is_watched):
            return
        self._checked = entries
        failed = unreachable(self.subchannels()) if is_watched else set()
        for cluster, before in self._by_cluster().items():
            # Another data plane of the same configuration says only which hosts can be reached.
            found = read_statuses(entries, cluster, before) if is_new else before
            for address, status in found.items():
                if status.lost in (None, RepinReason.NOT_READY):
                    status = replace(status, lost=RepinReason.NOT_READY if address in failed else None)
                host, last = SessionHost(address, cluster), before[address]
                if status != last:
                    self._change(host, last, status)
                elif host in self._statuses:
                    self._statuses[host] = replace(last, health=status.health)

    def ready_addresses(self) -> frozenset[str]:
        """Return the addresses of the hosts that are connected."""
        return frozenset(each.address for each in self.subchannels() if each.state is Connectivity.READY)

    def _by_cluster(self) -> Mapping[str, Mapping[str, HostStatus]]:
        clusters: dict[str, dict[str, HostStatus]] = {}
        for host in self.by_host:
            clusters.setdefault(host.cluster, {})[host.host] = self._statuses[host]
        return clusters

    def _change(self, host: SessionHost, before: HostStatus, status: HostStatus) -> None:
        # A copy, and perhaps empty: an observer may release sessions while it is told of another host.
        pinned = tuple(self.by_host.get(host, ()))
        if not pinned:
            return
        self._statuses[host] = status
        if status.draining and not before.draining:
            sessions = plural(len(pinned), "session")
            _log.info("%s: host %s is DRAINING with %s (%s)", self._target, host.host, sessions, status.change)
        if self._streams or self._observers.active:
            for session, key in pinned:
                self._report_status(session, key, host, before, status)

    def _report_status(
        self, session: SessionCookies, key: CookieKey, host: SessionHost, before: HostStatus, status: HostStatus
    ) -> None:
        for event in self._status_events(key, host, before, status):
            # Not for a cookie whose time is over: the next call chooses a host anyway.
            if key in session.hosts(self._now()):
                self._report(session, event)

    def _status_events(
        self, key: CookieKey, host: SessionHost, before: HostStatus, status: HostStatus
    ) -> Iterator[SessionDraining | SessionHostLost]:
        if status.draining and not before.draining:
            yield SessionDraining(self._now(), key, host, status.change)
        if status.lost is not None and status.lost is not before.lost:
            yield SessionHostLost(self._now(), key, host, status.lost, status.change)

    def _report(self, session: SessionCookies, event: _Event) -> None:
        for stream in self._streams.get(session, ()):
            stream.put(event)
        if self._observers.active:
            self._observers.session_changed(_observed(session.number, event))


def _observed(number: int, event: _Event) -> SessionChanged:
    before, reason, change = "", "", ""
    match event:
        case SessionPinned(host=host):
            kind = "pinned"
        case SessionMoved(old=old, new=host, reason=why, change=change):
            kind, before, reason = "moved", old.host, str(why)
        case SessionDraining(host=host, change=change):
            kind = "draining"
        case SessionHostLost(host=host, reason=why, change=change):
            kind, reason = "host_lost", str(why)
    return SessionChanged(number, kind, event.cookie.name, host.cluster, host.host, before, reason, change)
