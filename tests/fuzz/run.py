"""Every target for its share of a minute of all cores: make fuzz, or python -m fuzz.run --seconds 600 engine_lean.

atheris rewrites our code as it is imported, to see which branches an input takes. That takes longer than most targets
have, so it is done once, and each target runs in a fork of this process.

What is interesting stays in .fuzz/ for the next run, with the log of the last. What breaks a target goes to
tests/fuzz/found/, where the tests take it from, and its traceback is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import atheris

# Which tells of every module.
with redirect_stderr(StringIO()), atheris.instrument_imports(include=["trxds", "h2", "hpack", "hyperframe", "urllib"]):
    from .targets import TARGETS

HERE = Path(__file__).parent
CORPORA = HERE.parent.parent / ".fuzz"
FOUND = HERE / "found"
CORES = os.cpu_count() or 1
LONGEST = 4096  # bytes of an input
SLOWEST = 10  # seconds for one input
MEMORY = 1024  # megabytes

_RUNS = re.compile(r"Done (\d+) runs|stat::number_of_executed_units: (\d+)")


def main() -> int:
    began, options = time.monotonic(), _options()
    names = options.names or list(TARGETS)
    share = max(3, round(options.seconds * min(CORES, len(names)) / len(names)))
    print(f"{len(names)} targets, {share} s each, {CORES} at a time", flush=True)
    failed = [name for name, status in fuzz(names, share) if not well(name, status)]
    print(f"{len(names) - len(failed)} of {len(names)} found nothing, in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60, help="for all of them together (60)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}")
    return options


def fuzz(names: Iterable[str], seconds: int) -> Iterator[tuple[str, int]]:
    """Each target's name and how its process ended, as they end; as many at a time as there are cores."""
    waiting, running = deque(names), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < CORES:
            name = waiting.popleft()
            running[_begin(name, seconds)] = name
        process, status = os.wait()
        yield running.pop(process), status


def _begin(name: str, seconds: int) -> int:
    """The process of a target; what it says is in its log."""
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    arguments = [
        name,
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
        str(_corpus(name)),
    ]
    process = os.fork()
    if process:
        return process
    log = os.open(_log(name), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    atheris.Setup(arguments, TARGETS[name].run)
    atheris.Fuzz()  # which ends the process
    os._exit(0)


def well(name: str, status: int) -> bool:
    """Whether it ran and found nothing; says so either way."""
    log, found = _log(name).read_text("utf-8", "replace"), FOUND / name
    count = max((int(a or b) for a, b in _RUNS.findall(log)), default=0)
    well = status == 0 and count > 0
    print(f"{name}: {count:,} inputs{'' if well else ': FAILED'}", flush=True)
    if not well:
        print(f"{_traceback(log) or log[-3000:]}\nThe input is in {found}")
    if not any(found.iterdir()):
        found.rmdir()
    return well


def _traceback(output: str) -> str:
    return output.partition("=== Uncaught Python exception: ===")[2].strip()


def _log(name: str) -> Path:
    return CORPORA / f"{name}.log"


def _corpus(name: str) -> Path:
    """What earlier runs left, and the seeds."""
    corpus = CORPORA / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    return corpus


if __name__ == "__main__":
    sys.exit(main())
