"""The record of a rehearsal: what its clients saw, as it happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from trxds.core.observe import Locate, Observer, SessionChanged, XdsRequest


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
    pins: list[tuple[float, int, int, str]] = field(default_factory=list)  # time, client, session, host
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

    def observe(self, target: str, locate: Locate) -> Observer:
        return self

    def session_changed(self, changed: SessionChanged) -> None:
        record, now = self._record, self._now()
        if changed.kind in ("pinned", "moved"):
            record.pins.append((now, self._client, changed.session, changed.address))
        # A session whose next route has another cluster may be on the same host there.
        if changed.kind == "moved" and changed.before != changed.address:
            move = Move(
                now, self._client, changed.session, changed.before, changed.address, changed.reason, changed.change
            )
            record.moves.append(move)

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
