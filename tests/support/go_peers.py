"""The peers in Go (tests/peers/go): programs of our own, which write what happens as JSON lines, and two of others.

`make peers` and `make test` build them all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from trxds.testing.resources import Resource

from . import peer_programs
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


class Plane:
    """go-control-plane, which serves one snapshot to everybody."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.address = peer.address
        self.version = 0
        self._since = 0  # the number of events before its snapshot was given to it

    async def serve(self, *resources: Resource) -> None:
        """Have it serve these resources and no others; returns when its cache has them."""
        assert self._peer.process.stdin is not None
        self.version += 1
        self._since = len(self._peer.events)
        await self._peer.process.stdin.send_all(json.dumps(resources).encode() + b"\n")
        await self._peer.wait_for(lambda event: event.get("snapshot") == self.version)

    def requests(self) -> list[dict[str, Any]]:
        """All that clients have asked for so far, and answered."""
        return [event["request"] for event in self._peer.events if "request" in event]

    async def wait_for_request(self, type_url: str, *, refused: bool) -> None:
        """Wait for an ACK or a NACK of that type, of those after the present snapshot was given to be served."""

        def wanted(event: dict[str, Any]) -> bool:
            request = event.get("request")
            return request is not None and request["type_url"] == type_url and bool(request["error"]) is refused

        await self._peer.wait_for(wanted, since=self._since)

    async def kill(self) -> None:
        """Have it end without a word."""
        self._peer.process.kill()
        await self._peer.process.wait()

    def nacks(self) -> list[dict[str, Any]]:
        return [request for request in self.requests() if request["error"]]


@asynccontextmanager
async def plane(*flags: str) -> AsyncIterator[Plane]:
    async with running("plane", *flags) as peer:
        yield Plane(peer)


def known_failures(name: str) -> list[str]:
    """The lines of that list in tests/peers/known_failures, without its comments."""
    lines = (KNOWN_FAILURES / name).read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]
