"""What every client of the bench shares: its orders, its payload, and the meter.

A client is a process of its own. Its orders come as JSON in argv[1], its answer is one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

METHOD = "/bench.Echo/Unary"
PAYLOAD = b"x" * 100


@dataclass(frozen=True)
class Orders:
    """`count` RPCs, `concurrency` at once, after `warmup` that do not count."""

    target: str
    concurrency: int
    count: int
    warmup: int
    cookie: bool
    watch: str = ""  # as `watching.py` knows it

    def shares(self, total: int) -> list[int]:
        """How many RPCs each of the concurrent callers makes."""
        return [total // self.concurrency + (turn < total % self.concurrency) for turn in range(self.concurrency)]


def orders() -> Orders:
    return Orders(**json.loads(sys.argv[1]))


def cookie_in(metadata: object) -> list[tuple[str, str]]:
    """The request metadata that sends back the cookie which a response has set."""
    for key, value in metadata:  # type: ignore[attr-defined]
        if key == "set-cookie":
            return [("cookie", value.partition(";")[0])]
    raise SystemExit("the cookie was not set: is the session filter in the listener?")


@contextmanager
def metered(count: int) -> Iterator[list[float]]:
    """Print microseconds per RPC: CPU (user + system of this process, all threads), and wall time.

    With the seconds that each RPC took in the list, p50 and p99 as well.
    """
    latencies: list[float] = []
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    yield latencies
    after, ended = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    found = {"cpu": cpu / count, "wall": (ended - began) / count}
    if latencies:
        latencies.sort()
        found |= {f"p{percent}": latencies[(len(latencies) - 1) * percent // 100] for percent in (50, 99)}
    print(json.dumps({name: seconds * 1e6 for name, seconds in found.items()}), flush=True)
