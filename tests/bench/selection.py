"""What it costs to choose a route: in-process, with tables of 1 to 10,000 routes.

python tests/bench/selection.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random
from time import process_time
from typing import Any

from trxds.core.metadata import Metadata
from trxds.resolver.config_selector import ConfigSelector
from trxds.resolver.routes import BoundRoutes
from trxds.resources.listener import Listener
from trxds.resources.matchers import Exact, HeaderMatch, Pattern, Prefix
from trxds.resources.regex import Regex
from trxds.resources.route import Route, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch

METHOD_TEXT = """
Selection of a route, in process: CPU µs per RPC, by the number of routes. "a path": a program that calls one path;
"many paths": up to a thousand of them in turn; "first": the first RPC of each path. "table": CPU ms to make a
selector from the routes. Every path belongs to one of the last routes. Median of {rounds} rounds.
"""

SIZES = (1, 10, 100, 1_000, 10_000)
HEADERS = Metadata([("user", "7"), ("x-trace", "0123456789abcdef")])
ACTION = RouteAction((WeightedCluster("a", 80), WeightedCluster("b", 20)))

# Each makes the match of one of many routes.
KINDS: dict[str, Callable[[int], RouteMatch]] = {
    "exact paths": lambda number: RouteMatch(Exact(f"/pkg.Service{number}/Method")),
    "prefixes": lambda number: RouteMatch(Prefix(f"/pkg.Service{number}/")),
    "expressions": lambda number: RouteMatch(Pattern(Regex(f"/pkg.Service{number}/.*"))),
    "headers": lambda number: RouteMatch(Prefix("/pkg."), (HeaderMatch("user", Exact(f"u{number}")),)),
}


def virtual_host(kind: str, size: int) -> VirtualHost:
    """So many routes, the last of which takes every RPC."""
    few = [Route(KINDS[kind](number), ACTION) for number in range(size - 1)]
    return VirtualHost("bench", ("*",), (*few, Route(RouteMatch(Prefix("")), ACTION)))


def selector(host: VirtualHost) -> ConfigSelector:
    table: Any = None  # of no concern to the choice
    return ConfigSelector(BoundRoutes(Listener("bench"), host, tuple), table, Random(1))


def timed(step: Callable[[], object]) -> float:
    """CPU seconds."""
    before = process_time()
    step()
    return process_time() - before


def choices(select: ConfigSelector, paths: list[str], count: int) -> float:
    """CPU µs per choice."""

    def choose() -> None:
        turns: Iterator[str] = cycle(paths)
        for _ in range(count):
            select.choose(next(turns), HEADERS)

    return timed(choose) / count * 1e6


def measure(kind: str, size: int) -> dict[str, float]:
    host = virtual_host(kind, size)
    made: list[ConfigSelector] = []
    table = timed(lambda: made.append(selector(host))) * 1e3
    (select,) = made
    scanned = size if kind in ("expressions", "headers") else 1
    # The last of the routes, so that nobody is lucky.
    paths = [f"/pkg.Service{max(size - 2 - number, 0)}/Method" for number in range(max(1000 // scanned, 3))]
    first = choices(select, paths, len(paths))
    return {
        "a path": choices(select, paths[-1:], 20_000),
        "many paths": choices(select, paths, 20_000),
        "first": first,
        "table": table,
    }


def print_selection(rounds: int) -> dict[str, list[dict[str, float]]]:
    """Print the table; returns all runs."""
    found = {}
    print(METHOD_TEXT.format(rounds=rounds))
    print(f"{'routes':>18} {'':11} {'a path':>10} {'many paths':>11} {'first':>10} {'table':>9}")
    for kind in KINDS:
        for size in SIZES:
            found[f"{kind}, {size:,}"] = runs = [measure(kind, size) for _ in range(rounds)]
            row = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            print(
                f"{size:>18,} {kind:11} {row['a path']:10.2f} {row['many paths']:11.2f} "
                f"{row['first']:10.2f} {row['table']:6.1f} ms",
                flush=True,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    print_selection(parser.parse_args().rounds)


if __name__ == "__main__":
    main()
