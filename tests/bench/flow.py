"""Large messages and long streams, beside grpcio, near and far: python tests/bench/flow.py [--rounds 5] [--small]"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import ExitStack

from process import HERE, child

CLIENTS = {"trxds": "flow_client_trxds.py", "grpcio aio": "flow_client_grpcio.py"}
ROUND_TRIPS = (0.0, 0.010, 0.050)  # seconds
KINDS = {"echo": "1 MiB both ways", "count": "100 bytes in a stream"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="numbers that mean nothing")
    options = parser.parse_args()
    times = {"echo": 2, "count": 50} if options.small else {"echo": 30, "count": 10_000}
    print(f"{'':44} CPU µs       wall µs   of one call or message")
    with child("flow_server.py") as server:
        for round_trip in ROUND_TRIPS[: 2 if options.small else None]:
            with ExitStack() as stack:
                address = server.address
                if round_trip:
                    distance = child("flow_distance.py", address, str(round_trip / 2))
                    address = stack.enter_context(distance).address
                for kind, count in times.items():
                    print_rows(address, kind, count, round_trip, options.rounds)


def print_rows(address: str, kind: str, count: int, round_trip: float, rounds: int) -> None:
    """The clients take turns; medians."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    for _ in range(rounds):
        for name, client in CLIENTS.items():
            runs[name].append(measure(client, address, kind, count))
    for name, figures in runs.items():
        cpu, wall = (statistics.median(figure[what] for figure in figures) for what in ("cpu", "wall"))
        where = f"{KINDS[kind]}, {round_trip * 1000:g} ms away"
        print(f"{where:32} {name:11} {cpu:7,.0f} {wall:13,.0f}", flush=True)


def measure(client: str, address: str, kind: str, count: int) -> dict[str, float]:
    command = [sys.executable, str(HERE / client), address, kind, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    main()
