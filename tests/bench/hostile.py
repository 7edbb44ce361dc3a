"""What 64 KiB of hostile frames cost a client, kind by kind: the same however many calls are open, and little at once.

make bench        or        python tests/bench/hostile.py [--calls 1000] [KIND ...]
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))

from support.hostile.cost import KINDS, Cost, Seconds, measure

METHOD_TEXT = """
What one read of 64 KiB of a server that floods costs, in ms of CPU, if nobody ended the flood: with one call, with
{calls:,}, and the longest step of the latter, during which no other task could run (without the garbage collector).
Kinds that answer or end a call come once for each call. The budget is the same cost for both, and 10 ms for a step.
"""


def measured(name: str, calls: int, *, lean: bool) -> Cost:
    gc.collect()
    gc.disable()
    try:
        return measure(KINDS[name], calls, Seconds(), lean=lean)
    finally:
        gc.enable()


def print_hostile(calls: int = 1000, names: tuple[str, ...] = tuple(KINDS)) -> dict[str, dict[str, float]]:
    """Print the table; returns its seconds of CPU."""
    found = {}
    print(METHOD_TEXT.format(calls=calls))
    for lean in (True, False):
        print(f"\n{'lean engine' if lean else 'h2':44} {'1 call':>9} {f'{calls:,}':>9} {'step':>7}")
        for name in names:
            alone, many = (measured(name, count, lean=lean) for count in (1, calls))
            print(f"{name:44} {alone.total * 1e3:9.1f} {many.total * 1e3:9.1f} {many.longest * 1e3:7.1f}", flush=True)
            engine = "lean" if lean else "h2"
            found[f"{name}, {engine}"] = {"alone": alone.total, "many": many.total, "longest": many.longest}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("names", nargs="*", metavar="KIND", default=tuple(KINDS), help="all by default")
    options = parser.parse_args()
    print_hostile(options.calls, tuple(options.names))


if __name__ == "__main__":
    main()
