"""The bench runs and prints a line for every client; what it measures in so short a time means nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GO = (ROOT / ".peers" / "go" / "bench").exists()
GO_NAMES = ["grpc-go"] if GO else []


def output(script: str, *options: str) -> str:
    command = [sys.executable, str(HERE / script), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=280).stdout


def quick(part: str, folder: Path) -> tuple[str, Any]:
    """What a quick bench prints of this part, and what it writes."""
    file = folder / "bench.json"
    printed = output("run.py", "--quick", "--parts", part, "--json", str(file))
    measured = json.loads(file.read_text("utf-8"))
    assert set(measured) == {"machine", part}
    return printed, measured[part]


def names(table: str) -> list[str]:
    return [line[:24].strip() for line in table.splitlines()[1:] if line.endswith(" x")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a quick bench beside the servers writes, with this Python as the other one too."""
    file = tmp_path_factory.mktemp("bench") / "bench.json"
    output("run.py", "--quick", "--parts", "servers", "--python", sys.executable, "--json", str(file))
    return file


@pytest.fixture(scope="module")
def series(runs: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(runs.read_text("utf-8"))["servers"]
    return found


def test_all_clients_run_beside_all_servers(series: list[dict[str, Any]]) -> None:
    servers = ["grpcio thread pool", "grpc.aio", *GO_NAMES]
    assert [(each["server"], each["concurrency"]) for each in series] == [(name, 1) for name in servers]
    own = ["trxds", "grpc.aio", "grpcio blocking", "Trio by hand", *GO_NAMES]
    version = ".".join(map(str, sys.version_info[:2]))
    others = [f"{name}, Python {version}" for name in ("trxds", "grpc.aio", "Trio by hand")]
    assert [list(each["runs"]) for each in series] == [own + others] * len(series)


def test_every_run_has_both_cpus_latency_and_rpcs_a_second(series: list[dict[str, Any]]) -> None:
    for each in series:
        for name, runs in each["runs"].items():
            (run,) = runs
            server = {"server_cpu"} if sys.platform == "linux" else set()
            assert set(run) - {"procs"} == {"cpu", "wall", "p50", "p99", "rps"} | server, name
            assert all(figure > 0 for figure in run.values()), name
            assert run["p50"] <= run["p99"]
            assert run["rps"] * run["wall"] == pytest.approx(1e6)


@pytest.mark.skipif(not GO or sys.platform != "linux" or (os.cpu_count() or 1) < 2, reason="no Go, or one core")
def test_the_go_client_has_one_core(series: list[dict[str, Any]]) -> None:
    assert {run["procs"] for each in series for run in each["runs"]["grpc-go"]} == {1}


def test_the_bytes_of_a_request_are_more_than_its_message(series: list[dict[str, Any]]) -> None:
    alone = [each["sent"] for each in series]
    message_and_frames = 100 + 5 + 9 + 9  # its prefix, and the heads of HEADERS and DATA
    assert all(message_and_frames < sent < 400 for each in alone for sent in each.values())
    assert len(alone[0]) == 4 + GO


def test_the_file_says_on_what_it_was_measured(runs: Path) -> None:
    machine = json.loads(runs.read_text("utf-8"))["machine"]
    assert {"commit", "date", "load", "pinned", "processor", "python", "system", "versions"} <= set(machine)
    assert machine["other_pythons"] == [machine["python"]]
    assert set(machine["versions"]) == {"trio", "grpcio", "grpclib", "grpc-go"}


@pytest.fixture
def every_part(runs: Path, tmp_path: Path) -> Path:
    """The runs beside the servers, and made-up ones of the other parts that are drawn or in a table."""
    measured = json.loads(runs.read_text("utf-8"))
    measured["memory"] = [
        {"kind": kind, "endpoints": size, "runs": {"trxds": [size * 1e3], "grpcio": [size * 2e3]}}
        for kind in ("idle", "connected")
        for size in (10, 100)
    ]
    few, many = (
        {"trxds xds": [{"cpu": 90.0}, {"cpu": 80.0}], "grpclib": [{"cpu": 300.0}]},
        {"trxds xds": [{"cpu": 70.0}]},
    )
    unary = [{"concurrency": 1, "runs": few}, {"concurrency": 1000, "runs": many}]
    measured["xds"] = {"unary": unary, "choosing": [], "watched": {}}
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(measured), "utf-8")
    return file


