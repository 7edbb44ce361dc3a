"""Load reports of hosts, in the ORCA format (A51).

A host may send anything, and its numbers end up in sums and denominators of other values. So they are checked here,
where they are read: a number that cannot be a load counts as not reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import protos
from .extension import parse


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A host's load.

    `utilization` is the application's own measure if set, otherwise the CPU's; 0 is not reported (A58).
    """

    utilization: float = 0.0
    queries: float = 0.0  # per second
    errors: float = 0.0  # per second
    message: Any = field(default=None, repr=False, compare=False)  # the whole report, for metrics by name


def import_messages() -> None:
    """Import the messages of reports now, because the first one may come in the middle of a call, which would wait."""
    _ = protos.OrcaLoadReport


def report_request(period: float) -> bytes:
    """Return the request for a report every `period` seconds."""
    message = protos.OrcaLoadReportRequest()
    message.report_interval.FromNanoseconds(round(period * 1e9))
    return bytes(message.SerializeToString())


def load_report(value: bytes) -> LoadReport | None:
    """Return the report of these bytes; None if they cannot be parsed."""
    message = parse(protos.OrcaLoadReport, value)
    if message is None:
        return None
    return LoadReport(
        _amount(message.application_utilization) or _amount(message.cpu_utilization),
        _amount(message.rps_fractional),
        _amount(message.eps),
        message,
    )


def greatest_metric(report: LoadReport, names: Iterable[str]) -> float:
    """Return the greatest of these metrics of a report, 0 if it has none (A114).

    The names are such as `is_supported_metric` accepts. Numbers that cannot be a load count as not reported.
    """
    return max((_amount(_metric(report.message, name)) for name in names), default=0.0)


def is_supported_metric(name: str) -> bool:
    """Return whether a utilization may be computed from the metric (A114).

    That is `cpu_utilization`, `mem_utilization`, `application_utilization`, or a key of a map: `named_metrics.queue`,
    `utilization.disk`.
    """
    top, period, _ = name.partition(".")
    return top in (_MAPS if period else _UTILIZATIONS)


def _metric(message: Any, name: str) -> float:
    # A114: the first period separates the map from its key, which may have more of them.
    top, period, key = name.partition(".")
    value = getattr(message, top)
    return float(value.get(key, 0.0) if period else value)


def chosen_metrics(value: bytes, names: frozenset[str]) -> Iterator[tuple[str, float]]:
    """Yield the metrics for the control plane (A85): names like `cpu_utilization`, `named_metrics.queue`.

    `named_metrics.*` is all named metrics. A utilization of 0 is not reported; unknown names are ignored. A named
    metric may be negative, since only the application knows its meaning; NaN and infinity are left out of all.
    """
    message = parse(protos.OrcaLoadReport, value) if names else None
    if message is None:
        return
    for name in _UTILIZATIONS & names:
        if number := _amount(getattr(message, name)):
            yield name, number
    # A85: the prefix tells an application's own "cpu_utilization" from the field of that name.
    for key, number in message.named_metrics.items():
        if math.isfinite(number) and (f"{_NAMED}{key}" in names or f"{_NAMED}*" in names):
            yield f"{_NAMED}{key}", number


def _amount(number: float) -> float:
    """Return the number; 0, which means not reported, for NaN, infinity and negative numbers."""
    return number if 0.0 <= number < math.inf else 0.0


_UTILIZATIONS = frozenset({"cpu_utilization", "mem_utilization", "application_utilization"})
_NAMED = "named_metrics."
_MAPS = frozenset({"named_metrics", "utilization"})
