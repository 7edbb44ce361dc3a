"""Counts of calls by method and host, second by second, while a viewer wants them.

Latencies are counted in buckets, because those of several seconds, or hosts, can be added up. Medians cannot.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from trxds.core.status import StatusCode

from .messages import PerSecondCalls

MAX_ROWS = 500  # pairs of method and host, for one channel in one second
_PER_OCTAVE = 4  # buckets
_MIN_SECONDS = 1e-6


class Destination(NamedTuple):
    """The method of a call, and its host with the host's cluster."""

    method: str
    cluster: str
    host: str


_OTHERS = Destination("", "", "")


class CallCounts:
    """The calls of one channel that ended in one second."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[Destination, _Row] = {}

    def note(self, destination: Destination, code: str, seconds: float) -> None:
        """Count a call."""
        row = self._rows.get(destination)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                destination = _OTHERS
            row = self._rows.setdefault(destination, _Row())
        row.codes[code] += 1
        row.buckets[math.ceil(_PER_OCTAVE * math.log2(max(seconds, _MIN_SECONDS)))] += 1

    def to_json(self, at: int, channel: str) -> list[PerSecondCalls]:
        """Return one event for each method and host."""
        return [
            {
                "kind": "per_second_calls",
                "time": float(at),
                "channel": channel,
                "method": to.method,
                "cluster": to.cluster,
                "host": to.host,
                "requests": row.codes.total(),
                "errors": {code: number for code, number in sorted(row.codes.items()) if code != StatusCode.OK.name},
                "times": {f"{2 ** (each / _PER_OCTAVE):.3g}": number for each, number in sorted(row.buckets.items())},
            }
            for to, row in self._rows.items()
        ]


class _Row:
    __slots__ = ("buckets", "codes")

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.buckets: Counter[int] = Counter()
