"""Unary RPCs beside three servers: CPU of client and server, latency, RPCs a second, and bytes.

make bench        or        python tests/bench/servers.py [--rounds 7] [--count 2000] [--python PATH]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import cores
from process import HERE, Process, Run, child, program, run_client
from tables import markdown_of_servers

GO_PROGRAM = HERE.parent.parent / ".peers" / "go" / "bench"

METHOD_TEXT = """\
Unary RPCs of 100 bytes each way, by a channel to one address, without xDS. {cores}
Each figure is the median of {rounds} runs of {count} RPCs after a warm-up, each in a fresh process. Servers, numbers
at a time and clients take turns, and in each round another client begins. CPU is user and system time of a process,
all its threads. Unpinned, a thread-pool server in Python fights with itself for its lock on whichever cores a cheap
client leaves free: it looks a third slower with trxds than with grpc.aio.
"Trio by hand" is no client: the same bytes made beforehand, and a wake-up for each answer, which is what Trio costs.
"""


@dataclass(frozen=True)
class Client:
    name: str
    command: tuple[str, ...]
    other_python: bool = False


@dataclass(frozen=True)
class Server:
    """`at_a_time`: how many RPCs its clients have open at once, in a series for each."""

    name: str
    command: tuple[str, ...]
    at_a_time: tuple[int, ...]

    def serve(self) -> AbstractContextManager[Process]:
        """The server, on the servers' core."""
        return program(*self.command, core=cores.SERVER)


SERVERS = (
    Server("grpcio thread pool", (sys.executable, "server.py"), (1, 8, 20, 50)),
    Server("grpc.aio", (sys.executable, "server_aio.py"), (1, 5, 8, 20, 50)),
    Server("grpc-go", (str(GO_PROGRAM), "server"), (1, 8, 20, 50)),
)
QUICK_AT_A_TIME = (1,)


def servers(*, quick: bool) -> Iterator[Server]:
    for server in SERVERS:
        if server.name != "grpc-go" or GO_PROGRAM.exists():
            yield replace(server, at_a_time=QUICK_AT_A_TIME) if quick else server


SCRIPTS = {
    "trxds": "client_trxds.py",
    "grpc.aio": "client_grpcio_aio.py",
    "grpcio blocking": "client_grpcio_sync.py",
    "Trio by hand": "client_by_hand.py",
}
OTHER_PYTHONS = ("trxds", "grpc.aio", "Trio by hand")
"""Clients that other Pythons run too, at these numbers at a time."""
OTHER_PYTHONS_AT_A_TIME = (1, 8, 50)


BYTES_AT_A_TIME = (1, 50)
BYTES_COUNT = 500


def clients(pythons: Sequence[str]) -> list[Client]:
    """Those in this Python, grpc-go, and those in other Pythons."""
    own = [Client(name, (sys.executable, script)) for name, script in SCRIPTS.items()]
    go = [Client("grpc-go", (str(GO_PROGRAM), "client"))] if GO_PROGRAM.exists() else []
    others = [
        Client(f"{name}, Python {version}", (python, SCRIPTS[name]), other_python=True)
        for python, version in zip(pythons, map(version_of, pythons), strict=True)
        for name in OTHER_PYTHONS
    ]
    return [*own, *go, *others]


def version_of(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@dataclass
class Series:
    """All runs beside one server with so many RPCs at a time, by client; `sent` is bytes per RPC."""

    server: str
    concurrency: int
    runs: dict[str, list[Run]] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)


def measure(rounds: int, count: int, pythons: Sequence[str], *, quick: bool) -> list[dict[str, Any]]:
    taking_turns = clients(pythons)
    with ExitStack() as stack:
        running = {server: stack.enter_context(server.serve()) for server in servers(quick=quick)}
        found = {(server, many): Series(server.name, many) for server in running for many in server.at_a_time}
        for turn in range(rounds):
            print(f"round {turn + 1} of {rounds} beside {len(running)} servers", file=sys.stderr, flush=True)
            first = turn % len(taking_turns)
            for (server, many), series in found.items():
                for client in _fitting([*taking_turns[first:], *taking_turns[:first]], many):
                    run = one_run(client, running[server], many, count)
                    series.runs.setdefault(client.name, []).append(run)
        for (server, many), series in found.items():
            if many in BYTES_AT_A_TIME:
                series.sent = bytes_sent(taking_turns, running[server].address, many)
    return [asdict(series) for series in found.values()]


def _fitting(all_clients: Sequence[Client], concurrency: int) -> Iterator[Client]:
    for client in all_clients:
        if not client.other_python or concurrency in OTHER_PYTHONS_AT_A_TIME:
            yield client


def one_run(client: Client, server: Process, concurrency: int, count: int) -> Run:
    """Microseconds per RPC; the server's CPU with the warm-up's, for it does the same."""
    ordered = orders(server.address, concurrency, count, max(count // 5, concurrency))
    before = server.cpu()
    run = run_client(client.command, ordered)
    after = server.cpu()
    if before is not None and after is not None:
        run["server_cpu"] = (after - before) / (count + ordered["warmup"]) * 1e6
    return run | {"rps": 1e6 / run["wall"]}


def bytes_sent(taking_turns: Sequence[Client], address: str, concurrency: int) -> dict[str, float]:
    """Bytes that a client sends per RPC, HTTP/2's own included: the difference of a long run and a short one."""
    sent = {}
    for client in taking_turns:
        if client.other_python:
            continue
        with child("byte_counter.py", address, core=cores.SERVER) as counter:
            totals = [0]
            for length in (BYTES_COUNT, 2 * BYTES_COUNT):
                run_client(client.command, orders(counter.address, concurrency, length, concurrency))
                totals.append(int(counter.ask("sent")))
        sent[client.name] = (totals[2] - 2 * totals[1]) / BYTES_COUNT
    return sent


def orders(target: str, concurrency: int, count: int, warmup: int) -> dict[str, Any]:
    return {"target": target, "concurrency": concurrency, "count": count, "warmup": warmup, "cookie": False}


def print_servers(rounds: int, count: int, pythons: Sequence[str] = (), *, quick: bool = False) -> list[dict[str, Any]]:
    """Print the tables; returns all runs."""
    print(METHOD_TEXT.format(rounds=rounds, count=count, cores=cores.describe()))
    if not GO_PROGRAM.exists():
        print("grpc-go is left out, as server and as client: `make bench` builds it where Go is installed.\n")
    if not pythons:
        print("No other Python is beside this one: name some with --python.\n")
    sys.stdout.flush()
    found = measure(rounds, count, pythons, quick=quick)
    print(markdown_of_servers(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--python", action="append", default=[], help="another Python for some of the clients")
    options = parser.parse_args()
    print_servers(options.rounds, options.count, options.python)


if __name__ == "__main__":
    main()