def test_the_runs_are_drawn(every_part: Path, tmp_path: Path) -> None:
    output("plots.py", str(every_part), str(tmp_path))
    cpu, latency, memory = (
        (tmp_path / f"bench-{name}.svg").read_text("utf-8") for name in ("unary", "latency", "memory")
    )
    for drawn in (cpu, latency):
        assert all(f"server: {name}" in drawn for name in ("grpcio thread pool", "grpc.aio", *GO_NAMES))
    assert "µs of CPU per RPC" in cpu
    assert "ms per RPC" in latency
    assert "MB that they add" in memory
    assert "prefers-color-scheme: dark" in memory


def test_the_tables_replace_those_of_the_document(every_part: Path, tmp_path: Path) -> None:
    document = tmp_path / "measuring.md"
    document.write_bytes((ROOT / "docs" / "measuring.md").read_bytes())
    before = document.read_text("utf-8")
    output("tables.py", str(every_part), str(document))
    once = document.read_text("utf-8")
    output("tables.py", str(every_part), str(document))
    assert document.read_text("utf-8") == once
    head, tail = before.partition("<!-- from here")[0], before.partition("<!-- to here -->")[2]
    assert once.startswith(head)
    assert once.endswith(tail)
    written = once[len(head) : -len(tail)]
    for title in ("CPU of the client", "Latency", "RPCs a second", "CPU of the server", "Bytes", "Wins and misses"):
        assert f"\n### {title}" in written
    assert "| grpc.aio | 1 |" in written
    assert "| CPU, µs per RPC | 1 at a time | 1,000 at a time |" in written
    assert "| trxds xds | 85 [80..90] | 70 [70..70] |" in written
    assert "| grpclib | 300 [300..300] | |" in written


def test_a_goal_that_the_floor_misses_too_says_so(every_part: Path, tmp_path: Path) -> None:
    measured = json.loads(every_part.read_text("utf-8"))
    beside_go = {"trxds": 80.0, "Trio by hand": 50.0, "grpc.aio": 100.0}
    runs = {name: [{"cpu": cpu}] for name, cpu in beside_go.items()}
    measured["servers"] = [
        {"server": "grpc-go", "concurrency": at_a_time, "runs": runs, "sent": {}} for at_a_time in (1, 8)
    ]
    runs_of_50 = {**runs, "Trio by hand": [{"cpu": 20.0}]}
    measured["servers"].append({"server": "grpc-go", "concurrency": 50, "runs": runs_of_50, "sent": {}})
    every_part.write_text(json.dumps(measured), "utf-8")
    rows = output("tables.py", str(every_part)).partition("### Wins and misses")[2].splitlines()
    of_aio = [row for row in rows if row.startswith("| CPU") and "/ grpc.aio" in row]
    assert [row.split(" | ", 1)[1] for row in of_aio] == [
        "at most 0.30 | 0.80 | 0.20 | **missed** |",
        "at most 0.35 | 0.80 | 0.50 | **missed**, and by Trio by hand too |",
        "at most 0.35 | 0.80 | 0.50 | **missed**, and by Trio by hand too |",
    ]


