"""A pick chooses a host for one attempt of an RPC; it has four possible results (C-core's `PickResult`).

Pickers are nested synchronous functions over frozen data, without a checkpoint (docs/architecture.md). A pick explains
itself: with a `Trace`, the same functions note what they choose and why, and change nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from msgspec import Struct

from trxds.core.metadata import EMPTY, Metadata, Value
from trxds.core.random_copies import RandomCopies
from trxds.core.status import Status
from trxds.resolver.routes import BoundRoute

from .first_pass import FirstPass
from .interfaces import SubchannelInterface

_log = logging.getLogger("trxds.lb")


@dataclass(slots=True)
class Override:
    """The override-host attribute of an RPC (A55, A61), set whenever a session filter is active.

    `addresses` are the cookie's, in order, perhaps none. The pick sets `actual_address_list`: the addresses of the
    chosen endpoint, joined by commas, the connected one first. With `strict` the RPC fails when none of `addresses` can
    be used (Envoy's `StatefulSession.strict`); `fallback_reason` says why none could, strict or not. `avoid` is the
    address of a host that the session leaves on purpose, so that any other one is chosen. `spread_until` is the time
    until which a session's first RPC may wait for the other hosts (`first_pass.py`); other RPCs never do. `pinned` is
    the READY host of a pinned call, which goes nowhere else.
    """

    addresses: tuple[str, ...] = ()
    actual_address_list: str = ""
    strict: bool = False
    fallback_reason: str = ""
    avoid: str = ""
    spread_until: float = -math.inf
    pinned: SubchannelInterface | None = None


class PickArgs(Struct):
    """An RPC as filters and pickers see it.

    `path` is its `:path`, `now` the time of the pick in seconds on Trio's clock. A filter may switch `cluster` to
    another one of `route` (A60) and set `override`. `hash` is the request hash, or None if no hash policy yields one; a
    policy that needs one draws it and stores it here, so that a further attempt has the same (A42). `session_headers`
    are the response headers, other than cookies, that a session has to send back. `drop_draws` are the numbers drawn
    for the drops of EDS (A27), kept as long as the attempt waits. A pick without a host sets `backend` to the cluster
    that had none: a leaf, if `cluster` is an aggregate (A89). With a `trace` there is no RPC: the pick only explains
    itself.
    """

    path: str
    metadata: Metadata = EMPTY
    route: BoundRoute | None = None
    cluster: str = ""
    override: Override | None = None
    session_headers: tuple[str, ...] = ()
    hash: int | None = None
    now: float = 0.0
    drop_draws: list[float] | None = None
    backend: str = ""
    trace: Trace | None = None


class Tracker(Protocol):
    """An object that is called when an attempt's stream opens and when it ends, to count load, failures or RPCs."""

    def began(self) -> None:
        """The attempt's stream is open."""

    def ended(self, status: Status, trailing: Metadata, now: float) -> None:
        """The stream has ended at `now`, in seconds on Trio's clock.

        `trailing` are the server's trailers, perhaps with its load report (A51).
        """


def notify_began(trackers: Iterable[Tracker], path: str) -> None:
    """Call the trackers of an attempt whose stream is open; exceptions are logged, for one may be the user's own."""
    for tracker in trackers:
        try:
            tracker.began()
        except Exception:
            _log.exception("tracker %r raised at the start of the RPC to %s", tracker, path)


def notify_ended(trackers: Iterable[Tracker], path: str, status: Status, trailing: Metadata, now: float) -> None:
    """Call the trackers of an attempt whose stream has ended, as `notify_began` does."""
    for tracker in trackers:
        try:
            tracker.ended(status, trailing, now)
        except Exception:
            _log.exception("tracker %r raised at the end of the RPC to %s", tracker, path)


@dataclass(slots=True)  # not frozen: some are made for each RPC, and freezing costs more than the rest of it
class Complete:
    """The pick's result is this host; `trackers` are called when the attempt begins and ends. Never change one.

    An `authority` replaces the channel's as the RPC's `:authority`, unless the caller has chosen one (A81). `metadata`
    are pairs that the RPC's host gets behind the caller's.
    """

    host: SubchannelInterface
    trackers: tuple[Tracker, ...] = ()
    authority: str = ""
    metadata: Sequence[tuple[str, Value]] = EMPTY
    # The tracker that `with_tracker` added last, and its result.
    _tracker: Tracker | None = field(default=None, init=False, repr=False, compare=False)
    _with_tracker: Complete | None = field(default=None, init=False, repr=False, compare=False)

    def with_tracker(self, tracker: Tracker) -> Complete:
        """Return this result with one more tracker; adding the same one again returns the same object."""
        # Cached, because each pick of a host adds the same trackers: an RPC allocates nothing here.
        if self._tracker is not tracker or self._with_tracker is None:
            trackers = (*self.trackers, tracker)
            self._tracker, self._with_tracker = tracker, Complete(self.host, trackers, self.authority, self.metadata)
        return self._with_tracker


@dataclass(frozen=True, slots=True)
class Queue:
    """The RPC waits for the next picker, whether it waits for ready or not.

    With a `first_pass` it waits for its end first: it would only wait again after any picker before that.
    """

    first_pass: FirstPass | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """The RPC fails with `status`, unless it waits for ready."""

    status: Status


@dataclass(frozen=True, slots=True)
class Drop:
    """The RPC fails with `status`, even if it waits for ready."""

    status: Status


PickResult: TypeAlias = Complete | Queue | Fail | Drop
"""What a picker returns."""

QUEUE = Queue()


class Picker(Protocol):
    """The part of a policy that chooses hosts; a new picker replaces it when the hosts or their states change."""

    __slots__ = ()

    def pick(self, call: PickArgs) -> PickResult:
        """Choose a host for one RPC. It runs in the RPC's task: it must not block, and be quick."""
        ...


class Explainable:
    """A picker that can explain itself; other pickers are not called for an explanation.

    With `call.trace`, `pick` returns the same as for an RPC and notes why, but counts, leases, reports and connects
    nothing. It takes random numbers from `call.trace.random(...)` and calls children by `call.trace.pick(...)`.
    """

    # No `Picker` by inheritance: structs cannot have a Protocol among their bases, which has a metaclass of its own.
    __slots__ = ()

    def pick(self, call: PickArgs) -> PickResult:
        """Choose a host for one RPC, as `Picker.pick` does."""
        raise NotImplementedError


class WrapperPicker(Explainable):
    """A picker that leaves the choice of the host to its only child, and counts, limits or reports the result."""

    __slots__ = ()

    # `sticky_priority` looks through this attribute for the picker of override_host.
    child: Picker


class TraceNote(Struct, frozen=True):
    """One picker's entry in an explanation: what it saw, what it chose and why.

    `chose` is a child's name, or empty for the only child and for a result. For a queued RPC `waits_for` is what it
    waits for, and `address` that of the host to connect.
    """

    why: str
    chose: str = ""
    saw: str = ""
    waits_for: str = ""
    address: str = ""


class Trace:
    """The notes of one explained pick, from the root's picker down to the one that returned the result."""

    def __init__(self, copies: RandomCopies | None = None) -> None:
        self.notes: list[TraceNote] = []
        self.is_opaque = False  # the pick came to a picker that cannot explain itself
        self.random = (copies or RandomCopies()).of

    def note(self, why: str, chose: str = "", *, saw: str = "", waits_for: str = "", address: str = "") -> None:
        """Note what a picker saw, what it chose (a child's name, or an address), and why."""
        self.notes.append(TraceNote(why, chose, saw, waits_for, address))

    def pick(self, picker: Picker, call: PickArgs) -> PickResult:
        """Pick from a child's picker if it is `Explainable`; otherwise the explanation ends there."""
        if isinstance(picker, Explainable):
            return picker.pick(call)
        # The caller cannot go on from here, so the result does not matter.
        self.is_opaque = True
        return QUEUE


@dataclass(frozen=True, slots=True)
class FixedPicker(Explainable):
    """A picker with the same result for every RPC; `why` and `waits_for` are for explanations."""

    result: PickResult
    why: str = "the result is the same for every RPC"
    waits_for: str = "the tree to change"

    def pick(self, call: PickArgs) -> PickResult:
        """Return the fixed result."""
        if call.trace is not None:
            call.trace.note(self.why, waits_for=self.waits_for)
        return self.result


QUEUE_PICKER = FixedPicker(QUEUE)
"""The picker with which every RPC waits for the next one."""


def transient_failure_picker(status: Status, why: str = "the result is the same for every RPC") -> FixedPicker:
    """Return a picker that fails every RPC with this status, unless it waits for ready."""
    return FixedPicker(Fail(status), why)
