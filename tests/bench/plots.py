"""Draw what `run.py --json` measured: CPU per unary RPC, a group of bars for each number of RPCs at a time.

make bench-plots        or        python tests/bench/plots.py build/bench.json docs/images
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import matplotlib as mpl

mpl.use("svg")
# The same file from the same runs, and text that can be searched and read aloud.
mpl.rcParams.update({"svg.hashsalt": "trxds", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11})

from matplotlib import pyplot  # noqa: E402 - the back end is chosen before

# The column of run.py, its name in the plot, its colour: two that colour-blind readers tell apart, and two greys.
CLIENTS = [
    ("trxds xds", "trxds", "#1f6feb"),
    ("grpcio aio xds", "grpc.aio", "#d9822b"),
    ("grpclib", "grpclib, without xDS", "#8c959f"),
    ("Trio by hand", "Trio by hand", "#d0d7de"),
]
WIDTH = 0.2
STYLE = (
    "text { fill: #1f2328 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } "
    '[style*="stroke: #000000"] { stroke: #e6edf3 !important } }'
)


def at_a_time(concurrency: int) -> str:
    return "one RPC at a time" if concurrency == 1 else f"{concurrency:,} at a time"


def draw_unary(unary: list[dict[str, Any]], file: Path) -> None:
    """Bars are medians; each line on a bar goes from the least to the greatest run."""
    figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained", facecolor="none")
    axes.set_facecolor("none")
    for place, (column, name, colour) in enumerate(CLIENTS):
        groups = [(index, group["cpu_us"][column]) for index, group in enumerate(unary) if column in group["cpu_us"]]
        medians = [statistics.median(runs) for _, runs in groups]
        below = [median - min(runs) for median, (_, runs) in zip(medians, groups, strict=True)]
        above = [max(runs) - median for median, (_, runs) in zip(medians, groups, strict=True)]
        where = [index + (place - 1.5) * WIDTH for index, _ in groups]
        bars = axes.bar(
            where, medians, WIDTH * 0.9, label=name, color=colour, yerr=[below, above], error_kw={"lw": 0.8}
        )
        axes.bar_label(bars, [f"{median:.0f}" for median in medians], padding=2, fontsize=9)
    axes.set_ylabel("µs of CPU per RPC")
    axes.set_title("CPU of the client for a unary RPC of 100 bytes each way; less is better", fontsize=11, loc="left")
    axes.set_xticks(range(len(unary)), [at_a_time(group["concurrency"]) for group in unary])
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.25)
    axes.legend(frameon=False, fontsize=9, ncols=len(CLIENTS), loc="upper right")
    figure.savefig(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    finish(file, "CPU of the client for a unary RPC", describe(unary))


def describe(unary: list[dict[str, Any]]) -> str:
    """What the plot shows, for those who cannot see it."""
    parts = []
    for group in unary:
        known = [(name, group["cpu_us"][column]) for column, name, _ in CLIENTS if column in group["cpu_us"]]
        figures = ", ".join(f"{name} {statistics.median(runs):.0f}" for name, runs in known)
        parts.append(f"{at_a_time(group['concurrency'])}: {figures}")
    return f"Microseconds of CPU per RPC. {'; '.join(parts)}."


def finish(file: Path, title: str, description: str) -> None:
    """Add to a plot what matplotlib has no way to say: a title, a description, and colours for a dark page."""
    head, _, rest = file.read_text("utf-8").partition(">\n <defs>")
    texts = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <style>{STYLE}</style>"
    file.write_text(f"{head}>\n {texts}\n <defs>{rest}", "utf-8")


def main(runs: Path, folder: Path) -> None:
    measured = json.loads(runs.read_text("utf-8"))
    draw_unary(measured["unary"], folder / "bench-unary.svg")
    print(folder / "bench-unary.svg")


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        sys.exit(f"{sys.argv[1]} is not there; `make bench` writes it")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
