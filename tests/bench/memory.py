"""Memory by the number of endpoints, ours beside grpcio's: of those that nobody calls, and of connected ones.

make bench        or        python tests/bench/memory.py [--rounds 3] [--small]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import cores
from process import child
from scale import GRPCIO, TRXDS
from scale_runs import Stage, memory_of_idle, memory_of_ready, stage

METHOD_TEXT = """
Memory by endpoints: resident bytes that so many endpoints of one cluster add to a client that has another cluster
already. "idle": nobody calls them; "connected": each has a connection over loopback, to one server. Each figure is the
median of {rounds} runs, each in a fresh process, the clients by turns.
"""

IDLE, CONNECTED = (100, 1_000, 10_000), (10, 100, 1_000)
SMALL_IDLE, SMALL_CONNECTED = (50, 100), (5, 10)


@dataclass(frozen=True)
class Series:
    """Bytes in each run, by client."""

    kind: str
    endpoints: int
    runs: dict[str, list[float]] = field(default_factory=dict)


def print_memory(rounds: int, *, small: bool = False) -> list[dict[str, Any]]:
    """Print the table; returns all runs."""
    print(METHOD_TEXT.format(rounds=rounds))
    print(f"{'endpoints':22} {'trxds':>12} {'grpcio':>12} {'ratio':>8}", flush=True)
    found = []
    with child("server.py", "0.0.0.0", core=cores.SERVER) as server:
        for kind, scenario, sizes in (
            ("idle", memory_of_idle, SMALL_IDLE if small else IDLE),
            ("connected", memory_of_ready, SMALL_CONNECTED if small else CONNECTED),
        ):
            for size in sizes:
                series = Series(kind, size)
                measure(series, scenario, server.address, rounds)
                print_row(series)
                found.append(asdict(series))
    return found


def measure(series: Series, scenario: Callable[[Stage, int], float], address: str, rounds: int) -> None:
    for _ in range(rounds):
        for client in (TRXDS, GRPCIO):
            with stage(client.script, (), address, "") as at:
                series.runs.setdefault(client.name, []).append(scenario(at, series.endpoints))


def print_row(series: Series) -> None:
    ours, theirs = (statistics.median(series.runs[client.name]) / 1024 for client in (TRXDS, GRPCIO))
    beside = f"{ours / theirs:8.2f} x" if theirs else ""  # a few endpoints can fit into pages that were there
    print(f"{series.endpoints:>10,} {series.kind:11} {ours:9,.0f} KB {theirs:9,.0f} KB {beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="small numbers, to see that it runs")
    options = parser.parse_args()
    print_memory(options.rounds, small=options.small)


if __name__ == "__main__":
    main()
