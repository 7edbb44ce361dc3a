"""go-control-plane dies, and a new process starts from what it sent last; then it is back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from support import guides
from support.go_peers import program
from support.ports import reserved_address

import trxds
from trxds.testing import Call, serve

pytestmark = pytest.mark.usefixtures("go_programs")

ROOT = Path(__file__).parents[2]
PATIENCE = 60  # seconds for a whole test, which takes four
ENDPOINTS = b"envoy.config.endpoint.v3.ClusterLoadAssignment"

PROGRAM = """
import json, sys, trio, trxds

async def main():
    async with trxds.open_channel("xds:///shop", bootstrap=json.loads(sys.argv[1]), cache_dir=sys.argv[2]) as channel:
        print((await channel.method("/shop.Cart/Add")(b"")).decode())
        print((await channel.explain("/shop.Cart/Add")).stale)

trio.run(main)
"""


@asynccontextmanager
async def plane(address: str, *hosts: str) -> AsyncIterator[None]:
    """The control plane of the guide, until it is killed at the end of the block."""
    command = [str(program("guide")), "-listen", address, *hosts]
    async with trio.open_nursery() as nursery:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await nursery.start(partial(trio.run_process, command, check=False, **pipes))
        greeting = b""
        while not greeting.endswith(b"\n"):
            more = await process.stdout.receive_some()
            assert more, "it has ended"
            greeting += more
        yield
        process.kill()


@asynccontextmanager
async def host() -> AsyncIterator[str]:
    async with serve() as server:

        async def answer(call: Call) -> None:
            await call.send(server.address.encode())

        server.fallback = answer
        yield server.address


async def ask(channel: trxds.Channel) -> str:
    reply: bytes = await channel.method("/shop.Cart/Add")(b"", wait_for_ready=True)
    return reply.decode()


def is_written(cache_dir: Path) -> bool:
    """Whether the cache has the endpoints, which come last: a write may be earlier than they are."""
    return any(ENDPOINTS in file.read_bytes() for file in cache_dir.glob("*/*.cache"))


async def test_a_new_process_starts_from_what_a_dead_control_plane_sent_last(tmp_path: Path) -> None:
    (text,) = guides.blocks("go-control-plane", "json")
    with trio.fail_after(PATIENCE), reserved_address() as address:
        bootstrap: dict[str, Any] = json.loads(text.replace("127.0.0.1:18000", address))
        options = {"bootstrap": bootstrap, "cache_dir": tmp_path}
        async with host() as one, host() as other:
            async with plane(address, one), trxds.open_channel("xds:///shop", **options) as channel:
                assert await ask(channel) == one
                while not is_written(tmp_path):
                    await ask(channel)
            environ = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-c", PROGRAM, json.dumps(bootstrap), str(tmp_path)]
            done = await trio.run_process(command, env=environ, capture_stdout=True)
            answer, stale = done.stdout.decode().splitlines()
            assert answer == one
            assert "more resources are stale: from the cache on disk" in stale
            async with trxds.open_channel("xds:///shop", **options) as channel:
                assert await ask(channel) == one
                async with plane(address, other):
                    while await ask(channel) != other:
                        pass
                    client = channel.admin_view().client
                    assert client is not None
                    assert client.stale == ""
