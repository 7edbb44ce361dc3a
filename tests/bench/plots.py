"""Draw what `run.py --json` measured; tables.py writes the tables beside the plots.

make bench-plots        or        python tests/bench/plots.py build/bench.json docs/images
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias
from xml.sax.saxutils import escape

import matplotlib as mpl

mpl.use("svg")
# The same file from the same runs, and text that can be searched and read aloud.
mpl.rcParams.update({"svg.hashsalt": "trxds", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11})

from matplotlib import pyplot  # noqa: E402 - the back end is chosen before

Series: TypeAlias = dict[str, Any]
"""What `servers.Series` has, out of the JSON."""

# The client's name, its colour and its mark: colours that colour-blind readers tell apart on white and on black.
CLIENTS = {
    "trxds": ("#1f6feb", "o"),
    "grpc.aio": ("#d9822b", "s"),
    "grpcio blocking": ("#bf5ba5", "^"),
    "grpc-go": ("#2da44e", "D"),
    "Trio by hand": ("#8c959f", "x"),
}
STYLE = (
    "text { fill: #1f2328 } @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } "
    '[style*="stroke: #000000"] { stroke: #e6edf3 !important } }'
)


def draw_cpu(found: list[Series], file: Path) -> None:
    """A panel for each server; points are medians, the line through each goes from the least to the greatest run."""
    title = "CPU of the client for a unary RPC of 100 bytes each way; less is better"
    with panels(found, title, file) as drawing:
        for axes, panel in drawing.panels:
            for client, (colour, mark) in CLIENTS.items():
                points = [
                    (each["concurrency"], values(each, client, "cpu")) for each in panel if client in each["runs"]
                ]
                if not points:
                    continue
                where, medians = [point[0] for point in points], [median(point[1]) for point in points]
                spread = [
                    [middle - min(runs) for middle, (_, runs) in zip(medians, points, strict=True)],
                    [max(runs) - middle for middle, (_, runs) in zip(medians, points, strict=True)],
                ]
                axes.errorbar(
                    where, medians, spread, color=colour, marker=mark, ms=4, lw=1.4, elinewidth=0.8, label=client
                )
                drawing.say(f"beside {panel[0]['server']}, {client}: {by_number(where, medians)}")
            at_a_time(axes, panel)
        drawing.label("RPCs at a time", "µs of CPU per RPC")
        drawing.panels[0][0].set_ylim(bottom=0)


def draw_latency(found: list[Series], file: Path) -> None:
    """A panel for each server; along each line the number at a time grows, and with it RPCs a second and latency."""
    title = "Latency by load: median (line) and 99th percentile (dashes); low and far right is better"
    with panels(found, title, file) as drawing:
        for axes, panel in drawing.panels:
            for client, (colour, mark) in CLIENTS.items():
                series = [each for each in panel if client in each["runs"]]
                if not series or client == "Trio by hand":
                    continue
                load = [median(values(each, client, "rps")) / 1e3 for each in series]
                for reading, line in (("p50", "-"), ("p99", "--")):
                    latency = [median(values(each, client, reading)) / 1e3 for each in series]
                    label = client if reading == "p50" else None
                    axes.plot(load, latency, line, color=colour, marker=mark, ms=4, lw=1.4, label=label)
                    drawing.say(f"beside {panel[0]['server']}, {client}, {reading} in ms: {by_number(load, latency)}")
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.set_xlim(left=0)
        numbers = ", ".join(map(str, sorted({each["concurrency"] for each in found})))
        drawing.label(f"thousand RPCs a second ({numbers} at a time)", "ms per RPC")


def draw_memory(found: list[dict[str, Any]], file: Path) -> None:
    """What endpoints add to a client's memory."""
    figure, axes = pyplot.subplots(figsize=(7.2, 3.2), layout="constrained", facecolor="none")
    said = []
    plain(axes)
    for client, colour, mark in (("trxds", "#1f6feb", "o"), ("grpcio", "#d9822b", "s")):
        for kind, line in (("idle", "-"), ("connected", "--")):
            series = [each for each in found if each["kind"] == kind]
            where = [each["endpoints"] for each in series]
            added = [median(each["runs"][client]) / 1024**2 for each in series]
            axes.plot(where, added, line, color=colour, marker=mark, ms=4, lw=1.4, label=f"{client}, {kind}")
            said.append(f"{client}, {kind}: {by_number(where, added)}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("endpoints of a cluster")
    axes.set_ylabel("MB that they add")
    title = "Memory by endpoints that nobody calls, and connected ones; less is better"
    axes.set_title(title, fontsize=11, loc="left")
    axes.legend(frameon=False, fontsize=9)
    save(figure, file)
    finish(file, title, f"Megabytes by the number of endpoints. {'; '.join(said)}.")


class Panels:
    """A plot of unary RPCs, with a panel for each server and what it shows in words."""

    def __init__(self, found: list[Series]) -> None:
        servers = list(dict.fromkeys(each["server"] for each in found))
        self.figure, all_axes = pyplot.subplots(
            1, len(servers), figsize=(7.2, 3.4), sharey=True, squeeze=False, layout="constrained", facecolor="none"
        )
        self.panels = [
            (axes, [each for each in found if each["server"] == server])
            for axes, server in zip(all_axes[0], servers, strict=True)
        ]
        self._said: list[str] = []
        for axes, panel in self.panels:
            plain(axes)
            axes.set_title(f"server: {panel[0]['server']}", fontsize=9)

    def say(self, text: str) -> None:
        self._said.append(text)

    def label(self, across: str, up: str) -> None:
        self.panels[len(self.panels) // 2][0].set_xlabel(across)
        self.panels[0][0].set_ylabel(up)

    def description(self) -> str:
        return f"{'; '.join(self._said)}."


@contextmanager
def panels(found: list[Series], title: str, file: Path) -> Iterator[Panels]:
    drawing = Panels(found)
    yield drawing
    handles = {}
    for axes, _ in drawing.panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles[label] = handle
    drawing.figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    drawing.figure.legend(
        handles.values(), handles, frameon=False, fontsize=9, ncols=len(handles), loc="outside lower center"
    )
    save(drawing.figure, file)
    finish(file, title, drawing.description())


def plain(axes: Any) -> None:
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)


def at_a_time(axes: Any, panel: list[Series]) -> None:
    numbers = [each["concurrency"] for each in panel]
    axes.set_xscale("log")
    axes.set_xticks(numbers, map(str, numbers))
    axes.minorticks_off()


def values(series: Series, client: str, reading: str) -> list[float]:
    return [run[reading] for run in series["runs"][client]]


def by_number(numbers: list[float], figures: list[float]) -> str:
    """What a line shows, for those who cannot see it."""
    return ", ".join(f"{figure:.3g} at {number:.3g}" for number, figure in zip(numbers, figures, strict=True))


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    pyplot.close(figure)


def finish(file: Path, title: str, description: str) -> None:
    """Add to a plot what matplotlib has no way to say: a title, a description, and colours for a dark page."""
    head, _, rest = file.read_text("utf-8").partition(">\n <defs>")
    texts = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>\n <style>{STYLE}</style>"
    file.write_text(f"{head}>\n {texts}\n <defs>{rest}", "utf-8")


def main(runs: Path, folder: Path) -> None:
    measured = json.loads(runs.read_text("utf-8"))
    for part, file, draw in (
        ("servers", "bench-unary.svg", draw_cpu),
        ("servers", "bench-latency.svg", draw_latency),
        ("memory", "bench-memory.svg", draw_memory),
    ):
        if measured.get(part):
            draw(measured[part], folder / file)
            print(folder / file)


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        sys.exit(f"{sys.argv[1]} is not there; `make bench` writes it")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
