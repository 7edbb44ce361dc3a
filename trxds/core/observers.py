"""`Observers` fans the events of one channel out to all of its observers, and logs their exceptions.

Observers may be added and removed at any time. Rare events are always sent; before a frequent one, or one whose data
must be collected first, the sender checks `active`.

The sender of a frequent event of a call or an attempt checks `wanted` first: the events whose methods the classes of
their observers override. An observer whose class overrides none is not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from msgspec import Struct

from .arguments import check_type
from .metadata import EMPTY, Metadata, Value, check
from .observe import AttemptObserver, CallObserver, CallStarted, Locate, Observer, Telemetry
from .status import Status

_log = logging.getLogger("trxds.observers")

Event = TypeVar("Event", bound=Callable[..., None])

NO_EVENTS: frozenset[str] = frozenset()
_MAX_KNOWN_CLASSES = 100


class ObserverErrors:
    """`ObserverErrors` logs the exceptions of observers, once for each class of observer."""

    __slots__ = ("_logged",)

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def __call__(self, observer: object, event: str) -> None:
        # By class, because each call has observers of its own, and would be logged again.
        name = type(observer).__qualname__
        if name not in self._logged:
            self._logged.add(name)
            _log.exception(
                "observer %s raised an exception in %s; it stays registered, and this is logged once", name, event
            )


class OverriddenEvents(dict[type, frozenset[str]]):
    """The events of `base` that a class overrides, or has without being a subclass; found out once for each class."""

    def __init__(self, base: type) -> None:
        super().__init__()
        self._events = {name: method for name, method in vars(base).items() if not name.startswith("_")}

    def __missing__(self, cls: type) -> frozenset[str]:
        # A program may make a class for each of its calls, and those are not kept for ever.
        if len(self) >= _MAX_KNOWN_CLASSES:
            self.clear()
        events = self._events.items()
        self[cls] = found = frozenset(name for name, method in events if getattr(cls, name, None) is not method)
        return found


def _fan_out(event: Event) -> Event:
    """Return the method that sends this event to each of several observers.

    An exception of one is logged and does not affect the others. Events that every unary call has do not use this: five
    of them took 3 % of a call's time here.
    """
    name = event.__name__

    def send(self: Any, *args: object) -> None:
        for each in self._each:
            try:
                getattr(each, name)(*args)
            # Not BaseException: Trio's Cancelled must end the task that this runs in.
            except Exception:
                self._log_error(each, name)

    return cast(Event, send)


class Observers(Observer):
    """The observers of one channel; it is an `Observer` itself.

    `log` gets the rare events before them. It is no reason to collect what only the frequent ones need: without
    observers an RPC costs the same with it.
    """

    __slots__ = ("_each", "_log", "_log_error", "_overridden", "active", "of_calls")

    def __init__(self, *observers: Observer, log: Observer | None = None) -> None:
        self._log_error = ObserverErrors()
        self._log = log
        self._overridden = OverriddenEvents(Observer), OverriddenEvents(CallObserver), OverriddenEvents(AttemptObserver)
        self.active = False
        """Whether there are observers."""
        self.of_calls: tuple[Observer, ...] = ()
        """The observers that override `call`."""
        self._replace(observers if log is None else (log, *observers))

    def __repr__(self) -> str:
        return f"<Observers {len(self._each) - (self._log is not None)}>"

    def add(self, observer: Observer) -> None:
        """Add an observer; it gets no events of calls that are open already."""
        self._replace((*self._each, observer))

    def remove(self, observer: Observer) -> None:
        """Remove an observer; the call observers that it made for open calls stay."""
        self._replace(tuple(each for each in self._each if each is not observer))

    def _replace(self, observers: tuple[Observer, ...]) -> None:
        events, _, _ = self._overridden
        # New tuples, because an observer may add or remove one while an event is sent.
        self._each = observers
        # The log is always there, so it does not make a channel an observed one.
        self.active = any(each is not self._log for each in observers)
        self.of_calls = tuple(each for each in observers if "call" in events[type(each)])

    @contextmanager
    def observed_by(self, observer: Observer) -> Iterator[None]:
        """Add an observer for as long as the block lasts."""
        self.add(observer)
        try:
            yield
        finally:
            self.remove(observer)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Send `closed` when the block ends."""
        try:
            yield
        finally:
            self.closed()

    def call(self, call: CallStarted) -> CallObservers | None:
        _, overridden, of_attempts = self._overridden
        made: list[CallObserver] = []
        wanted = NO_EVENTS
        for each in self.of_calls:
            try:
                observer = each.call(call)
            except Exception:
                self._log_error(each, "call")
                continue
            if observer is not None and (events := overridden[type(observer)]):
                made.append(observer)
                wanted = wanted | events if wanted else events
        # None, so that a call that nobody observes pays one test for each event.
        return CallObservers(made, self._log_error, wanted, of_attempts) if made else None

    closed = _fan_out(Observer.closed)
    session_opened = _fan_out(Observer.session_opened)
    session_closed = _fan_out(Observer.session_closed)
    session_changed = _fan_out(Observer.session_changed)
    mirrored = _fan_out(Observer.mirrored)
    xds_connected = _fan_out(Observer.xds_connected)
    xds_failed = _fan_out(Observer.xds_failed)
    xds_disconnected = _fan_out(Observer.xds_disconnected)
    xds_request_sent = _fan_out(Observer.xds_request_sent)
    xds_response_received = _fan_out(Observer.xds_response_received)
    xds_resource = _fan_out(Observer.xds_resource)
    connection_failed = _fan_out(Observer.connection_failed)
    connection_opened = _fan_out(Observer.connection_opened)
    connection_closed = _fan_out(Observer.connection_closed)
    weights = _fan_out(Observer.weights)
    outlier = _fan_out(Observer.outlier)


