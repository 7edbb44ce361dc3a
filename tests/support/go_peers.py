"""The peers in Go (tests/peers/go): programs of our own, which write what happens as JSON lines, and two of others.

`make peers` and `make test` build them all.
"""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from . import peer_planes, peer_programs
from .peer_planes import Plane
from .peer_programs import Peer

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".peers" / "go"
NAMES = ("plane", "backend", "client", "connectconformance", "h2spec")
KNOWN_FAILURES = ROOT / "tests" / "peers" / "known_failures"

# A run of fewer cases would prove less than it seems to.
CONFORMANCE_CASES = {"client": (857, 857), "server": (747, 747)}
"""How many connectconformance has for what the two .yaml files say, and how many of them pass."""
H2SPEC_CASES = 146


def program(name: str) -> Path:
    """Where it is. Without Go the test is left out; without the program alone too, but in CI it fails."""
    path = PROGRAMS / name
    if not path.exists():
        if shutil.which("go") is None:
            pytest.skip("Go is not installed")
        missing = f"{name} is not in {PROGRAMS}; `make test` builds it"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)
    return path


def running(name: str, *flags: str) -> AbstractAsyncContextManager[Peer]:
    """The program, from when it listens until the block is left."""
    return peer_programs.running([str(program(name)), *flags])


def plane(*flags: str) -> AbstractAsyncContextManager[Plane]:
    """go-control-plane, with the flags of tests/peers/go/plane."""
    return peer_planes.plane(running("plane", *flags))


def known_failures(name: str) -> list[str]:
    """The lines of that list in tests/peers/known_failures, without its comments."""
    lines = (KNOWN_FAILURES / name).read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]
