"""One pick: what a picker is told of an RPC, and the four answers it can give.

A pick is nested plain functions over frozen data, without a checkpoint (docs/architecture.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from trxds.config.routes import BoundRoute
from trxds.ground.metadata import EMPTY, Metadata
from trxds.ground.status import Status

from .ports import Host


@dataclass(slots=True)
class Override:
    """The override-host attribute (A55, A61): set whenever a session filter is active.

    `addresses` are the cookie's, in order, perhaps none; `actual` is noted by the pick: the
    address list of the endpoint that was chosen, the connected address first. With `strict` the RPC
    fails when none of `addresses` can be used (Envoy's); `missed` is the reason, strict or not.
    """

    addresses: tuple[str, ...] = ()
    actual: str = ""
    strict: bool = False
    missed: str = ""


@dataclass(slots=True)
class PickArgs:
    """The RPC that wants a host, as filters and pickers see it.

    A filter may switch `cluster` to another one of `route` (A60) and set `override`. `hash` is None
    where no hash policy yields one; a policy that needs one draws it and notes it here, so that
    a further attempt of the RPC has the same (A42). `session_headers` are response headers that a
    session has to send back, other than cookies.
    """

    path: str
    metadata: Metadata = EMPTY
    route: BoundRoute | None = None
    cluster: str = ""
    override: Override | None = None
    session_headers: tuple[str, ...] = ()
    hash: int | None = None
    now: float = 0.0  # seconds on trio's clock


class Tracker(Protocol):
    """Told when the attempt's stream is open and when it has ended (load, outliers, limits).

    `trailing` are the server's trailers, with its load report perhaps (A51); `now` is trio's clock.
    """

    def began(self) -> None:
        """The attempt's stream is open."""

    def ended(self, status: Status, trailing: Metadata, now: float) -> None: ...


@dataclass(slots=True)  # not frozen: some are made for each RPC, and freezing costs more than the rest of it
class Complete:
    """Use this host. Nobody changes it."""

    host: Host
    trackers: tuple[Tracker, ...] = ()
    _more: Complete | None = field(default=None, init=False, repr=False, compare=False)

    def with_tracker(self, tracker: Tracker) -> Complete:
        """The same with one tracker more. Who adds the same one to each pick of a host gets the same answer."""
        more = self._more
        if more is None or more.trackers[-1] is not tracker:
            more = self._more = Complete(self.host, (*self.trackers, tracker))
        return more


@dataclass(frozen=True, slots=True)
class Queue:
    """Wait until the data plane changes."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail the RPC, unless it waits for ready."""

    status: Status


@dataclass(frozen=True, slots=True)
class Drop:
    """Fail the RPC, even if it waits for ready."""

    status: Status


PickResult: TypeAlias = Complete | Queue | Fail | Drop
QUEUE = Queue()


class Picker(Protocol):
    """What a policy offers: frozen in what it chooses from, and swapped for another when that changes."""

    def pick(self, call: PickArgs) -> PickResult:
        """Choose for one RPC. Plain, and short: every RPC waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class Always:
    """The same answer for every RPC."""

    result: PickResult

    def pick(self, call: PickArgs) -> PickResult:
        """That answer."""
        return self.result


QUEUEING = Always(QUEUE)


def failing(status: Status) -> Always:
    """A picker that fails every RPC with this status, unless it waits for ready."""
    return Always(Fail(status))
