"""A hostile client over TCP, in a process of its own, delays a good client's calls by less than a second.

The measure is the CPU time of this process, which has the server and the good client: the attack keeps the server busy
all the time, and other load of the machine does not matter. What earlier tests of the process left is kept from the
garbage collector meanwhile: one collection of it can take half a second.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from support.hostile_client import ATTACKS

import trxds
from trxds.testing import Call, serve, unary

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent.parent / "support" / "hostile_client.py"


async def echo(request: bytes, call: Call) -> bytes:
    return request


async def wait(call: Call) -> None:
    await trio.sleep_forever()


@asynccontextmanager
async def attacked(address: str, name: str):
    command = [sys.executable, str(PROGRAM), address, name]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
        said = b""
        while not said.endswith(b"\n"):
            said += await process.stdout.receive_some()
        yield
        process.kill()


@pytest.fixture(autouse=True)
def heap_of_its_own() -> None:
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("name", [*ATTACKS, "silence"])
async def test_a_hostile_client_delays_no_call_by_a_second(name: str) -> None:
    slowest = 0.0
    async with (
        serve({"/s/Echo": unary(echo), "/s/Wait": wait}, remember_calls=False) as server,
        attacked(server.address, name),
    ):
        for _ in range(5):  # each with a connection of its own
            began = time.process_time()
            async with trxds.open_channel(f"ipv4:{server.address}") as channel:
                assert await channel.method("/s/Echo")(b"x", timeout=60) == b"x"
            slowest = max(slowest, time.process_time() - began)
    assert slowest < 1
