"""The tables of docs/measuring.md, as Markdown, from what `make bench` measured. All figures are medians.

make bench-plots        or        python tests/bench/tables.py build/bench.json [docs/measuring.md]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from goals import GOALS, MORE_IS_BETTER, READINGS

Series: TypeAlias = Mapping[str, Any]
"""What `servers.Series` has, out of the JSON."""

FLOOR = "Trio by hand"
CLIENTS = ("trxds", "grpc.aio", "grpcio blocking", "grpc-go", FLOOR)
RIVALS = ("grpc.aio", "grpc-go")
BEGIN, END = "<!-- from here, by make bench-plots -->", "<!-- to here -->"


def markdown(measured: Mapping[str, Any]) -> str:
    """All tables, with the conditions and the plots."""
    parts = [conditions(measured["machine"])]
    if measured.get("servers"):
        parts.append(markdown_of_servers(measured["servers"], plots=True))
    if measured.get("xds"):
        parts += ["### Through xDS", markdown_of_xds(measured["xds"]["unary"])]
    if measured.get("memory"):
        parts += ["### Memory by endpoints", "![Memory by the number of endpoints](images/bench-memory.svg)"]
    return "\n\n".join(parts)


def write(document: Path, measured: Mapping[str, Any]) -> None:
    """Put all tables between the marks of the document, in the place of those that are there."""
    text = document.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{document} has no {BEGIN!r} and {END!r} after it")
    document.write_text(f"{before}{BEGIN}\n\n{markdown(measured)}\n\n{END}{after}", "utf-8")


def conditions(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    pythons = " and ".join([machine["python"], *machine["other_pythons"]])
    pinned = "client and server have a core each" if machine["pinned"] else "NOT pinned"
    load = ", ".join(f"{each:.1f}" for each in machine["load"])
    return (
        f"Measured on {machine['date']} at commit `{machine['commit']}`: Python {pythons}; {versions}; "
        f"{machine['processor']}, {machine['cpus']} CPUs; {pinned}; load before: {load}. Figures are medians, brackets "
        "have the least and the greatest run, and bold is where trxds is behind."
    )


# -- beside three servers


def markdown_of_servers(found: Sequence[Series], *, plots: bool = False) -> str:
    sections: list[tuple[str, str, str]] = [
        ("CPU of the client, µs per RPC", "unary", cpu_table(found)),
        ("The same under another Python, µs per RPC", "", pythons_table(found)),
        ("Latency, µs: median / 99th percentile", "latency", latency_table(found)),
        ("RPCs a second", "", rps_table(found)),
        ("CPU of the server, µs per RPC, by its client", "", server_table(found)),
        ("Bytes that the client sends per RPC", "", bytes_table(found)),
        ("Wins and misses", "", goals_table(found)),
    ]
    parts = []
    for title, plot, table in sections:
        if table:
            parts.append(f"### {title}")
            parts += [f"![{title}](images/bench-{plot}.svg)"] if plot and plots else []
            parts.append(table)
    return "\n\n".join(parts)


def cpu_table(found: Sequence[Series]) -> str:
    def row(series: Series) -> list[str]:
        return [
            *(figure(series, client, "cpu", spread=client == "trxds") for client in CLIENTS),
            *ratios(series, "cpu"),
        ]

    return by_server(found, [*CLIENTS, *(f"trxds / {rival}" for rival in RIVALS)], row)


def pythons_table(found: Sequence[Series]) -> str:
    """Each client that another Python ran as well, under both."""
    others = list(dict.fromkeys(name for series in found for name in series["runs"] if ", Python" in name))
    if not others:
        return ""
    names = [name for other in others for name in (other.partition(",")[0], other)]
    with_both = [series for series in found if others[0] in series["runs"]]
    return by_server(
        with_both,
        [*names, *(f"{other} / this one" for other in others)],
        lambda series: [
            *(figure(series, name, "cpu") for name in names),
            *(ratio_text(series, "cpu", other, other.partition(",")[0]) for other in others),
        ],
    )


def latency_table(found: Sequence[Series]) -> str:
    names = [name for name in CLIENTS if name != FLOOR]

    def pair(texts: Iterable[str]) -> str:
        return " / ".join(filter(None, texts))

    def row(series: Series) -> list[str]:
        figures = [pair(figure(series, name, reading) for reading in ("p50", "p99")) for name in names]
        compared = zip(ratios(series, "p50"), ratios(series, "p99"), strict=True)
        return [*figures, *map(pair, compared)]

    return by_server(found, [*names, *(f"trxds / {rival}" for rival in RIVALS)], row)


def rps_table(found: Sequence[Series]) -> str:
    def row(series: Series) -> list[str]:
        return [
            *(figure(series, client, "rps", spread=client == "trxds") for client in CLIENTS),
            *ratios(series, "rps"),
        ]

    return by_server(found, [*CLIENTS, *(f"trxds / {rival}" for rival in RIVALS)], row)


def server_table(found: Sequence[Series]) -> str:
    return by_server(found, CLIENTS, lambda series: [figure(series, client, "server_cpu") for client in CLIENTS])


def bytes_table(found: Sequence[Series]) -> str:
    counted = [series for series in found if series["sent"]]
    return by_server(
        counted,
        CLIENTS,
        lambda series: [f"{series['sent'][client]:.1f}" if client in series["sent"] else "" for client in CLIENTS],
    )


def goals_table(found: Sequence[Series]) -> str:
    """Missed goals come first. The last of them are those that the floor misses too: it only sends and receives."""
    rows = []
    for goal in GOALS:
        for series in filter(goal.concerns, found):
            measured = ratio(series, goal.reading, "trxds", goal.of)
            if measured is None:
                continue
            what = f"{READINGS[goal.reading]}, {goal.concurrency} at a time, server {goal.server}: trxds / {goal.of}"
            bound = "at least" if goal.reading in MORE_IS_BETTER else "at most"
            floor = ratio(series, goal.reading, FLOOR, goal.of)
            verdict = "met" if goal.is_met(measured) else "**missed**"
            if verdict != "met" and floor is not None and not goal.is_met(floor):
                verdict += f", and by {FLOOR} too"
            by_hand = "" if floor is None else f"{floor:.2f}"
            rows.append([what, f"{bound} {goal.ratio:.2f}", f"{measured:.2f}", by_hand, verdict])
    rows.sort(key=lambda row: row[-1])
    return table(["what", "goal", "measured", FLOOR, ""], rows) if rows else ""


def by_server(found: Sequence[Series], header: Sequence[str], row: Callable[[Series], list[str]]) -> str:
    """A row for each server and number at a time; a client that did not run has no column."""
    rows = [[series["server"], str(series["concurrency"]), *row(series)] for series in found]
    full = ["server", "at a time", *header]
    used = [index for index in range(len(full)) if any(each[index] for each in rows)]
    return table([full[index] for index in used], [[each[index] for index in used] for each in rows]) if rows else ""


def readings(series: Series, client: str, reading: str) -> list[float]:
    if reading == "sent":
        return [series["sent"][client]] if client in series["sent"] else []
    return [run[reading] for run in series["runs"].get(client, ()) if reading in run]


def figure(series: Series, client: str, reading: str, *, spread: bool = False) -> str:
    runs = readings(series, client, reading)
    if not runs:
        return ""
    return f"{median(runs):,.0f}" + (f" [{min(runs):,.0f}..{max(runs):,.0f}]" if spread else "")


def ratio(series: Series, reading: str, client: str, of: str) -> float | None:
    ours, theirs = readings(series, client, reading), readings(series, of, reading)
    return median(ours) / median(theirs) if ours and theirs else None


def ratio_text(series: Series, reading: str, client: str, of: str, *, bold: bool = False) -> str:
    """In bold where the client is worse than that other one, if asked for."""
    measured = ratio(series, reading, client, of)
    if measured is None:
        return ""
    worse = measured < 1 if reading in MORE_IS_BETTER else measured > 1
    return f"**{measured:.2f}**" if bold and worse else f"{measured:.2f}"


def ratios(series: Series, reading: str) -> list[str]:
    """To each rival."""
    return [ratio_text(series, reading, "trxds", rival, bold=True) for rival in RIVALS]


# -- through xDS


def markdown_of_xds(found: Sequence[Mapping[str, Any]]) -> str:
    """Each client under each configuration, with the number at a time as a column."""
    groups = {group["concurrency"]: group["runs"] for group in found}
    names = list(dict.fromkeys(name for runs in groups.values() for name in runs))

    def cells(name: str) -> Iterator[str]:
        for runs in groups.values():
            cpu = [run["cpu"] for run in runs.get(name, ())]
            yield f"{median(cpu):.0f} [{min(cpu):.0f}..{max(cpu):.0f}]" if cpu else ""

    header = ["CPU, µs per RPC", *(f"{concurrency:,} at a time" for concurrency in groups)]
    return table(header, [[name, *cells(name)] for name in names])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def main(runs: Path, document: Path | None) -> None:
    """Into the document, or onto the screen."""
    measured = json.loads(runs.read_text("utf-8"))
    if document is None:
        print(markdown(measured))
    else:
        write(document, measured)
        print(document)


if __name__ == "__main__":
    if not Path(sys.argv[1]).exists():
        sys.exit(f"{sys.argv[1]} is not there; `make bench` writes it")
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
