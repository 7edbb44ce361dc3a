"""Metrics of calls and their attempts (A66, A89, A96, A108), and of their sessions.

Instruments with their labels are series, which are made once and not for each call.
"""

from __future__ import annotations

from typing import TypeAlias

import trio
from msgspec import Struct
from opentelemetry.context import Context

from trxds.core.observe import (
    AttemptObserver,
    CallObserver,
    Locate,
    Pick,
    SessionHostChanged,
    SessionPick,
)
from trxds.core.status import Status, StatusCode

from . import instruments as of
from .measurement_buffer import MeasurementBuffer
from .meters import Meters, Series
from .semconv import call_labels, status_labels

# None where the instrument is not enabled.
AttemptSeries: TypeAlias = tuple[Series | None, Series | None, Series | None]
"""The duration of attempts, and the bytes that they sent and received."""
CallSeries: TypeAlias = tuple[Series | None, Series | None]
"""The duration of calls by gRPC's name, and by OpenTelemetry's."""

_MAX_CACHED_METHODS = 1000
_MAX_CACHED_ATTEMPTS = 1000


class MethodSeries:
    """The series of a channel's calls of one method; `labels` are those that all its instruments have."""

    __slots__ = ("_attempts", "_calls", "_meters", "labels", "started")

    def __init__(self, meters: Meters, target: str, method: str, custom: str) -> None:
        self.labels = {of.METHOD: method, of.TARGET: target, of.CUSTOM: custom}
        self.started = meters.series(of.ATTEMPT_STARTED, self.labels)
        self._meters = meters
        self._calls: dict[StatusCode, CallSeries] = {}
        self._attempts: dict[tuple[StatusCode, str, str], AttemptSeries] = {}

    def call(self, code: StatusCode) -> CallSeries:
        """Return the series of calls that end with that status."""
        series = self._calls.get(code)
        if series is None:
            labels = {**call_labels(self.labels[of.METHOD], self.labels[of.TARGET]), **status_labels(code.name)}
            series = (
                self._meters.series(of.CALL_DURATION, {**self.labels, of.STATUS: code.name}),
                self._meters.series(of.RPC_DURATION, labels),
            )
            self._calls[code] = series
        return series

    def attempt(self, code: StatusCode, backend: str, locality: str) -> AttemptSeries:
        """Return the series of attempts at such a host that end with that status."""
        key = code, backend, locality
        series = self._attempts.get(key)
        if series is None:
            # Clusters come and go while a channel lives.
            if len(self._attempts) >= _MAX_CACHED_ATTEMPTS:
                self._attempts.clear()
            labels = {**self.labels, of.STATUS: code.name, of.BACKEND: backend, of.LOCALITY: locality}
            make = self._meters.series
            series = make(of.ATTEMPT_DURATION, labels), make(of.SENT, labels), make(of.RECEIVED, labels)
            self._attempts[key] = series
        return series


class CallsOfChannel:
    """What all calls of one channel share: meters, target, options, and measurements that wait to be recorded."""

    __slots__ = ("_methods", "attempt_class", "buffer", "locate", "meters", "now", "per_host", "sessions", "target")

    def __init__(self, meters: Meters, target: str, locate: Locate) -> None:
        self.meters = meters
        self.target = target
        self.locate = locate
        self.buffer = MeasurementBuffer()
        self.now = trio.lowlevel.current_clock().current_time  # what `trio.current_time` calls by way of two others
        self.per_host = meters.has_label(of.LOCALITY)
        # Without a label of the host there is no need to see the picks.
        self.attempt_class = HostMetrics if self.per_host or meters.has_label(of.BACKEND) else AttemptMetrics
        self.sessions = meters.has(of.SESSIONS_CREATED, of.SESSIONS_REPINNED, of.SESSIONS_LOST, of.SESSION_PICKS)
        self._methods: dict[tuple[str, str], MethodSeries] = {}

    def series(self, labels: tuple[str, str]) -> MethodSeries:
        """Return the series of calls with this method and this custom label."""
        series = self._methods.get(labels)
        if series is None:
            # The custom label may be anything that the program makes of a call.
            if len(self._methods) >= _MAX_CACHED_METHODS:
                self._methods.clear()
            self._methods[labels] = series = MethodSeries(self.meters, self.target, *labels)
        return series