def test_the_bench_through_xds_prints_every_client() -> None:
    printed = output("through_xds.py", "--rounds", "1", "--count", "20", "--concurrency", "2", "101")
    few, _, rest = printed.partition("2 concurrent")[2].partition("101 concurrent")
    many, plain, rest = rest.split("\n50 concurrent")
    sticky, _, watched = rest.partition("\n1 concurrent")
    assert names(few) == [
        "trxds xds",
        "trxds xds, cookie",
        "trxds sync xds",
        "trxds sync xds, cookie",
        "trxds aio xds",
        "trxds aio xds, cookie",
        "grpcio aio xds",
        "grpcio aio xds, cookie",
        "grpcio sync xds",
        "grpcio sync xds, cookie",
        "grpclib",
        "Trio by hand",
    ]
    assert names(many) == [name for name in names(few) if "sync" not in name and "hand" not in name]
    assert names(plain) == ["trxds xds", "up to the stream"]
    assert names(sticky) == ["trxds xds, cookie", "up to the stream"]
    assert names(watched) == [
        "nobody",
        "an idle observer",
        "metrics",
        "metrics without sizes",
        "spans",
        "spans, none sampled",
        "metrics and spans",
    ]


def test_the_runs_through_xds_are_written(tmp_path: Path) -> None:
    _, measured = quick("xds", tmp_path)
    assert set(measured) == {"unary", "choosing", "watched"}
    (fifty,) = measured["unary"]
    assert all(run["cpu"] > 0 for runs in fifty["runs"].values() for run in runs)


def test_the_selection_of_routes_is_measured_with_every_kind(tmp_path: Path) -> None:
    printed, measured = quick("selection", tmp_path)
    assert printed.splitlines()[-1].split()[:2] == ["10,000", "headers"]
    assert "headers, 10,000" in measured


def test_the_memory_of_idle_and_of_connected_endpoints_is_measured(tmp_path: Path) -> None:
    printed, measured = quick("memory", tmp_path)
    assert [(each["kind"], each["endpoints"]) for each in measured] == [
        ("idle", 50),
        ("idle", 100),
        ("connected", 5),
        ("connected", 10),
    ]
    assert all(set(each["runs"]) == {"trxds", "grpcio"} for each in measured)
    assert sum(" KB " in line for line in printed.splitlines()) == 4


def test_the_scale_runs_print_every_figure_beside_its_budget(tmp_path: Path) -> None:
    printed, measured = quick("scale", tmp_path)
    assert set(measured) == {"trxds", "grpcio"}
    table = printed.splitlines()
    (header,) = (index for index, line in enumerate(table) if line.split() == ["trxds", "grpcio", "ratio", "budget"])
    figures = table[header + 1 :]
    assert len(figures) == 20
    assert figures[0].startswith("first RPC through xDS")
    assert figures[-1].split()[-1] == "60"


def test_the_two_protocols_of_ads_are_compared(tmp_path: Path) -> None:
    printed, measured = quick("protocols", tmp_path)
    *_, header, cold, endpoint, cluster = printed.splitlines()
    assert len(measured) == 3
    assert header.split() == ["trxds", "trxds,", "incremental", "grpcio"]
    assert [line.count("KB") for line in (cold, endpoint, cluster)] == [3, 3, 3]
    whole, changed = (float(figure.split()[-1]) for figure in cluster.split("KB")[:2])
    assert changed < whole / 2


def test_the_flow_runs_print_both_clients_near_and_far(tmp_path: Path) -> None:
    printed, measured = quick("flow", tmp_path)
    assert len(measured) == 4
    lines = [line for line in printed.splitlines() if line.endswith(" x")]
    assert len(lines) == 8
    assert [line[:34].strip() for line in lines[::4]] == ["1 MiB both ways, 0 ms away", "1 MiB both ways, 10 ms away"]


def test_the_streams_print_every_client_and_kind(tmp_path: Path) -> None:
    printed, measured = quick("streams", tmp_path)
    assert list(measured) == ["receive", "send", "echo"]
    lines = [line.split()[:2] for line in printed.splitlines() if " x " in line]
    assert lines[:5] == [["receive", name] for name in ("trxds", "trxds.sync", "trxds.aio", "grpcio", "grpc.aio")]
    assert len(lines) == 15


def test_the_hostile_runs_print_both_engines() -> None:
    lines = [line.split() for line in output("hostile.py", "--calls", "10", "PING").splitlines()]
    assert [line[0] for line in lines if line[:1] in (["lean"], ["h2"], ["PING"])] == ["lean", "PING", "h2", "PING"]
