"""The control plane of docs/how-to/go-control-plane.md: the page has the text of the program that runs here."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from support import guides
from support.go_peers import program

import trxds
from trxds.testing import Call, serve
from trxds.xds.bootstrap import DELTA

GUIDE = "go-control-plane"
HERE = Path(__file__).parent
PATIENCE = 60  # seconds for a whole test, which takes one


def test_the_program_of_the_guide_is_the_one_that_is_built() -> None:
    assert guides.blocks(GUIDE, "go") == [(HERE / "go/guide/main.go").read_text("utf-8")]


class Plane:
    """The guide's program, which runs."""

    def __init__(self, process: trio.Process, greeting: str) -> None:
        self.process = process
        self.address = greeting.rpartition(" ")[2]

    @property
    def bootstrap(self) -> dict[str, Any]:
        """The guide's, with the address that the program has here."""
        (text,) = guides.blocks(GUIDE, "json")
        return json.loads(text.replace("127.0.0.1:18000", self.address))  # type: ignore[no-any-return]

    async def drain(self, host: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(host.encode() + b"\n")


@asynccontextmanager
async def plane(*hosts: str) -> AsyncIterator[Plane]:
    command = [str(program("guide")), "-listen", "127.0.0.1:0", *hosts]
    async with trio.open_nursery() as nursery:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await nursery.start(partial(trio.run_process, command, check=False, **pipes))
        greeting = b""
        while not greeting.endswith(b"\n"):
            greeting += await process.stdout.receive_some()
        yield Plane(process, greeting.decode().strip())
        process.kill()


@asynccontextmanager
async def host() -> AsyncIterator[str]:
    """One that answers with its own address."""
    async with serve() as server:

        async def answer(call: Call) -> None:
            await call.send(server.address.encode())

        server.fallback = answer
        yield server.address


async def ask(caller: trxds.Channel | trxds.Session) -> str:
    reply: bytes = await caller.method("/shop.Cart/Add")(b"", wait_for_ready=True)
    return reply.decode()


async def spread(caller: trxds.Channel | trxds.Session, calls: int) -> Counter[str]:
    return Counter([await ask(caller) for _ in range(calls)])


@pytest.fixture
def built() -> None:
    program("guide")


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("features", [[], [DELTA]], ids=["sotw", "delta"])
async def test_a_drained_host_of_the_guide_keeps_its_sessions_and_gets_no_other_calls(features: list[str]) -> None:
    with trio.fail_after(PATIENCE):
        async with host() as one, host() as other, plane(one, other) as control:
            bootstrap = control.bootstrap
            bootstrap["xds_servers"][0]["server_features"] += features
            async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
                while set(await spread(channel, 4)) != {one, other}:
                    pass
                async with channel.session(require=True) as session:
                    (home,) = await spread(session, 6)
                    await control.drain(home)
                    await session.wait_draining()
                    while home in await spread(channel, 4):
                        pass
                    assert await spread(session, 6) == {home: 6}
                    assert home not in await spread(channel, 6)


@pytest.mark.usefixtures("built")
async def test_a_client_of_another_node_cluster_is_told_nothing() -> None:
    with trio.fail_after(PATIENCE):
        async with host() as one, plane(one) as control:
            bootstrap = control.bootstrap
            bootstrap["node"]["cluster"] = "another"
            async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel:
                with pytest.raises(trxds.RpcError, match="DEADLINE_EXCEEDED"):
                    await channel.method("/shop.Cart/Add")(b"", timeout=0.3)