def observe(observers: Observers, telemetry: Telemetry | Iterable[Telemetry], target: str, locate: Locate) -> None:
    """Add an observer of each telemetry, made for that target."""
    for each in telemetry if isinstance(telemetry, Iterable) else (telemetry,):
        form = "an object such as trxds.otel.telemetry(...), or several in a list"
        check_type("telemetry", each, Telemetry, form)
        observers.add(each.observe(target, locate))


class CallObservers(Struct, CallObserver, eq=False):
    """The observers of one call; `wanted` are the events that one of them overrides."""

    _each: Sequence[CallObserver]
    _log_error: ObserverErrors
    wanted: frozenset[str]
    _overridden: OverriddenEvents  # by observers of attempts

    resolution_delayed = _fan_out(CallObserver.resolution_delayed)
    backing_off = _fan_out(CallObserver.backing_off)
    settled = _fan_out(CallObserver.settled)

    def routed(self, cluster: str, hedged: bool) -> None:
        for each in self._each:
            try:
                each.routed(cluster, hedged)
            except Exception:
                self._log_error(each, "routed")

    def attempt(self, previous: int, transparent: bool) -> AttemptObservers | None:
        made: list[AttemptObserver] = []
        wanted = NO_EVENTS
        for each in self._each:
            try:
                observer = each.attempt(previous, transparent)
            except Exception:
                self._log_error(each, "attempt")
                continue
            if observer is not None and (events := self._overridden[type(observer)]):
                made.append(observer)
                wanted = wanted | events if wanted else events
        return AttemptObservers(made, self._log_error, wanted) if made else None

    def ended(self, status: Status) -> None:
        for each in self._each:
            try:
                each.ended(status)
            except Exception:
                self._log_error(each, "ended")


class AttemptObservers(Struct, AttemptObserver, eq=False):
    """The observers of one attempt; `wanted` are the events that one of them overrides."""

    _each: Sequence[AttemptObserver]
    _log_error: ObserverErrors
    wanted: frozenset[str]

    def headers(self) -> Metadata:
        found = EMPTY
        for each in self._each:
            added = self._headers_of(each)
            if found and added:
                names = {name for name, _ in added}
                added = Metadata((*(pair for pair in found if pair[0] not in names), *added))
            found = added or found
        return found

    def _headers_of(self, observer: AttemptObserver) -> Metadata:
        """Return an observer's valid headers. An invalid one is logged as its error, and does not fail the RPC."""
        headers: tuple[tuple[str, Value], ...] = ()
        try:
            headers = tuple(observer.headers())
            return check(headers) if headers else EMPTY
        except Exception:
            self._log_error(observer, "headers")
        return Metadata(pair for each in headers for pair in _valid(each))

    no_host = _fan_out(AttemptObserver.no_host)
    delayed = _fan_out(AttemptObserver.delayed)
    picked = _fan_out(AttemptObserver.picked)
    session_picked = _fan_out(AttemptObserver.session_picked)

    def sent(self, size: int, wire_size: int) -> None:
        for each in self._each:
            try:
                each.sent(size, wire_size)
            except Exception:
                self._log_error(each, "sent")

    def received(self, size: int, wire_size: int) -> None:
        for each in self._each:
            try:
                each.received(size, wire_size)
            except Exception:
                self._log_error(each, "received")

    def ended(self, status: Status) -> None:
        for each in self._each:
            try:
                each.ended(status)
            except Exception:
                self._log_error(each, "ended")


def _valid(pair: tuple[str, Value]) -> Sequence[tuple[str, Value]]:
    try:
        return check((pair,))
    except (TypeError, ValueError):
        return ()
