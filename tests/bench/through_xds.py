"""CPU per unary RPC through the whole xDS path, ours beside grpcio's; what choosing costs of it, and being watched.

make bench        or        python tests/bench/through_xds.py [--rounds 7] [--count 2000] [--concurrency 1 50 1000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import cores
from process import Run, child, run_client
from watching import ROWS

from trxds.testing.resources import cluster, endpoints, listener, locality, route, routes, stateful_session

METHOD_TEXT = """\
What is measured: user and system CPU time of the client process, all its threads, per unary RPC of 100 bytes
each way, after a warm-up. The server is one grpcio process and the control plane one `trxds plane`
process; neither is counted. {cores} Each figure is the median of {rounds} runs of {count} RPCs, each in a fresh
process; the clients take turns, so that a slow minute of the machine hits all of them.
"xds" is the whole path: ADS, routes, the load balancing tree. "cookie": the listener has the stateful session
filter and every RPC carries the cookie of the first. grpclib knows no xDS and goes straight to the server. "Trio
by hand" is no client: the same bytes made beforehand, and a wake-up for each answer, which is what Trio alone costs.
The ratio is to grpcio's asyncio API, of "trxds sync" to its blocking API, under the same configuration; clients
with a thread for each call, and "by hand", are left out where there would be a thousand.
No client checks more or less than it does by default. In brackets: the least and the greatest run.
"""


@dataclass(frozen=True)
class Column:
    """One client under one configuration."""

    name: str
    script: str
    target: str
    cookie: bool = False
    few: bool = False  # it is left out where there would be more at a time than `MOST`
    watch: str = ""


Runs: TypeAlias = dict[str, list[Run]]
"""By column."""

MOST = 100  # threads; and a grpcio server allows no more streams, for which "by hand" does not wait
FEW = 50


def columns(address: str, concurrency: int) -> list[Column]:
    everyone = [
        Column("trxds xds", "client_trxds.py", "xds:///plain"),
        Column("trxds xds, cookie", "client_trxds.py", "xds:///sticky", cookie=True),
        Column("trxds sync xds", "client_trxds_sync.py", "xds:///plain", few=True),
        Column("trxds sync xds, cookie", "client_trxds_sync.py", "xds:///sticky", cookie=True, few=True),
        Column("trxds aio xds", "client_trxds_aio.py", "xds:///plain"),
        Column("trxds aio xds, cookie", "client_trxds_aio.py", "xds:///sticky", cookie=True),
        Column("grpcio aio xds", "client_grpcio_aio.py", "xds:///plain"),
        Column("grpcio aio xds, cookie", "client_grpcio_aio.py", "xds:///sticky", cookie=True),
        Column("grpcio sync xds", "client_grpcio_sync.py", "xds:///plain", few=True),
        Column("grpcio sync xds, cookie", "client_grpcio_sync.py", "xds:///sticky", cookie=True, few=True),
        Column("grpclib", "client_grpclib.py", address),
        Column("Trio by hand", "client_by_hand.py", address, few=True),
    ]
    return [column for column in everyone if not column.few or concurrency <= MOST]


def yardstick(column: Column) -> str:
    """What a column is compared with: grpcio under the same configuration, blocking where we block."""
    api = "sync" if column.name.startswith("trxds sync") else "aio"
    return f"grpcio {api} xds{', cookie' if column.cookie else ''}"


def resources(address: str) -> list[dict[str, object]]:
    return [
        listener("plain", routes="bench"),
        listener("sticky", routes="bench", filters=[stateful_session("bench")]),
        routes("bench", route("bench")),
        cluster("bench"),
        endpoints("bench", locality(address)),
    ]


def bootstrap(plane: str) -> str:
    server = {"server_uri": plane, "channel_creds": [{"type": "insecure"}], "server_features": ["xds_v3"]}
    return json.dumps({"xds_servers": [server], "node": {"id": "bench"}})


def measure(column: Column, concurrency: int, count: int, environ: Mapping[str, str]) -> Run:
    """One run in a fresh process."""
    orders = {
        "target": column.target,
        "concurrency": concurrency,
        "count": count,
        "warmup": max(count // 5, concurrency),
        "cookie": column.cookie,
        **({"watch": column.watch} if column.watch else {}),
    }
    return run_client((sys.executable, column.script), orders, environ)


@contextmanager
def mesh() -> Iterator[tuple[str, dict[str, str]]]:
    """Server and control plane, on one core: the server's address, and the environment of an xDS client."""
    with child("server.py", core=cores.SERVER) as server, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.yaml"
        file.write_text(json.dumps(resources(server.address)), "utf-8")  # JSON is YAML
        with child("-m", "trxds", "plane", str(file), "--port", "0", core=cores.SERVER) as plane:
            yield server.address, {**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": bootstrap(plane.address)}


def print_unary(
    rounds: int, count: int, at_a_time: Sequence[int], address: str, environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    found = []
    for concurrency in at_a_time:
        taking_turns = columns(address, concurrency)
        runs: Runs = {column.name: [] for column in taking_turns}
        for _ in range(rounds):
            for column in taking_turns:
                runs[column.name].append(measure(column, concurrency, count, environ))
        print_table(concurrency, runs, {column.name: yardstick(column) for column in taking_turns})
        found.append({"concurrency": concurrency, "runs": runs})
    return found


def print_choosing(rounds: int, count: int, environ: Mapping[str, str]) -> list[Runs]:
    """Routing, session filter and pick, beside the RPC they belong to; fifty at a time, as RPCs cost least then."""
    found = []
    for cookie in (False, True):
        target, name = ("xds:///sticky", "trxds xds, cookie") if cookie else ("xds:///plain", "trxds xds")
        whole = Column(name, "client_trxds.py", target, cookie=cookie)
        part = Column("up to the stream", "client_choosing.py", target, cookie=cookie)
        runs: Runs = {whole.name: [], part.name: []}
        for _ in range(rounds):
            runs[whole.name].append(measure(whole, FEW, count, environ))
            runs[part.name].append(measure(part, FEW, 10 * count, environ))
        print_table(FEW, runs, dict.fromkeys(runs, whole.name), "the RPC's")
        found.append(runs)
    return found


def print_watched(rounds: int, count: int, environ: Mapping[str, str]) -> Runs:
    """What each RPC pays for being watched."""
    taking_turns = [Column(name, "client_trxds.py", "xds:///plain", watch=key) for key, name in ROWS.items()]
    runs: Runs = {column.name: [] for column in taking_turns}
    for _ in range(rounds):
        for column in taking_turns:
            runs[column.name].append(measure(column, 1, count, environ))
    print_table(1, runs, dict.fromkeys(runs, ROWS["nobody"]), "that of nobody watching")
    return runs


def print_table(
    concurrency: int, runs: Mapping[str, list[Run]], compared: Mapping[str, str], of: str = "grpcio's"
) -> None:
    print(f"\n{concurrency:,} concurrent{'':14} CPU µs per RPC              of {of}")
    cpu = {name: [run["cpu"] for run in each] for name, each in runs.items()}
    for name, figures in cpu.items():
        median = statistics.median(figures)
        spread = f"[{min(figures):.0f}..{max(figures):.0f}]"
        ratio = median / statistics.median(cpu[compared[name]])
        print(f"{name:24} {median:9.0f} {spread:>14} {ratio:15.2f} x", flush=True)


def print_through_xds(rounds: int, count: int, at_a_time: Sequence[int]) -> dict[str, Any]:
    """Print the tables; returns all runs."""
    print(METHOD_TEXT.format(rounds=rounds, count=count, cores=cores.describe()), flush=True)
    with mesh() as (address, environ):
        return {
            "unary": print_unary(rounds, count, at_a_time, address, environ),
            "choosing": print_choosing(rounds, count, environ),
            "watched": print_watched(rounds, count, environ),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 50, 1000])
    options = parser.parse_args()
    print_through_xds(options.rounds, options.count, options.concurrency)


if __name__ == "__main__":
    main()
