"""The series of calls and attempts: their instruments with labels, which are made once and not for each call."""

from __future__ import annotations

from typing import TypeAlias

from trxds.core.status import StatusCode

from . import instruments as of
from .meters import Meters, Series
from .semconv import call_labels, status_labels

# None where the instrument is not enabled.
AttemptSeries: TypeAlias = tuple[Series | None, Series | None, Series | None]
"""The duration of attempts, and the bytes that they sent and received."""
CallSeries: TypeAlias = tuple[Series | None, Series | None]
"""The duration of calls by gRPC's name, and by OpenTelemetry's."""

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
