"""Many seeds on all cores: make simulate SEEDS=0-99 MINUTES=10, or python -m simulate.run --seeds 0-99 --minutes 10.

Each seed that fails is shown with its violations and the command that repeats it. A run that is interrupted goes on
where it was: seeds that the same version of the code has done are in build/simulate, and are not done again. One seed
alone is always run, and shows what happened in it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from . import memory, tally
from .storm import MINUTES, Result, run

DONE = tally.ROOT / "build" / "simulate"
_WARM = 5  # runs of a process before its objects are counted: caches fill
_COUNTED = 20  # runs from one count to the next

_counts: list[Counter[str]] = []  # of objects, in this process, after each run that was counted
_runs = itertools.count(1)


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; 1 if any of them failed, ever, with this version."""
    options = _options(arguments)
    began, version = time.monotonic(), tally.version()
    progress = DONE / f"{tally.fingerprint()}-{options.minutes:g}.jsonl"
    done = {} if len(options.seeds) == 1 else read_progress(progress)
    todo = [seed for seed in options.seeds if seed not in done]
    results = [each for seed, each in done.items() if seed in set(options.seeds)]
    if results:
        print(f"{len(results)} seeds were run before ({progress})", flush=True)
    new = []
    for result in _results(todo, options.minutes, options.jobs, options.until):
        new.append(_summary(result))
        if len(options.seeds) > 1:
            write_progress(progress, new[-1])
        else:
            print("\n".join(result.trace))
        if result.violations:
            show(result, options.minutes)
    results += new
    failed = sorted(each["seed"] for each in results if each["violations"])
    calls, hours = sum(each["calls"] for each in results), len(results) * options.minutes / 60
    took = f"{time.monotonic() - began:.0f} s"
    print(f"{len(results)} seeds, {hours:.1f} virtual hours, {calls:,} calls, {len(failed)} failed {failed} in {took}")
    if options.tally and new:
        add_to_tally(version, new, options.minutes)
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="simulate.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=seeds, default=range(100), help="one seed, or the first and the last (0-99)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="virtual time for each (10)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one for each core)")
    parser.add_argument("--until", type=float, default=float("inf"), metavar="SECONDS", help="begin no seed after that")
    parser.add_argument("--tally", action="store_true", help=f"add the seeds to {tally.PAGE.relative_to(tally.ROOT)}")
    return parser.parse_args(arguments)


def seeds(text: str) -> range:
    """Parse `7` or `0-99`."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()) or int(last or first) < int(first):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a seed nor a range as in 0-99")
    return range(int(first), int(last or first) + 1)


# -- processes


def _results(todo: list[int], minutes: float, jobs: int, until: float) -> Iterator[Result]:
    """Yield the results of these seeds as they come."""
    if len(todo) < 2:
        yield from (run_one(seed, minutes) for seed in todo)
        return
    # No set and no hash decides anything, but a seed must be the same run wherever it is repeated.
    os.environ["PYTHONHASHSEED"] = "0"
    deadline = time.monotonic() + until
    with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run_one, seed, minutes) for seed in todo]
        for future in as_completed(futures):
            yield future.result()
            if time.monotonic() > deadline:
                pool.shutdown(wait=False, cancel_futures=True)
                yield from (each.result() for each in futures if each.running())
                return


def run_one(seed: int, minutes: float) -> Result:
    """Run a seed in this process, and count now and then what is left of those before."""
    logging.disable(logging.CRITICAL)
    result = run(seed, minutes)
    number = next(_runs)
    if number == _WARM or number % _COUNTED == 0:
        _counts.append(memory.objects_alive())
        problems = memory.memory_is_that_of_the_first_run(_counts[0], _counts[-1])
        result = Result(**{**vars(result), "violations": (*result.violations, *problems)})
    return result


# -- what is shown and kept


def show(result: Result, minutes: float) -> None:
    """Print what a seed found, and how to repeat it."""
    print(f"\nseed {result.seed} FAILED")
    for violation in result.violations[:5]:
        print(f"  {violation}")
    if len(result.violations) > 5:
        print(f"  ... and {len(result.violations) - 5} more")
    print(f"  again: make simulate SEEDS={result.seed} MINUTES={minutes:g}\n", flush=True)


def _summary(result: Result) -> dict:
    return {
        "seed": result.seed,
        "violations": [each[:500] for each in result.violations[:5]],
        "calls": result.counts["calls"],
        "digest": result.digest,
    }


def read_progress(path: Path) -> dict[int, dict]:
    """Return the summaries of the seeds that were run, by seed."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {each["seed"]: each for each in map(json.loads, lines)}


def write_progress(path: Path, summary: dict) -> None:
    """Append the summary of a seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(summary) + "\n")


def add_to_tally(version: str, new: list[dict], minutes: float) -> None:
    """Add these seeds to the page."""
    failed = sum(1 for each in new if each["violations"])
    calls = sum(each["calls"] for each in new)
    row = tally.Row(version, len(new), len(new) * minutes / 60, calls, failed)
    tally.PAGE.write_text(tally.add(tally.PAGE.read_text("utf-8"), row), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
