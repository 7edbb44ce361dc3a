"""Streams of small messages from Trio, threads and asyncio, beside grpcio.

python tests/bench/streams.py [--rounds 9] [--small]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import TypeAlias

import cores
from process import HERE, child

Figures: TypeAlias = dict[str, float]

METHOD_TEXT = """
Streams of messages of 100 bytes: CPU and wall of a message. "receive": the server sends them; "send": the client does;
"echo": the client waits for the answer to each before it sends the next. Each client has a channel to one address, and
no xDS. Each figure is the median of {rounds} runs, each in a fresh process, the clients by turns.
"""

CLIENTS = {
    "trxds": ("streams_client_trxds.py", "trio"),
    "trxds.sync": ("streams_client_sync.py", "trxds"),
    "trxds.aio": ("streams_client_trxds.py", "asyncio"),
    "grpcio": ("streams_client_sync.py", "grpcio"),
    "grpc.aio": ("streams_client_grpcio.py",),
}
COUNTS = {"receive": 10_000, "send": 10_000, "echo": 2000}


def print_streams(rounds: int, *, small: bool = False) -> dict[str, dict[str, list[Figures]]]:
    """Print the table; returns all runs."""
    print(METHOD_TEXT.format(rounds=rounds))
    print(f"{'':20}  CPU µs  of grpc.aio's  wall µs")
    found = {}
    with child("streams_server.py", core=cores.SERVER) as server:
        for kind, count in COUNTS.items():
            found[kind] = measure(server.address, kind, 100 if small else count, rounds)
            print_rows(found[kind], kind)
    return found


def measure(address: str, kind: str, count: int, rounds: int) -> dict[str, list[Figures]]:
    """By client; they take turns."""
    runs: dict[str, list[Figures]] = {name: [] for name in CLIENTS}
    for _ in range(rounds):
        for name, (program, *arguments) in CLIENTS.items():
            runs[name].append(run(program, *arguments, address, kind, str(count)))
    return runs


def run(program: str, *arguments: str) -> Figures:
    command = [sys.executable, str(HERE / program), *arguments]
    with cores.children_on(cores.CLIENT):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def print_rows(runs: dict[str, list[Figures]], kind: str) -> None:
    cpu, wall = ({name: median(run[what] for run in each) for name, each in runs.items()} for what in ("cpu", "wall"))
    for name in runs:
        print(
            f"{kind:8} {name:11} {cpu[name]:7,.1f} {cpu[name] / cpu['grpc.aio']:10.2f} x {wall[name]:9,.1f}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="numbers that mean nothing")
    options = parser.parse_args()
    print_streams(options.rounds, small=options.small)


if __name__ == "__main__":
    main()
