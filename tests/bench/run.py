"""All that is measured, ours beside grpcio's in one run on one machine; here, CPU per unary RPC.

make bench        or        python tests/bench/run.py [--rounds 7] [--count 3000] [--flow-rounds 5] [--scale-rounds 7]

`--json FILE` writes the runs of unary RPCs; plots.py draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flow import print_flow
from hostile import print_hostile
from process import HERE, child
from protocols import print_protocols
from scale import print_scale
from scale_runs import Sizes
from selection import print_selection
from watching import ROWS

from trxds.testing.resources import cluster, endpoints, listener, locality, route, routes, stateful_session

METHOD_TEXT = """\
What is measured: user and system CPU time of the client process, all its threads, per unary RPC of 100 bytes
each way, after a warm-up. The server is one grpcio process and the control plane one `trxds plane`
process; neither is counted. Each figure is the median of {rounds} runs of {count} RPCs, each in a fresh
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


def measure(column: Column, concurrency: int, count: int, environ: Mapping[str, str]) -> float:
    """CPU microseconds per RPC of one run in a fresh process."""
    orders = {
        "target": column.target,
        "concurrency": concurrency,
        "count": count,
        "warmup": max(count // 5, concurrency),
        "cookie": column.cookie,
        **({"watch": column.watch} if column.watch else {}),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / column.script), json.dumps(orders)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return float(json.loads(done.stdout)["cpu"])


def print_choosing(rounds: int, count: int, environ: Mapping[str, str]) -> None:
    """Routing, session filter and pick, beside the RPC they belong to; fifty at a time, as RPCs cost least then."""
    for cookie in (False, True):
        target, name = ("xds:///sticky", "trxds xds, cookie") if cookie else ("xds:///plain", "trxds xds")
        whole = Column(name, "client_trxds.py", target, cookie=cookie)
        part = Column("up to the stream", "client_choosing.py", target, cookie=cookie)
        runs: dict[str, list[float]] = {whole.name: [], part.name: []}
        for _ in range(rounds):
            runs[whole.name].append(measure(whole, FEW, count, environ))
            runs[part.name].append(measure(part, FEW, 10 * count, environ))
        print_table(FEW, runs, dict.fromkeys(runs, whole.name), "the RPC's")


def print_watched(rounds: int, count: int, environ: Mapping[str, str]) -> None:
    """What each RPC pays for being watched."""
    taking_turns = [Column(name, "client_trxds.py", "xds:///plain", watch=key) for key, name in ROWS.items()]
    runs: dict[str, list[float]] = {column.name: [] for column in taking_turns}
    for _ in range(rounds):
        for column in taking_turns:
            runs[column.name].append(measure(column, 1, count, environ))
    print_table(1, runs, dict.fromkeys(runs, ROWS["nobody"]), "that of nobody watching")


def print_table(
    concurrency: int, runs: Mapping[str, list[float]], compared: Mapping[str, str], of: str = "grpcio's"
) -> None:
    print(f"\n{concurrency:,} concurrent{'':14} CPU µs per RPC              of {of}")
    for name, figures in runs.items():
        median = statistics.median(figures)
        spread = f"[{min(figures):.0f}..{max(figures):.0f}]"
        ratio = median / statistics.median(runs[compared[name]])
        print(f"{name:24} {median:9.0f} {spread:>14} {ratio:15.2f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 50, 1000])
    parser.add_argument("--flow-rounds", type=int, default=5, help="0: none")
    parser.add_argument("--scale-rounds", type=int, default=7, help="0: none")
    parser.add_argument("--json", type=Path, help="where to write the runs of unary RPCs, for plots.py")
    options = parser.parse_args()
    print(METHOD_TEXT.format(rounds=options.rounds, count=options.count))
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs", flush=True)
    with child("server.py") as server, tempfile.TemporaryDirectory() as folder:
        address = server.address
        file = Path(folder) / "bench.yaml"
        file.write_text(json.dumps(resources(address)), "utf-8")  # JSON is YAML
        with child("-m", "trxds", "plane", str(file), "--port", "0") as plane:
            environ = {**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": bootstrap(plane.address)}
            unary: list[dict[str, object]] = []
            for concurrency in options.concurrency:
                taking_turns = columns(address, concurrency)
                runs: dict[str, list[float]] = {column.name: [] for column in taking_turns}
                for _ in range(options.rounds):
                    for column in taking_turns:
                        runs[column.name].append(measure(column, concurrency, options.count, environ))
                print_table(concurrency, runs, {column.name: yardstick(column) for column in taking_turns})
                unary.append({"concurrency": concurrency, "cpu_us": runs})
            if options.json:
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps({"python": sys.version.split()[0], "unary": unary}), "utf-8")
            print_choosing(options.rounds, options.count, environ)
            print_watched(options.rounds, options.count, environ)
    print_selection(options.rounds)
    if options.flow_rounds:
        print_flow(options.flow_rounds)
    if options.scale_rounds:
        print_scale(options.scale_rounds, Sizes())
        print_protocols(min(options.scale_rounds, 3), Sizes())
        print_hostile()


if __name__ == "__main__":
    main()
