"""Programs that are peers of the tests: they write events as JSON lines, the first of which says where they listen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import trio


class Peer:
    """Such a program; `address` is where it listens."""

    address: str

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._more = trio.Event()

    async def read(self) -> None:
        """Collect its events until it ends."""
        assert self.process.stdout is not None
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            self.events += map(json.loads, lines)
            self._more.set()
            self._more = trio.Event()

    async def wait_for(self, wanted: Callable[[dict[str, Any]], bool], *, since: int = 0) -> dict[str, Any]:
        """The first event that is wanted, of those after the first `since`."""
        while True:
            for event in self.events[since:]:
                if wanted(event):
                    return event
            await self._more.wait()


@asynccontextmanager
async def running(command: Sequence[str]) -> AsyncIterator[Peer]:
    """The program, from when it listens until the block is left."""
    async with running_together(command) as (peer,):
        yield peer


@asynccontextmanager
async def running_together(*commands: Sequence[str]) -> AsyncIterator[list[Peer]]:
    """Several programs, which start together: each may take a second."""
    async with trio.open_nursery() as nursery:
        peers = []
        for command in commands:
            start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
            peers.append(peer := Peer(await nursery.start(start)))
            nursery.start_soon(peer.read)
        for peer in peers:
            peer.address = (await peer.wait_for(lambda event: "listening" in event))["listening"]
        yield peers
        for peer in peers:
            peer.process.kill()  # which does nothing to one that has ended


@contextmanager
def serving(command: Sequence[str]) -> Iterator[str]:
    """The address of such a program, which several tests share; it runs as long as the block."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.kill()
