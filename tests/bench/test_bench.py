"""The bench runs and prints a line for every client; what it measures in so short a time means nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_bench_prints_every_client() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "run.py"), "--rounds", "1", "--count", "20", "--concurrency", "2"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    table = done.stdout.partition("2 concurrent")[2].splitlines()[1:]
    assert [line[:24].strip() for line in table[:7]] == [
        "trxds xds",
        "trxds xds, cookie",
        "grpcio aio xds",
        "grpcio aio xds, cookie",
        "grpcio sync xds",
        "grpcio sync xds, cookie",
        "grpclib",
    ]
    assert table[-1].split()[:2] == ["10,000", "headers"]
