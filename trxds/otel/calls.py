"""Metrics of calls and their attempts (A66, A89, A96, A108), and of their sessions."""

from __future__ import annotations

import trio

from trxds.core.observe import (
    AttemptObserver,
    CallObserver,
    Locate,
    Pick,
    SessionHostChanged,
    SessionPick,
)
from trxds.core.status import Status

from . import instruments as of
from .meters import Meters
from .semconv import call_labels, status_labels

NO_COOKIE = "no_cookie"  # a session that has no host yet, and so loses none


class CallsOfChannel:
    """The meters, the target and the options that all calls of one channel share."""

    __slots__ = ("locate", "meters", "per_host", "sessions", "target")

    def __init__(self, meters: Meters, target: str, locate: Locate) -> None:
        self.meters = meters
        self.target = target
        self.locate = locate
        self.per_host = meters.has_label(of.LOCALITY)
        self.sessions = meters.has(of.SESSIONS_CREATED, of.SESSIONS_REPINNED, of.SESSIONS_LOST, of.SESSION_PICKS)


class CallMetrics(CallObserver):
    """This observer records the metrics of one call. `labels` are the labels that all its instruments have."""

    __slots__ = (
        "_active",
        "_began",
        "_delay",
        "_ended_at",
        "_hedges",
        "_in_session",
        "_lost",
        "_retries",
        "_transparent",
        "channel",
        "cluster",
        "hedged",
        "labels",
    )

    def __init__(self, channel: CallsOfChannel, method: str, custom: str, in_session: bool) -> None:
        self.channel = channel
        self.cluster = ""
        self.hedged = False
        self.labels = {of.METHOD: method, of.TARGET: channel.target, of.CUSTOM: custom}
        self._began = self._ended_at = trio.current_time()
        self._active = 0  # attempts
        self._retries = self._hedges = self._transparent = 0
        self._delay = 0.0  # between attempts
        self._in_session = in_session
        self._lost = ""  # why its session's host could not be used, as long as no other one has answered

    def routed(self, cluster: str, hedged: bool) -> None:
        self.cluster, self.hedged = cluster, hedged

    def attempt(self, previous: int, transparent: bool) -> AttemptMetrics:
        self.channel.meters.record(of.ATTEMPT_STARTED, 1, self.labels)
        now = trio.current_time()
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
        return AttemptMetrics(self, now)

    def attempt_ended(self) -> None:
        self._active -= 1
        self._ended_at = trio.current_time()

    def settled(self, place: SessionHostChanged) -> None:
        channel = self.channel
        self._lost = ""
        if not channel.sessions:
            return
        if place.before:
            channel.meters.record(of.SESSIONS_REPINNED, 1, {**self.labels, of.REASON: place.reason})
        elif self._in_session:  # a call without one is given a cookie too, and nobody may keep it
            channel.meters.record(of.SESSIONS_CREATED, 1, self.labels)

    def session_picked(self, pick: SessionPick) -> None:
        if not self.channel.sessions:
            return
        labels = {**self.labels, of.RESULT: pick.result, of.REASON: pick.reason}
        self.channel.meters.record(of.SESSION_PICKS, 1, labels)
        self._lost = "" if pick.reason == NO_COOKIE else pick.reason

    def ended(self, status: Status) -> None:
        meters, code = self.channel.meters, status.code.name
        seconds = trio.current_time() - self._began
        meters.record(of.CALL_DURATION, seconds, {**self.labels, of.STATUS: code})
        for instrument, number in (
            (of.RETRIES, self._retries),
            (of.HEDGES, self._hedges),
            (of.TRANSPARENT_RETRIES, self._transparent),
            (of.RETRY_DELAY, self._delay),
        ):
            # A96: 0 is not recorded, or the calls that went well would fill the histogram.
            if number:
                meters.record(instrument, number, self.labels)
        if self._lost and not status.ok:
            meters.record(of.SESSIONS_LOST, 1, {**self.labels, of.REASON: self._lost})
        if meters.has(of.RPC_DURATION):
            meters.record(
                of.RPC_DURATION,
                seconds,
                {**call_labels(self.labels[of.METHOD], self.channel.target), **status_labels(code)},
            )


class AttemptMetrics(AttemptObserver):
    """This observer records the metrics of one attempt.

    Until a host is picked, the backend is the route's cluster (A89).
    """

    __slots__ = ("_address", "_backend", "_began", "_call", "_received", "_sent")

    def __init__(self, call: CallMetrics, now: float) -> None:
        self._call = call
        self._began = now
        self._sent = self._received = 0
        self._backend = call.cluster
        self._address = ""

    def picked(self, pick: Pick) -> None:
        self._address, self._backend = pick.address, pick.backend

    def session_picked(self, pick: SessionPick) -> None:
        self._call.session_picked(pick)

    def sent(self, size: int, wire_size: int) -> None:
        self._sent += wire_size

    def received(self, size: int, wire_size: int) -> None:
        self._received += wire_size

    def ended(self, status: Status) -> None:
        call, meters = self._call, self._call.channel.meters
        labels = {**call.labels, of.STATUS: status.code.name, of.BACKEND: self._backend}
        # A78: without a host there is no locality; the label is empty then.
        if call.channel.per_host and self._address:
            labels[of.LOCALITY] = call.channel.locate(self._address, self._backend).locality
        meters.record(of.ATTEMPT_DURATION, trio.current_time() - self._began, labels)
        # A66: once for an attempt, the sum of its messages as they were compressed.
        meters.record(of.SENT, self._sent, labels)
        meters.record(of.RECEIVED, self._received, labels)
        call.attempt_ended()
