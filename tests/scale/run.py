"""Check the model against the real client, then write the tables and plots of docs/scale.md.

make scale        or, in tests,        python -m scale.run [--size 100] [--no-check]

Exits 1 if the model and the client differ; then nothing is written.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from . import figures, plots
from .check import comparisons

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/scale.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--size", type=int, default=100, help="clients, and hosts, with which the model is checked (100)"
    )
    parser.add_argument("--no-check", action="store_true", help="write tables and plots only")
    options = parser.parse_args()
    if not options.no_check and not check(options.size):
        print("the model and the client differ; tables and plots are left as they were")
        return 1
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
    for file in plots.draw(ROOT / "docs/images"):
        print(file.relative_to(ROOT))
    return 0


def check(size: int) -> bool:
    """Print each comparison; return whether all agree."""
    agree = True
    began = time.monotonic()
    for run in comparisons(size):
        for compared in run():
            print(compared, flush=True)
            agree = agree and compared.agrees
    print(f"{size} clients and {size} hosts, {time.monotonic() - began:.0f} s")
    return agree


def with_tables(page: str) -> str:
    """Return the page with the tables as they are computed now."""
    for name, rows in figures.tables().items():
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(\n<!-- end of {re.escape(name)} -->)", re.DOTALL)
        page, found = place.subn(lambda match, rows=rows: match[1] + figures.as_markdown(rows) + match[2], page)
        if found != 1:
            raise SystemExit(f"{PAGE} has {found} places for the table {name!r}, not 1")
    return page


if __name__ == "__main__":
    sys.exit(main())