class CallMetrics(Struct, CallObserver, eq=False):
    """This observer records the metrics of one call into its `series`.

    Their exemplars have the span that was current where the call began, as its own span has it for a parent.
    """

    channel: CallsOfChannel
    series: MethodSeries
    context: Context
    _in_session: bool
    _began: float
    _ended_at: float  # an attempt
    cluster: str = ""
    hedged: bool = False
    _active: int = 0  # attempts
    _retries: int = 0
    _hedges: int = 0
    _transparent: int = 0
    _delay: float = 0.0  # between attempts
    _lost: str = ""  # why its session's host could not be used, as long as no other one has answered

    def routed(self, cluster: str, hedged: bool) -> None:
        self.cluster, self.hedged = cluster, hedged

    def attempt(self, previous: int, transparent: bool) -> AttemptMetrics:
        channel = self.channel
        channel.buffer.started.append(self.series.started)
        now = channel.now()
        if transparent:
            # A96: apart from retries. No server has seen the attempt before, and no policy asked for this one.
            self._transparent += 1
        elif self.hedged:
            # A96: also apart; under hedgingPolicy each attempt but the first is one.
            self._hedges += previous > 0
        else:
            self._retries += previous > 0
        # A96 counts time in which the call had no attempt at all; hedged ones may overlap.
        if not self._active and (previous or transparent):
            self._delay += now - self._ended_at
        self._active += 1
        return channel.attempt_class(self, now)

    def attempt_ended(self, now: float) -> None:
        self._active -= 1
        self._ended_at = now

    def settled(self, place: SessionHostChanged) -> None:
        channel = self.channel
        self._lost = ""
        if not channel.sessions:
            return
        if place.before:
            channel.meters.record(
                of.SESSIONS_REPINNED, 1, {**self.series.labels, of.REASON: place.reason}, self.context
            )
        elif self._in_session:  # a call without one is given a cookie too, and nobody may keep it
            channel.meters.record(of.SESSIONS_CREATED, 1, self.series.labels, self.context)

    def session_picked(self, pick: SessionPick) -> None:
        if not self.channel.sessions:
            return
        labels = {**self.series.labels, of.RESULT: pick.result, of.REASON: pick.reason}
        self.channel.meters.record(of.SESSION_PICKS, 1, labels, self.context)
        # A session without a host loses none: a new one, one that was released, or whose cookie's time is over.
        self._lost = pick.reason if pick.wanted else ""

    def ended(self, status: Status) -> None:
        channel, series = self.channel, self.series
        seconds = channel.now() - self._began
        channel.buffer.put(series.call(status.code), (seconds, seconds), self.context)
        if self._retries or self._hedges or self._transparent:
            self._record_repetitions()
        if self._lost and not status.ok:
            channel.meters.record(of.SESSIONS_LOST, 1, {**series.labels, of.REASON: self._lost}, self.context)

    def _record_repetitions(self) -> None:
        for instrument, number in (
            (of.RETRIES, self._retries),
            (of.HEDGES, self._hedges),
            (of.TRANSPARENT_RETRIES, self._transparent),
            (of.RETRY_DELAY, self._delay),
        ):
            # A96: 0 is not recorded, or the calls that went well would fill the histogram.
            if number:
                self.channel.meters.record(instrument, number, self.series.labels, self.context)


class AttemptMetrics(Struct, AttemptObserver, eq=False):
    """This observer records the metrics of one attempt."""

    _call: CallMetrics
    _began: float
    _sent: int = 0
    _received: int = 0

    def session_picked(self, pick: SessionPick) -> None:
        self._call.session_picked(pick)

    def sent(self, size: int, wire_size: int) -> None:
        self._sent += wire_size

    def received(self, size: int, wire_size: int) -> None:
        self._received += wire_size

    def ended(self, status: Status, backend: str = "", locality: str = "") -> None:
        call, channel = self._call, self._call.channel
        now = channel.now()
        # A66: once for an attempt, the sum of its messages as they were compressed.
        values = now - self._began, self._sent, self._received
        channel.buffer.put(call.series.attempt(status.code, backend, locality), values, call.context)
        call.attempt_ended(now)


class HostMetrics(AttemptMetrics, eq=False):
    """An attempt whose metrics have labels of its host. Until a pick says more, the backend is the cluster (A89)."""

    _backend: str = ""
    _locality: str = ""  # A78: without a host there is none, and the label is empty

    def __post_init__(self) -> None:
        self._backend = self._call.cluster

    def no_host(self, backend: str) -> None:
        self._backend, self._locality = backend, ""

    def picked(self, pick: Pick) -> None:
        channel = self._call.channel
        self._backend = pick.backend
        # A78: of the pick, for the host may have left its cluster by the end of the attempt.
        self._locality = channel.locate(pick.address, pick.backend).locality if channel.per_host else ""

    def ended(self, status: Status, backend: str = "", locality: str = "") -> None:
        super().ended(status, self._backend, self._locality)
