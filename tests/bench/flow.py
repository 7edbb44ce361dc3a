"""Large messages and long streams, beside grpcio, near and far: python tests/bench/flow.py [--rounds 5] [--small]"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from statistics import median
from typing import TypeAlias

import cores
from process import HERE, child

Figures: TypeAlias = dict[str, float]

METHOD_TEXT = """
Large messages and long streams: CPU and wall of one call with 1 MiB each way, one after the other, and of one
message of 100 bytes in a server's stream. Each client has a channel to one address, and no xDS. "ms away": behind a
process that hands everything on later, there and back. Each figure is the median of {rounds} runs, each in a fresh
process, the clients by turns.
"""

CLIENTS = {"trxds": "flow_client_trxds.py", "grpcio aio": "flow_client_grpcio.py"}
YARDSTICK = "grpcio aio"
ROUND_TRIPS = (0.0, 0.010, 0.050)  # seconds
KINDS = {"echo": "1 MiB both ways", "count": "100 bytes in a stream"}


def print_flow(rounds: int, *, small: bool = False) -> dict[str, dict[str, list[Figures]]]:
    """Print the table; returns all runs."""
    found = {}
    print(METHOD_TEXT.format(rounds=rounds))
    times = {"echo": 2, "count": 50} if small else {"echo": 30, "count": 10_000}
    print(f"{'':49} CPU µs   of grpcio's      wall µs   of grpcio's")
    with child("flow_server.py", core=cores.SERVER) as server:
        for round_trip in ROUND_TRIPS[: 2 if small else None]:
            with ExitStack() as stack:
                address = server.address
                if round_trip:
                    distance = child("flow_distance.py", address, str(round_trip / 2), core=cores.SERVER)
                    address = stack.enter_context(distance).address
                for kind, count in times.items():
                    where = f"{KINDS[kind]}, {round_trip * 1000:g} ms away"
                    found[where] = measure(address, kind, count, rounds)
                    print_rows(found[where], where)
    return found


def measure(address: str, kind: str, count: int, rounds: int) -> dict[str, list[Figures]]:
    """By client; they take turns."""
    runs: dict[str, list[Figures]] = {name: [] for name in CLIENTS}
    for _ in range(rounds):
        for name, client in CLIENTS.items():
            runs[name].append(run(client, address, kind, count))
    return runs


def run(client: str, address: str, kind: str, count: int) -> Figures:
    command = [sys.executable, str(HERE / client), address, kind, str(count)]
    with cores.children_on(cores.CLIENT):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def print_rows(runs: Mapping[str, list[Figures]], where: str) -> None:
    figures = {name: {what: median(run[what] for run in each) for what in each[0]} for name, each in runs.items()}
    theirs = figures[YARDSTICK]
    for name, ours in figures.items():
        line = f"{where:34} {name:11}"
        for what in ("cpu", "wall"):
            line += f" {ours[what]:9,.0f} {ours[what] / theirs[what]:9.2f} x"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="numbers that mean nothing")
    options = parser.parse_args()
    print_flow(options.rounds, small=options.small)


if __name__ == "__main__":
    main()
