"""The tally of all seeds that were run, in docs/reliability.md: one row for each version of the code."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"

_TABLE = re.compile(r"(?<=<!-- tally -->\n)(.*?)(?=<!-- end of the tally -->)", re.DOTALL)
_HEAD = "| version | seeds | virtual hours | calls | seeds that failed |\n|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Row:
    """What was run of one version."""

    version: str
    seeds: int
    hours: float
    calls: int
    failed: int

    def __str__(self) -> str:
        return f"| {self.version} | {self.seeds:,} | {self.hours:,.1f} | {self.calls:,} | {self.failed:,} |\n"


def version() -> str:
    """Return the commit of the code; with a + if files of the runtime or of the simulations differ from it."""
    commit = _git("rev-parse", "--short=10", "HEAD") or "unknown"
    changed = _git("status", "--porcelain", "--", "trxds", "tests/simulate")
    return f"{commit}+" if changed else commit


def fingerprint() -> str:
    """Return a text that is the same for the same code, committed or not."""
    found = blake2b(digest_size=6)
    for folder in ("trxds", "tests/simulate"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def read(text: str) -> list[Row]:
    """Return the rows of a page."""
    found = _TABLE.search(text)
    if found is None:
        raise ValueError(f"{PAGE} has no tally; it stands between <!-- tally --> and <!-- end of the tally -->")
    cells = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in found[0].strip().splitlines()[2:]]
    return [
        Row(name, *(kind(value.replace(",", "")) for kind, value in zip((int, float, int, int), values, strict=True)))
        for name, *values in cells
    ]


def add(text: str, new: Row) -> str:
    """Return the page with a run added to the row of its version."""
    rows = {row.version: row for row in read(text)}
    old = rows.get(new.version, replace(new, seeds=0, hours=0.0, calls=0, failed=0))
    rows[new.version] = Row(
        new.version, old.seeds + new.seeds, old.hours + new.hours, old.calls + new.calls, old.failed + new.failed
    )
    return _TABLE.sub(lambda _: _HEAD + "".join(map(str, rows.values())), text)
