"""What trxds is to reach, as ratios to other clients in the same run; docs/measuring.md has which of them it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

READINGS = {
    "cpu": "CPU",
    "p50": "median latency",
    "p99": "99th percentile",
    "rps": "RPCs a second",
    "sent": "bytes sent",
}
MORE_IS_BETTER = {"rps"}


@dataclass(frozen=True)
class Goal:
    """trxds divided by client `of`, with so many RPCs at a time: no worse than `ratio`."""

    reading: str
    server: str
    concurrency: int
    of: str
    ratio: float

    def concerns(self, series: Mapping[str, Any]) -> bool:
        return (series["server"], series["concurrency"]) == (self.server, self.concurrency)

    def is_met(self, measured: float) -> bool:
        """By what the table shows, which is two digits."""
        measured = round(measured, 2)
        return measured >= self.ratio if self.reading in MORE_IS_BETTER else measured <= self.ratio


def _goals(reading: str, server: str, of: str, ratios: Mapping[int, float]) -> list[Goal]:
    return [Goal(reading, server, concurrency, of, ratio) for concurrency, ratio in ratios.items()]


_POOL, _AIO, _GO = "grpcio thread pool", "grpc.aio", "grpc-go"

GOALS = (
    *_goals("cpu", _GO, "grpc-go", {1: 1.1, 8: 1.5, 50: 1.15}),
    *_goals("cpu", _GO, "grpc.aio", {1: 0.35, 8: 0.35, 50: 0.3}),
    *_goals("p50", _GO, "grpc.aio", {1: 0.4, 8: 0.4, 50: 0.4}),
    *_goals("p99", _GO, "grpc.aio", {1: 0.5, 8: 0.5, 50: 0.5}),
    *_goals("rps", _POOL, "grpc.aio", {20: 1.2, 50: 1.4}),
    # No less than it was.
    *_goals("rps", _AIO, "grpc.aio", {1: 1.4, 5: 1.25, 20: 1.35, 50: 1.2}),
    *_goals("rps", _GO, "grpc.aio", {1: 2.1, 8: 1.6, 50: 2.0}),
)
