"""Measurements of calls wait here, until many of them are recorded at once.

The SDK is written in Python, and nothing in OpenTelemetry's API records several values of a histogram by one call. But
a value is recorded much faster in a loop that does nothing else than in the middle of a call, and a counter takes the
sum of many calls.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeVar

import trio
from opentelemetry.context import Context

from .meters import NO_CONTEXT, Series

FLUSH_SIZE = 64
"""So many entries do not wait for the next collection; a unary call has two."""

_log = logging.getLogger("trxds.observers")

Entry = TypeVar("Entry")


class MeasurementBuffer:
    """The measurements of one channel that are not recorded yet.

    They are recorded before each collection, when there are `FLUSH_SIZE`, and when the channel closes. Collections run
    in threads of the SDK. No lock is needed, because the two ends of a deque may be used by several threads, also
    without the GIL: each measurement is taken by one of the threads that flush.
    """

    __slots__ = ("_has_failed", "_is_scheduled", "_waiting", "started")

    def __init__(self) -> None:
        self.started: deque[Series | None] = deque()
        """The counter of each attempt that has begun; None counts nothing. An entry follows when the attempt ends."""
        self._waiting: deque[tuple[Iterable[Series | None], Iterable[float], Context]] = deque()
        self._is_scheduled = False
        self._has_failed = False

    def put(self, series: Iterable[Series | None], values: Iterable[float], context: Context) -> None:
        """Add an entry: a value for each of the histograms, in the thread of the channel. None takes no value."""
        waiting = self._waiting
        waiting.append((series, values, context))
        if len(waiting) >= FLUSH_SIZE and not self._is_scheduled:
            # Not now: the call that came last would wait for what all of them left. Its caller goes on first.
            trio.lowlevel.current_trio_token().run_sync_soon(self._flush_scheduled)
            self._is_scheduled = True

    def _flush_scheduled(self) -> None:
        self._is_scheduled = False
        self.flush()

    def flush(self) -> None:
        """Record what waits by now, in any thread. Does not raise."""
        # A sum over calls belongs to none of them, so counters have no exemplars.
        sums = [((counter,), (number,), NO_CONTEXT) for counter, number in Counter(_taken(self.started)).items()]
        for entry, values, context in chain(sums, _taken(self._waiting)):
            for series, value in zip(entry, values, strict=True):
                if series is not None:
                    try:
                        series.take(value, series.labels, context)
                    except Exception:
                        self._log_failure()

    def _log_failure(self) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.exception("a measurement of calls could not be recorded; this is logged once for each channel")


def _taken(waiting: deque[Entry]) -> Iterator[Entry]:
    """Take what is there by now."""
    for _ in range(len(waiting)):
        try:
            yield waiting.popleft()
        except IndexError:
            return  # another thread flushes too
