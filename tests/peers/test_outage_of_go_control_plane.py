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
from support.programs import free_ports

import trxds
from trxds.testing import Call, serve

pytestmark = pytest.mark.usefixtures("go_programs")

ROOT = Path(__file__).parents[2]
PATIENCE = 60  # seconds for a whole test, which takes four

PROGRAM = """
import json, sys, trio, trxds

async def main():
    async with trxds.open_channel("xds:///shop", bootstrap=json.loads(sys.argv[1]), cache_dir=sys.argv[2]) as channel:
        print((await channel.method("/shop.Cart/Add")(b"")).decode())
        print((await channel.explain("/shop.Cart/Add")).stale)

trio.run(main)
"""


@asynccontextmanager
async def plane(port: int, *hosts: str) -> AsyncIterator[None]:
    """The control plane of the guide, until it is killed at the end of the block."""
    command = [str(program("guide")), "-listen", f"127.0.0.1:{port}", *hosts]
    async with trio.open_nursery() as nursery:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await nursery.start(partial(trio.run_process, command, check=False, **pipes))
        assert await process.stdout.receive_some()  # its greeting
        yield
        nursery.cancel_scope.cancel()


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
    return any(cache_dir.glob("*/*.cache"))


async def test_a_new_process_starts_from_what_a_dead_control_plane_sent_last(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (text,) = guides.blocks("go-control-plane", "json")
    bootstrap: dict[str, Any] = json.loads(text.replace("127.0.0.1:18000", f"127.0.0.1:{port}"))
    options = {"bootstrap": bootstrap, "cache_dir": tmp_path}
    with trio.fail_after(PATIENCE):
        async with host() as one, host() as other:
            async with plane(port, one), trxds.open_channel("xds:///shop", **options) as channel:
                assert await ask(channel) == one
                while not is_written(tmp_path):
                    await ask(channel)
            environ = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-c", PROGRAM, json.dumps(bootstrap), str(tmp_path)]
            done = await trio.run_process(command, env=environ, capture_stdout=True)
            address, stale = done.stdout.decode().splitlines()
            assert address == one
            assert "more resources are stale: from the cache on disk" in stale
            async with trxds.open_channel("xds:///shop", **options) as channel:
                assert await ask(channel) == one
                async with plane(port, other):
                    while await ask(channel) != other:
                        pass
                    client = channel.admin_view().client
                    assert client is not None
                    assert client.stale == ""
