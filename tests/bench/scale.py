"""What size costs, ours beside grpcio's in the same run, against the budgets of the design.

make bench        or        python tests/bench/scale.py [--rounds 7] [--small]
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import cores
from process import child
from scale_runs import (
    Readings,
    Scenario,
    Sizes,
    clusters,
    deep_change,
    first_rpc,
    idle_endpoints,
    ready_endpoints,
    ready_in_memory,
    stage,
)

METHOD_TEXT = """
What size costs. CPU is user and system time of the client process, all its threads; memory is resident. Server
and control plane are processes of their own, and both clients get the same resources from the same plane program.
Each figure is the median of {rounds} runs, each in a fresh process, the clients by turns. The longest step is the
CPU time for which one task held the loop; it is measured in runs of its own, by a Trio instrument, without
and with the passes of Python's garbage collector that fell into it. In brackets: the least and the greatest run.
"""

SMALL = Sizes(idle_endpoints=200, ready_endpoints=20, clusters=20, changes=2, deep_changes=5, echoes=50)


@dataclass(frozen=True)
class Client:
    name: str
    script: str
    arguments: tuple[str, ...] = ()


TRXDS = Client("trxds", "scale_client_trxds.py")
WATCHED = Client("trxds", "scale_client_trxds.py", ("watch",))  # slower, so it is asked for its steps only
IN_MEMORY = Client("trxds", "scale_client_trxds.py", ("silent",))
GRPCIO = Client("grpcio", "scale_client_grpcio.py")

RUNS: tuple[tuple[Client, Scenario], ...] = (
    *product((TRXDS, GRPCIO), (first_rpc, idle_endpoints, ready_endpoints, clusters, deep_change)),
    *product((WATCHED,), (idle_endpoints, ready_endpoints, clusters)),
    (IN_MEMORY, ready_in_memory),
)
STEPS = ("longest", "held")


@dataclass(frozen=True)
class Row:
    """`reading` divided by `unit` is what is printed; the budget is a ratio to grpcio's, or a figure."""

    title: str
    reading: str
    unit: float
    ratio: float | None = None
    most: float | None = None


def rows(sizes: Sizes) -> list[Row]:
    idle, ready, many = f"{sizes.idle_endpoints:,}", f"{sizes.ready_endpoints:,}", f"{sizes.clusters:,}"
    ms, kb, mb = 1e-3, 1024, 1024 * 1024
    return [
        Row("first RPC through xDS, from open: wall ms", "first", ms, ratio=1),
        Row("    CPU ms", "first cpu", ms),
        Row(f"EDS of {idle} idle endpoints, open to first RPC: CPU ms", "idle cpu", ms, ratio=1.5),
        Row("    memory, MB", "idle memory", mb),
        Row("    one endpoint replaced: CPU ms", "change cpu", ms, ratio=0.5),
        Row("    longest step of all that, ms", "idle longest", ms, most=20),
        Row("        with the garbage collector in it, ms", "idle held", ms),
        Row(f"{ready} endpoints turn READY, loopback: CPU ms each", "ready cpu", ms, ratio=1.5),
        Row(f"    memory of {ready} idle connections, KB each", "ready memory", kb, most=20),
        Row("    longest step, ms", "ready longest", ms, most=20),
        Row("        with the garbage collector in it, ms", "ready held", ms),
        Row("    the same in an in-memory network: CPU ms each", "memory ready cpu", ms),
        Row("    memory, KB each", "memory ready memory", kb, most=20),
        Row(f"{many} idle clusters begin: CPU ms each", "cluster cpu", ms, most=1),
        Row("    memory, KB each", "cluster memory", kb, most=100),
        Row("    one of them changes: CPU ms", "one cluster cpu", ms),
        Row("    longest step of all that, ms", "clusters longest", ms, most=20),
        Row("        with the garbage collector in it, ms", "clusters held", ms),
        Row("a change through the tree of 8: CPU ms", "deep cpu", ms),
        Row("    in bare loopback echoes", "deep echoes", 1, most=60),
    ]


def measure(rounds: int, sizes: Sizes) -> dict[str, dict[str, list[float]]]:
    """By client and by reading."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (
        child("server.py", "0.0.0.0", core=cores.SERVER) as server,
        child("scale_echo.py", core=cores.SERVER) as echo,
    ):
        for _ in range(rounds):
            for client, scenario in RUNS:
                with stage(client.script, client.arguments, server.address, echo.address) as at:
                    readings = scenario(at, sizes)
                for name, value in _wanted(client, readings).items():
                    found[client.name][name].append(value)
    return found


def _wanted(client: Client, readings: Readings) -> Readings:
    return {name: value for name, value in readings.items() if name.endswith(STEPS) == (client is WATCHED)}


def print_row(row: Row, ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> None:
    figures = [value / row.unit for value in ours[row.reading]]
    median = statistics.median(figures)
    line = f"{row.title:57} {median:8.2f} {f'[{min(figures):.1f}..{max(figures):.1f}]':>17}"
    if row.reading in theirs:
        beside = statistics.median(theirs[row.reading]) / row.unit
        line += f" {beside:8.2f} {median / beside:6.2f} x"
    else:
        line += " " * 18
    if row.ratio is not None:
        line += f" {row.ratio:>6.2f} x"
    elif row.most is not None:
        line += f" {row.most:>6.0f}"
    print(line, flush=True)


def print_scale(rounds: int, sizes: Sizes) -> dict[str, dict[str, list[float]]]:
    """Print the table; returns all readings."""
    print(METHOD_TEXT.format(rounds=rounds))
    found = measure(rounds, sizes)
    print(f"{'':57} {'trxds':>8} {'':17} {'grpcio':>8} {'ratio':>8} {'budget':>8}")
    for row in rows(sizes):
        print_row(row, found[TRXDS.name], found[GRPCIO.name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="small numbers of everything, to see that it runs")
    options = parser.parse_args()
    print_scale(options.rounds, SMALL if options.small else Sizes())


if __name__ == "__main__":
    main()
