"""`Observers` fans the events of one channel out to all of its observers, and logs their exceptions.

Observers may be added and removed at any time. Rare events are always sent; before a frequent one, or one whose data
must be collected first, the sender checks `active`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Generic, TypeVar

from .metadata import Value, check
from .observe import (
    AttemptObserver,
    CallMirrored,
    CallObserver,
    CallStarted,
    Locate,
    Observer,
    OutlierEvent,
    Pick,
    SessionChanged,
    SessionHostChanged,
    SessionPick,
    Telemetry,
    WrrUpdate,
    XdsRequest,
    XdsResource,
    XdsResponse,
)
from .status import Status

_log = logging.getLogger("trxds.observers")

AnyObserver = TypeVar("AnyObserver")
T = TypeVar("T")


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


class _Fanout(Generic[AnyObserver]):
    """A `_Fanout` sends events to several observers; an exception of one is logged and does not affect the others."""

    __slots__ = ("_each", "_log_error")

    def __init__(self, observers: Sequence[AnyObserver], log_error: ObserverErrors) -> None:
        self._each = observers
        self._log_error = log_error

    def _notify(self, event: str, *args: object) -> None:
        for each in self._each:
            try:
                getattr(each, event)(*args)
            # Not BaseException: Trio's Cancelled must end the task that this runs in.
            except Exception:
                self._log_error(each, event)

    def _collect(self, event: str, function: Callable[[AnyObserver], T | None]) -> list[T]:
        """Return the results of a call to each observer, without None and exceptions."""
        results: list[T] = []
        for each in self._each:
            try:
                result = function(each)
            except Exception:
                self._log_error(each, event)
            else:
                if result is not None:
                    results.append(result)
        return results


class Observers(_Fanout[Observer], Observer):
    """The observers of one channel; it is an `Observer` itself.

    `log` gets the rare events before them. It is no reason to collect what only the frequent ones need: without
    observers an RPC costs the same with it.
    """

    __slots__ = ("_log", "active")

    def __init__(self, *observers: Observer, log: Observer | None = None) -> None:
        super().__init__(observers if log is None else (log, *observers), ObserverErrors())
        self._log = log
        self.active = bool(observers)
        """Whether there are observers."""

    def __repr__(self) -> str:
        return f"<Observers {len(self._each) - (self._log is not None)}>"

    def add(self, observer: Observer) -> None:
        """Add an observer; it gets no events of calls that are open already."""
        # A new tuple, here and below, because an observer may add or remove one while `_notify` iterates.
        self._each = (*self._each, observer)
        self.active = True

    def remove(self, observer: Observer) -> None:
        """Remove an observer; the call observers that it made for open calls stay."""
        self._each = tuple(each for each in self._each if each is not observer)
        self.active = any(each is not self._log for each in self._each)

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
        observers = self._collect("call", lambda each: each.call(call))
        return CallObservers(observers, self._log_error) if observers else None

    def closed(self) -> None:
        self._notify("closed")

    def session_opened(self, number: int) -> None:
        self._notify("session_opened", number)

    def session_closed(self, number: int) -> None:
        self._notify("session_closed", number)

    def session_changed(self, changed: SessionChanged) -> None:
        self._notify("session_changed", changed)

    def mirrored(self, copy: CallMirrored) -> None:
        self._notify("mirrored", copy)

    def xds_connected(self, server: str) -> None:
        self._notify("xds_connected", server)

    def xds_failed(self, server: str, reason: str) -> None:
        self._notify("xds_failed", server, reason)

    def xds_disconnected(self, server: str) -> None:
        self._notify("xds_disconnected", server)

    def xds_request_sent(self, request: XdsRequest) -> None:
        self._notify("xds_request_sent", request)

    def xds_response_received(self, response: XdsResponse) -> None:
        self._notify("xds_response_received", response)

    def xds_resource(self, resource: XdsResource) -> None:
        self._notify("xds_resource", resource)

    def connection_failed(self, address: str, status: Status) -> None:
        self._notify("connection_failed", address, status)

    def connection_opened(self, address: str, security: str) -> None:
        self._notify("connection_opened", address, security)

    def connection_closed(self, address: str, security: str, why: str) -> None:
        self._notify("connection_closed", address, security, why)

    def weights(self, weights: WrrUpdate) -> None:
        self._notify("weights", weights)

    def outlier(self, outlier: OutlierEvent) -> None:
        self._notify("outlier", outlier)


def observe(observers: Observers, telemetry: Telemetry | Iterable[Telemetry], target: str, locate: Locate) -> None:
    """Add an observer of each telemetry, made for that target."""
    for each in telemetry if isinstance(telemetry, Iterable) else (telemetry,):
        observers.add(each.observe(target, locate))


class CallObservers(_Fanout[CallObserver], CallObserver):
    """The observers of one call."""

    __slots__ = ()

    def resolution_delayed(self) -> None:
        self._notify("resolution_delayed")

    def routed(self, cluster: str, hedged: bool) -> None:
        self._notify("routed", cluster, hedged)

    def attempt(self, previous: int, transparent: bool) -> AttemptObservers | None:
        observers = self._collect("attempt", lambda each: each.attempt(previous, transparent))
        return AttemptObservers(observers, self._log_error) if observers else None

    def backing_off(self, seconds: float) -> None:
        self._notify("backing_off", seconds)

    def settled(self, place: SessionHostChanged) -> None:
        self._notify("settled", place)

    def ended(self, status: Status) -> None:
        self._notify("ended", status)


class AttemptObservers(_Fanout[AttemptObserver], AttemptObserver):
    """The observers of one attempt."""

    __slots__ = ()

    def headers(self) -> list[tuple[str, Value]]:
        # Checked here, so that an observer's invalid metadata is logged as its error and does not fail the RPC.
        return [*chain.from_iterable(self._collect("headers", lambda each: check(each.headers())))]

    def delayed(self, why: str) -> None:
        self._notify("delayed", why)

    def picked(self, pick: Pick) -> None:
        self._notify("picked", pick)

    def session_picked(self, pick: SessionPick) -> None:
        self._notify("session_picked", pick)

    def sent(self, size: int, wire_size: int) -> None:
        self._notify("sent", size, wire_size)

    def received(self, size: int, wire_size: int) -> None:
        self._notify("received", size, wire_size)

    def ended(self, status: Status) -> None:
        self._notify("ended", status)
