"""What a mesh of many clusters costs in each of the two protocols of ADS: all of it, and a small change to it.

make bench        or        python tests/bench/protocols.py [--rounds 7] [--small]
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from dataclasses import dataclass

import cores
from process import child
from scale import SMALL
from scale_runs import Readings, Sizes, one_of_many, stage

from trxds.xds.bootstrap import DELTA

METHOD_TEXT = """
The two protocols of ADS: {endpoints:,} endpoints in {clusters:,} clusters that nobody calls yet, then one endpoint of
them replaced, then one cluster changed. CPU is user and system time of the client process, all its threads, in ms;
KB are the responses that it was sent. Each figure is the median of {rounds} runs, each in a fresh process, the
clients by turns; a change is the mean of {changes}. The control plane sends no more than each protocol asks for: in
the state of the world all clusters when one has changed, and only those endpoints that have.
"""


@dataclass(frozen=True)
class Client:
    name: str
    script: str
    features: tuple[str, ...] = ()


CLIENTS = (
    Client("trxds", "scale_client_trxds.py"),
    Client("trxds, incremental", "scale_client_trxds.py", (DELTA,)),
    Client("grpcio", "scale_client_grpcio.py"),
)
ROWS = (("all of it, from open", "cold"), ("one endpoint replaced", "endpoint"), ("one cluster changed", "cluster"))


def measure(rounds: int, sizes: Sizes) -> dict[str, list[Readings]]:
    """The readings of each client."""
    found: dict[str, list[Readings]] = defaultdict(list)
    with child("server.py", "0.0.0.0", core=cores.SERVER) as server:
        for _ in range(rounds):
            for client in CLIENTS:
                with stage(client.script, (), server.address, "", client.features) as at:
                    found[client.name].append(one_of_many(at, sizes))
    return found


def figure(runs: list[Readings], row: str) -> str:
    cpu = statistics.median(run[f"{row} cpu"] for run in runs) * 1e3
    size = statistics.median(run[f"{row} bytes"] for run in runs) / 1024
    return f"{cpu:9.1f} ms {size:8.1f} KB"


def print_protocols(rounds: int, sizes: Sizes) -> dict[str, list[Readings]]:
    """Print the table; returns all readings."""
    about = {"endpoints": sizes.idle_endpoints, "clusters": sizes.clusters, "changes": sizes.changes}
    print(METHOD_TEXT.format(rounds=rounds, **about))
    found = measure(rounds, sizes)
    print(f"{'':22}{''.join(f'{client.name:>24}' for client in CLIENTS)}")
    for title, row in ROWS:
        print(f"{title:22}{''.join(f'{figure(found[client.name], row):>24}' for client in CLIENTS)}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="small numbers of everything, to see that it runs")
    options = parser.parse_args()
    print_protocols(options.rounds, SMALL if options.small else Sizes())


if __name__ == "__main__":
    main()
