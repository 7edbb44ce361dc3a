"""All that is measured, ours beside the others' in one run on one machine.

make bench        or        python tests/bench/run.py [--quick] [--parts servers flow ...] [--python PATH] [--json FILE]

`--quick` tries all of it in two minutes, with numbers that mean nothing. `--json FILE` writes each run and what the
machine was, after every part; plots.py makes the plots and tables of docs/measuring.md of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cores
from flow import print_flow
from hostile import print_hostile
from machine import machine
from memory import print_memory
from protocols import print_protocols
from scale import SMALL, print_scale
from scale_runs import Sizes
from selection import print_selection
from servers import print_servers
from streams import print_streams
from through_xds import print_through_xds

QUIET = 0.5
"""The load average above which other work is said to disturb."""


@dataclass(frozen=True)
class Effort:
    """How much of each part."""

    rounds: int
    count: int
    quick: bool
    pythons: list[str]

    @property
    def sizes(self) -> Sizes:
        return SMALL if self.quick else Sizes()


PARTS: dict[str, Callable[[Effort], Any]] = {
    "servers": lambda its: print_servers(its.rounds, its.count, its.pythons, quick=its.quick),
    "xds": lambda its: print_through_xds(its.rounds, its.count, (50,) if its.quick else (1, 50, 1000)),
    "selection": lambda its: print_selection(its.rounds),
    "flow": lambda its: print_flow(its.rounds, small=its.quick),
    "streams": lambda its: print_streams(its.rounds, small=its.quick),
    "scale": lambda its: print_scale(its.rounds, its.sizes),
    "memory": lambda its: print_memory(min(its.rounds, 3), small=its.quick),  # other processes do not change it
    "protocols": lambda its: print_protocols(its.rounds, its.sizes),
    "hostile": lambda its: print_hostile(10 if its.quick else 1000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="7, or 1 with --quick")
    parser.add_argument("--count", type=int, help="unary RPCs in a run: 2000, or 20 with --quick")
    parser.add_argument("--quick", action="store_true", help="a little of everything, to see that it runs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--python", action="append", default=[], help="another Python for some clients of unary RPCs")
    parser.add_argument("--json", type=Path, help="where to write all runs, for plots.py")
    options = parser.parse_args()
    rounds, count = (1, 20) if options.quick else (7, 2000)
    effort = Effort(options.rounds or rounds, options.count or count, options.quick, options.python)
    measured: dict[str, Any] = {"machine": machine(options.python)}
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs. {cores.describe()}", flush=True)
    if os.getloadavg()[0] > QUIET:
        print(
            "This machine has other work. It takes whole time slices of the clients that have one thread, and fewer of "
            "those that have several: do not compare their latency and RPCs a second."
        )
    for name in options.parts:
        began = time.monotonic()
        measured[name] = PARTS[name](effort)
        print(f"\n{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(measured, indent=1), "utf-8")


if __name__ == "__main__":
    main()
