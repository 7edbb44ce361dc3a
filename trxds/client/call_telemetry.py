"""This file reports one RPC to the observers of its channel (`core/observe.py`); without observers it is not used.

An attempt begins before its pick (A66), so one that finds no host counts too.
"""

from __future__ import annotations

from msgspec import Struct

from trxds.core.metadata import Headers, encode
from trxds.core.observe import Pick, SessionHostChanged, SessionPick
from trxds.core.observers import AttemptObservers, CallObservers
from trxds.core.status import Status, StatusCode
from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.first_pass import FirstPass
from trxds.lb.override_host.repin_reason import reason_of
from trxds.lb.pick import Complete, Fail, PickArgs, Queue
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_events import SessionMoved, SessionPinned
from trxds.transport.client_stream import ClientStream

from .call_scope import CallScope, status_when_left

_NO_SESSION_PICK = SessionPick("")
_OF_MESSAGES = frozenset({"sent", "received"})


class CallTelemetry(Struct, eq=False):
    """`CallTelemetry` reports one call; `_scope` has its status."""

    _observers: CallObservers
    _session: SessionCookies | None
    _scope: CallScope

    def new_attempt(self, previous: int, transparent: bool = False) -> AttemptTelemetry | None:
        """Report the start of an attempt, after `previous` that a server may have seen."""
        if "attempt" not in self._observers.wanted:
            return None
        observers = self._observers.attempt(previous, transparent)
        return AttemptTelemetry(observers, self) if observers is not None else None

    def record_configuration(self) -> None:
        """Report the end of the call's wait for a configuration."""
        self._observers.resolution_delayed()

    def record_route(self, cluster: str, hedged: bool) -> None:
        """Report the cluster of the call."""
        if "routed" in self._observers.wanted:
            self._observers.routed(cluster, hedged)

    def record_backoff(self, delay: float) -> None:
        """Report the backoff before the next attempt."""
        self._observers.backing_off(delay)

    def record_response(self, call: PickArgs) -> None:
        """Report the host of a call without a session as the response begins, unless the caller's cookie named it."""
        override = call.override
        if override is None or not override.actual_address_list:
            return
        host, before = override.actual_address_list.partition(",")[0], "".join(override.addresses[:1])
        if host not in override.addresses:
            self._observers.settled(SessionHostChanged(call.cluster, host, before, self.reason(call) if before else ""))

    def record_session(self, event: SessionPinned | SessionMoved) -> None:
        """Report the host that a response has brought to its session."""
        match event:
            case SessionPinned(host=host):
                self._observers.settled(SessionHostChanged(host.cluster, host.host))
            case SessionMoved(old=old, new=new, reason=reason):
                self._observers.settled(SessionHostChanged(new.cluster, new.host, old.host, reason))

    def reason(self, call: PickArgs) -> str:
        """Return the reason why the session's host is not used."""
        assert call.override is not None
        session = self._session
        # A session that was released left its host on purpose: the host may be fine, so no rule names the reason.
        if session is not None and session.release_reason is not None and not call.override.addresses:
            return session.release_reason
        return reason_of(call.override, session is None or not session.leaves_cluster(call))

    def end(self, status: Status) -> None:
        """Report the end of the call, after all its resources were released."""
        if "ended" in self._observers.wanted:
            self._observers.ended(status)

    def outcome(self, stream: ClientStream | None) -> Status:
        """Return the status of an attempt: its stream's, or the call's if that has cancelled the stream."""
        status, of_call = status_when_left(stream), self._scope.status
        # A call that ends with OK may have cancelled other attempts.
        return of_call if status.code is StatusCode.CANCELLED and of_call is not None and not of_call.ok else status


class AttemptTelemetry(Struct, eq=False):
    """`AttemptTelemetry` reports one attempt of a call."""

    observers: AttemptObservers
    _call: CallTelemetry
    _delayed: bool = False
    _backend: str = ""  # the cluster that had no host for the last pick; empty if that found one
    _session: SessionPick = _NO_SESSION_PICK  # the last that was said of the session

    def add_headers(self, headers: Headers) -> Headers:
        """Return the header fields with those of observers, such as a trace's context, which replace the caller's."""
        added = self.observers.headers() if "headers" in self.observers.wanted else None
        if not added:
            return headers
        fields = encode(added)
        if not headers:
            return fields
        names = {name for name, _ in fields}
        # OpenTelemetry's setters replace a field too: a server that gets two of `traceparent` has no trace to join.
        return [field for field in headers if field[0] not in names] + fields

    @property
    def of_messages(self) -> AttemptObservers | None:
        """The observers, if one of them wants to see messages."""
        return None if self.observers.wanted.isdisjoint(_OF_MESSAGES) else self.observers

    def record_pick(self, result: object, call: PickArgs, wait_for_ready: bool | None, authority: str = "") -> None:
        """Report the result of a pick. If the call waits for ready, a failure does not end the attempt.

        An `authority` is the caller's own.
        """
        if call.override is not None:
            self._report_session(result, call)
        if call.backend:
            # The call's arguments are those of its next pick too, which may be another attempt's.
            backend, call.backend = call.backend, ""
            self._report_backend(backend)
        match result:
            # A policy of the program's own may take something else for a host, or for a status.
            case Complete() if "picked" in self.observers.wanted and hasattr(result.host, "address"):
                self._backend = ""  # if the host takes no stream, the next pick may find none in the same cluster again
                self.observers.picked(self._describe(result, call, authority))
            case Queue(FirstPass() as first_pass):
                self._delay(f"cluster {call.cluster} begins; the call waits for {first_pass}")
            case Queue():
                self._delay(f"no host of cluster {call.cluster} is connected")
            case Fail(Status() as status) if wait_for_ready:
                self._delay(status.message)

    def _describe(self, result: Complete, call: PickArgs, authority: str) -> Pick:
        # Only the cluster's counter has a name; those of least_request have none.
        backend = next((each.cluster for each in result.trackers if isinstance(each, CallCounter) and each.cluster), "")
        return Pick(call.cluster, backend, result.host.address, self._delayed, authority or result.authority)

    def _report_backend(self, backend: str) -> None:
        # A call that waits picks again with each new picker, mostly in the same cluster.
        if backend != self._backend:
            self._backend = backend
            self.observers.no_host(backend)

    def _delay(self, why: str) -> None:
        if not self._delayed:
            self._delayed = True
            self.observers.delayed(why)

    def _report_session(self, result: object, call: PickArgs) -> None:
        override = call.override
        assert override is not None
        hit = isinstance(result, Complete) and result.host.address in override.addresses
        # A hit goes first: `fallback_reason` may be left from an earlier pick of the call.
        if not hit and (not override.addresses or override.fallback_reason):
            pick = SessionPick("fallback", self._call.reason(call), override.addresses)
        else:
            pick = SessionPick("wait" if isinstance(result, Queue) else "hit", "", override.addresses)
        # A call that waits picks again with each new picker, mostly with the same result.
        if pick != self._session:
            self._session = pick
            self.observers.session_picked(pick)

    def end(self, status: Status | None, stream: ClientStream | None) -> None:
        """Report the attempt's end, with `status`, or with its stream's if that is None."""
        if "ended" in self.observers.wanted:
            self.observers.ended(status or self._call.outcome(stream))
