"""Programs that are peers of the tests: they write events as JSON lines, the first of which says where they listen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
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
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        peer = Peer(await nursery.start(start))
        nursery.start_soon(peer.read)
        peer.address = (await peer.wait_for(lambda event: "listening" in event))["listening"]
        yield peer
        peer.process.kill()  # which does nothing to one that has ended
