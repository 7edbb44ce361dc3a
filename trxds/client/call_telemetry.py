"""What an RPC tells those who watch it (`ground/observe.py`); for a call that nobody watches there is nothing of this.

An attempt is told of from before its pick on (A66), so one that finds no host is one too. How a call ended shows
only when it is let go: its exception may be the caller's own, or `Cancelled`.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trxds.core.metadata import Headers, Metadata, encode
from trxds.core.observe import Pick, SessionHostChanged, SessionPick
from trxds.core.observers import AttemptObservers, CallObservers
from trxds.core.status import Status, StatusCode
from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.override_host.repin_reason import reason_of
from trxds.lb.pick import Complete, Fail, Override, PickArgs, Queue
from trxds.session_affinity.session import SessionCookies
from trxds.transport.client_stream import ClientStream

_UNSAID = SessionPick("")
_LEFT = Status(StatusCode.CANCELLED, "cancelled by the client")


@dataclass(slots=True, eq=False, repr=False)
class CallTelemetry:
    """One call. `failure` is the error that its caller is given, if it is."""

    _observers: CallObservers
    _session: SessionCookies | None
    failure: Status | None = None
    _backing_off: bool = False  # one attempt is over and the next has not begun

    def attempt(self, previous: int, transparent: bool = False) -> AttemptTelemetry | None:
        """One begins, after so many that a server may have seen."""
        self._backing_off = False
        observers = self._observers.attempt(previous, transparent)
        return AttemptTelemetry(observers, self) if observers is not None else None

    def configured(self) -> None:
        """It had to wait for a configuration, and has one."""
        self._observers.resolution_delayed()

    def routed(self, cluster: str, hedged: bool) -> None:
        self._observers.routed(cluster, hedged)

    def backing_off(self, delay: float) -> None:
        """The attempt is over, and with it what its stream has to say of the call."""
        self._backing_off = True
        self._observers.backing_off(delay)

    def answered(self, call: PickArgs) -> None:
        """The response has begun. A host that the cookie named, or that the session has by now, is no news."""
        override = call.override
        if override is None or not override.actual_address_list:
            return
        host, before = override.actual_address_list.partition(",")[0], self._host_before(override)
        if self.changes_cluster(call) or host not in (before, *override.addresses):
            self._observers.settled(SessionHostChanged(call.cluster, host, before, self.reason(call) if before else ""))

    def _host_before(self, override: Override) -> str:
        """Calls of a session that move at once are one move: the first that has an answer."""
        if self._session is not None:
            return self._session.host
        return override.addresses[0] if override.addresses else ""

    def changes_cluster(self, call: PickArgs) -> bool:
        """Whether the session was in another cluster, as far as we know."""
        session = self._session
        return session is not None and session.cluster not in ("", call.cluster)

    def reason(self, call: PickArgs) -> str:
        """Why the session's host is not used."""
        assert call.override is not None
        return reason_of(call.override, not self.changes_cluster(call))

    def end(self, stream: ClientStream | None) -> None:
        """Everything of it has been let go."""
        self._observers.ended(self.failure or self.outcome(None if self._backing_off else stream))

    def outcome(self, stream: ClientStream | None) -> Status:
        """How the stream ended, or what has ended it: it is cancelled for whoever leaves before its end."""
        status = stream.status if stream is not None else None
        if stream is None or status is None:
            return self.failure or _LEFT
        if status.code is not StatusCode.CANCELLED:
            return status
        if self.failure is None and stream.request.deadline <= trio.current_time():
            return Status(StatusCode.DEADLINE_EXCEEDED, "the caller's own time was over")
        return self.failure or status


@dataclass(slots=True, eq=False, repr=False)
class AttemptTelemetry:
    """One attempt of it."""

    observers: AttemptObservers
    _call: CallTelemetry
    _delayed: bool = False
    _session: SessionPick = _UNSAID  # the last that was said of the session

    @property
    def headers(self) -> Headers:
        """What observers send along."""
        pairs = self.observers.headers()
        return encode(Metadata(pairs)) if pairs else []

    def saw(self, result: object, call: PickArgs, waits: bool | None) -> None:
        """The picker has answered; `waits`: a failure is no end."""
        if call.override is not None:
            self._tell_session(result, call)
        match result:
            case Complete(host, trackers):
                # The cluster's; least_request counts in flight as well, and its counts have no name.
                backend = next(
                    (each.cluster for each in trackers if isinstance(each, CallCounter) and each.cluster), ""
                )
                self.observers.picked(Pick(call.cluster, backend, host.address, self._delayed))
            case Queue():
                self._delay(f"no host of cluster {call.cluster} is connected")
            case Fail(status) if waits:
                self._delay(status.message)

    def _delay(self, why: str) -> None:
        if not self._delayed:
            self._delayed = True
            self.observers.delayed(why)

    def _tell_session(self, result: object, call: PickArgs) -> None:
        override = call.override
        assert override is not None
        hit = isinstance(result, Complete) and result.host.address in override.addresses
        if not hit and (not override.addresses or override.fallback_reason):
            pick = SessionPick("fallback", self._call.reason(call), override.addresses)
        else:
            pick = SessionPick("wait" if isinstance(result, Queue) else "hit", "", override.addresses)
        if pick != self._session:
            self._session = pick
            self.observers.session_picked(pick)

    def end(self, status: Status | None, stream: ClientStream | None) -> None:
        """It is over: with that status, or as its stream, if it had one, has ended."""
        self.observers.ended(status or self._call.outcome(stream))
