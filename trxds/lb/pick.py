"""One pick: what a picker is told of an RPC, and the four answers it can give.

A pick is nested plain functions over frozen data, without a checkpoint (docs/architecture.md). It explains itself:
given a `Trace`, the same functions note what they choose and why, and leave the world as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from trxds.core.draws import RandomCopies
from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status
from trxds.resolver.routes import BoundRoute

from .interfaces import SubchannelInterface


@dataclass(slots=True)
class Override:
    """The override-host attribute (A55, A61): set whenever a session filter is active.

    `addresses` are the cookie's, in order, perhaps none; `actual` is noted by the pick: the
    address list of the endpoint that was chosen, the connected address first. With `strict` the RPC
    fails when none of `addresses` can be used (Envoy's); `missed` is the reason, strict or not.
    """

    addresses: tuple[str, ...] = ()
    actual_address_list: str = ""
    strict: bool = False
    fallback_reason: str = ""


@dataclass(slots=True)
class PickArgs:
    """The RPC that wants a host, as filters and pickers see it.

    A filter may switch `cluster` to another one of `route` (A60) and set `override`. `hash` is None
    where no hash policy yields one; a policy that needs one draws it and notes it here, so that
    a further attempt of the RPC has the same (A42). `session_headers` are response headers that a
    session has to send back, other than cookies. With a `trace` nobody makes the RPC: the pick only explains itself.
    """

    path: str
    metadata: Metadata = EMPTY
    route: BoundRoute | None = None
    cluster: str = ""
    override: Override | None = None
    session_headers: tuple[str, ...] = ()
    hash: int | None = None
    now: float = 0.0  # seconds on trio's clock
    trace: Trace | None = None


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

    host: SubchannelInterface
    trackers: tuple[Tracker, ...] = ()
    _tracker: Tracker | None = field(default=None, init=False, repr=False, compare=False)  # the last one added, ...
    _more: Complete | None = field(default=None, init=False, repr=False, compare=False)  # ... and what came of it

    def with_tracker(self, tracker: Tracker) -> Complete:
        """The same with one tracker more. Who adds the same one to each pick of a host gets the same answer."""
        if self._tracker is not tracker or self._more is None:
            self._tracker, self._more = tracker, Complete(self.host, (*self.trackers, tracker))
        return self._more


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

    __slots__ = ()

    def pick(self, call: PickArgs) -> PickResult:
        """Choose for one RPC. Plain, and short: every RPC waits for it."""
        ...


class Explainable(Picker):
    """A picker that heeds `call.trace`. Any other picker is not called for an explanation.

    With a trace, `pick` answers as it would for an RPC and notes why, but counts, leases, reports and connects nothing.
    It draws from `call.trace.random(...)`, and reaches its children by `call.trace.pick(...)`.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TraceNote:
    """What one picker saw of the RPC and chose: the child of that name, its only child if it names none, or an end.

    `waits_for` and `address` say what an RPC waits for that is queued.
    """

    why: str
    chose: str = ""
    saw: str = ""
    waits_for: str = ""
    address: str = ""


class Trace:
    """The notes of one explained pick, from the root's picker to the one that answers."""

    def __init__(self, copies: RandomCopies | None = None) -> None:
        self.notes: list[TraceNote] = []
        self.is_opaque = False  # the pick came to a picker that cannot explain itself
        self.random = (copies or RandomCopies()).of

    def note(self, why: str, chose: str = "", *, saw: str = "", waits_for: str = "", address: str = "") -> None:
        self.notes.append(TraceNote(why, chose, saw, waits_for, address))

    def pick(self, picker: Picker, call: PickArgs) -> PickResult:
        """Pick from a child's picker, if it is one that explains itself."""
        if isinstance(picker, Explainable):
            return picker.pick(call)
        self.is_opaque = True
        return QUEUE


@dataclass(frozen=True, slots=True)
class FixedPicker(Explainable):
    """The same answer for every RPC; `why`, and what a queued RPC waits for, are for explanations."""

    result: PickResult
    why: str = "it is so for every RPC"
    waits_for: str = "the tree to change"

    def pick(self, call: PickArgs) -> PickResult:
        """That answer."""
        if call.trace is not None:
            call.trace.note(self.why, waits_for=self.waits_for)
        return self.result


QUEUE_PICKER = FixedPicker(QUEUE)


def transient_failure_picker(status: Status, why: str = "it is so for every RPC") -> FixedPicker:
    """A picker that fails every RPC with this status, unless it waits for ready."""
    return FixedPicker(Fail(status), why)
