"""The record of a rehearsal: what its clients saw, as it happened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from trxds.core.metadata import Metadata
from trxds.core.observe import (
    AttemptObserver,
    CallObserver,
    CallStarted,
    Locate,
    Observer,
    Pick,
    SessionChanged,
    SessionPick,
    XdsRequest,
)
from trxds.core.status import Status
from trxds.lb.override_host.repin_reason import RepinReason

Kind: TypeAlias = tuple[str, Metadata]
"""A kind of call, by its path and metadata: another kind may have another route."""

NO_SESSION_FILTER = "no_session_filter"
"""The reason of a move that no session reports: its calls have no session filter any more, so nothing holds them."""


class Move(Struct, frozen=True):
    """A session has moved; `client` and `session` are numbers, `cause` the version of the resource that caused it."""

    at: float
    client: int
    session: int
    before: str
    after: str
    reason: str
    cause: str


class Failure(Struct, frozen=True):
    """A call has failed; `at` is when it ended."""

    at: float
    client: int
    method: str
    code: str
    message: str


class Nack(Struct, frozen=True):
    """A client has refused resources (NACK)."""

    at: float
    client: int
    type: str
    error: str


@dataclass(slots=True)
class Record:
    """Everything that is reported, in the order of time. `calls` has (start, seconds) of each call that succeeded."""

    calls: list[tuple[float, float]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    pins: list[tuple[float, int, int, str]] = field(default_factory=list)  # time, client, session, host or ""
    refusals: list[Nack] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)  # connections
    closed: list[tuple[float, str]] = field(default_factory=list)  # with the reason
    unconnected: list[tuple[float, str]] = field(default_factory=list)  # failed attempts, with the error
    configured: list[float] = field(default_factory=list)  # responses of the control plane
    host_calls: list[tuple[int, ...]] = field(default_factory=list)  # of each host, since the start, each second


class ClientObserver(Observer):
    """Records what happens in the channel of one client; it is also the `Telemetry` that makes it."""

    def __init__(self, client: int, record: Record, now: Callable[[], float]) -> None:
        self._client = client
        self._record = record
        self._now = now
        self._held: dict[tuple[int, Kind], tuple[float, str]] = {}  # start and host of a session's last call of a kind
        self._left: dict[tuple[int, str], float] = {}  # when a session moved away from a host

    def observe(self, target: str, locate: Locate) -> Observer:
        return self

    def call(self, call: CallStarted) -> CallObserver | None:
        return (
            None if call.session is None else _SessionCall(self, call.session, (call.path, call.metadata), self._now())
        )

    def call_ended(self, session: int, kind: Kind, began: float, host: str, *, has_filter: bool) -> None:
        """Note the host of a session's call, and a move that no event of the session tells.

        If the route has another cookie now, the session takes its host for a first one, or has it from another route.
        If the route has no session filter any more, nothing holds the session.
        """
        since, last = self._held.get((session, kind), (began, ""))
        if began < since:
            return
        if has_filter:
            self._held[session, kind] = began, host
            # An event may have told the move, of this call or of another one.
            if last and host != last and self._left.get((session, last), -math.inf) < since:
                self._move(session, last, host, RepinReason.NO_COOKIE)
        elif last and host != last:
            del self._held[session, kind]
            self._move(session, last, host, NO_SESSION_FILTER)
            self._record.pins.append((self._now(), self._client, session, ""))

    def _move(self, session: int, before: str, after: str, reason: str, cause: str = "") -> None:
        self._left[session, before] = self._now()
        self._record.moves.append(Move(self._now(), self._client, session, before, after, reason, cause))

    def session_changed(self, changed: SessionChanged) -> None:
        if changed.kind in ("pinned", "moved"):
            self._record.pins.append((self._now(), self._client, changed.session, changed.address))
        # A session whose next route has another cluster may be on the same host there.
        if changed.kind == "moved" and changed.before != changed.address:
            self._move(changed.session, changed.before, changed.address, changed.reason, changed.change)

    def xds_request_sent(self, request: XdsRequest) -> None:
        if request.error:
            self._record.refusals.append(Nack(self._now(), self._client, request.type, request.error))

    def xds_response_received(self, response: object) -> None:
        self._record.configured.append(self._now())

    def connection_opened(self, address: str, security: str) -> None:
        self._record.opened.append(self._now())

    def connection_closed(self, address: str, security: str, why: str) -> None:
        self._record.closed.append((self._now(), why))

    def connection_failed(self, address: str, status: object) -> None:
        self._record.unconnected.append((self._now(), str(status)))


class _SessionCall(CallObserver):
    """One call of a session; `host` is that of its last pick."""

    def __init__(self, client: ClientObserver, session: int, kind: Kind, began: float) -> None:
        self._client = client
        self._session = session
        self._kind = kind
        self._began = began
        self.host = ""
        self.has_filter = False

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver | None:
        return _SessionAttempt(self)

    def ended(self, status: Status) -> None:
        if status.ok:
            self._client.call_ended(self._session, self._kind, self._began, self.host, has_filter=self.has_filter)


class _SessionAttempt(AttemptObserver):
    def __init__(self, call: _SessionCall) -> None:
        self._call = call

    def picked(self, pick: Pick) -> None:
        self._call.host = pick.address

    def session_picked(self, pick: SessionPick) -> None:
        self._call.has_filter = True
