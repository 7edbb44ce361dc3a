"""Every target for its share of a minute of all cores: make fuzz, or python -m fuzz.run --seconds 600 engine_lean.

What is interesting stays in .fuzz/ for the next run. What breaks a target goes to tests/fuzz/found/, where
the tests take it from, and its traceback is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from .targets import TARGETS

HERE = Path(__file__).parent
CORPORA = HERE.parent.parent / ".fuzz"
FOUND = HERE / "found"
LONGEST = 4096  # bytes of an input
SLOWEST = 10  # seconds for one input
MEMORY = 1024  # megabytes

_RUNS = re.compile(r"Done (\d+) runs|stat::number_of_executed_units: (\d+)")


def main() -> int:
    options = _options()
    share = max(3, round(options.seconds * (os.cpu_count() or 1) / len(options.names)))
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        outcomes = list(cores.map(partial(fuzz, seconds=share), options.names))
    return 0 if all(outcomes) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60, help="for all of them together (60)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}")
    options.names = options.names or list(TARGETS)
    return options


def fuzz(name: str, *, seconds: int) -> bool:
    """Whether it found nothing; says so either way."""
    corpus, found = _corpus(name), FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    arguments = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY}",
        f"-artifact_prefix={found}/",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.one", name, ",".join(TARGETS[name].code), *arguments, str(corpus)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    runs = _RUNS.findall(done.stderr)
    count = max((int(a or b) for a, b in runs), default=0)
    well = done.returncode == 0 and count > 0
    print(f"{name}: {count:,} inputs in {seconds} s{'' if well else ': FAILED'}", flush=True)
    if not well:
        print(f"{_traceback(done.stdout) or done.stderr[-3000:]}\nThe input is in {found}")
    if not any(found.iterdir()):
        found.rmdir()
    return well


def _traceback(output: str) -> str:
    return output.partition("=== Uncaught Python exception: ===")[2].strip()


def _corpus(name: str) -> Path:
    """What earlier runs left, and the seeds."""
    corpus = CORPORA / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(TARGETS[name].seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    return corpus


if __name__ == "__main__":
    sys.exit(main())
