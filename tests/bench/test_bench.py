"""The bench runs and prints a line for every client; what it measures in so short a time means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent


def output(script: str, *options: str) -> str:
    command = [sys.executable, str(HERE / script), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout


SHORT = ("--rounds", "1", "--count", "20", "--flow-rounds", "0", "--scale-rounds", "0")


def names(table: str) -> list[str]:
    return [line[:24].strip() for line in table.splitlines()[1:] if line.endswith(" x")]


def test_the_bench_prints_every_client() -> None:
    printed = output("run.py", *SHORT, "--concurrency", "2", "101")
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
    assert names(watched) == ["nobody", "an idle observer", "metrics", "spans", "metrics and spans"]
    assert watched.splitlines()[-1].split()[:2] == ["10,000", "headers"]


def test_the_runs_of_unary_rpcs_are_drawn(tmp_path: Path) -> None:
    runs = tmp_path / "bench.json"
    output("run.py", *SHORT, "--concurrency", "2", "4", "--json", str(runs))
    output("plots.py", str(runs), str(tmp_path))
    drawn = (tmp_path / "bench-unary.svg").read_text("utf-8")
    assert "grpc.aio" in drawn
    assert "one RPC at a time" not in drawn


def test_the_scale_runs_print_every_figure_beside_its_budget() -> None:
    table = output("scale.py", "--rounds", "1", "--small").splitlines()
    (header,) = (index for index, line in enumerate(table) if line.split() == ["trxds", "grpcio", "ratio", "budget"])
    figures = table[header + 1 :]
    assert len(figures) == 20
    assert figures[0].startswith("first RPC through xDS")
    assert figures[-1].split()[-1] == "60"


def test_the_two_protocols_of_ads_are_compared() -> None:
    *_, header, cold, endpoint, cluster = output("protocols.py", "--rounds", "1", "--small").splitlines()
    assert header.split() == ["trxds", "trxds,", "incremental", "grpcio"]
    assert [line.count("KB") for line in (cold, endpoint, cluster)] == [3, 3, 3]
    whole, changed = (float(figure.split()[-1]) for figure in cluster.split("KB")[:2])
    assert changed < whole / 2


def test_the_flow_runs_print_both_clients_near_and_far() -> None:
    lines = [line for line in output("flow.py", "--rounds", "1", "--small").splitlines() if line.endswith(" x")]
    assert len(lines) == 8
    assert [line[:34].strip() for line in lines[::4]] == ["1 MiB both ways, 0 ms away", "1 MiB both ways, 10 ms away"]


def test_the_hostile_runs_print_both_engines() -> None:
    lines = [line.split() for line in output("hostile.py", "--calls", "10", "PING").splitlines()]
    assert [line[0] for line in lines if line[:1] in (["lean"], ["h2"], ["PING"])] == ["lean", "PING", "h2", "PING"]
