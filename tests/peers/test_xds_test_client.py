"""`python -m trxds.interop.xds_client` in front of two servers of grpc-go, driven by grpcio as psm-interop does it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio
from support.go_peers import running
from support.peer_programs import Peer

from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.usefixtures("go_programs")

DRIVER = Path(__file__).with_name("grpcio_driver.py")
PATIENCE = 120  # seconds for a whole test, which takes some four


@dataclass
class Client:
    """The command; `errors` is what it has written to stderr."""

    process: trio.Process
    backends: dict[str, Peer]
    plane: str
    errors: str = ""
    address: str = ""
    ended: trio.Event = field(default_factory=trio.Event)

    async def read(self, listening: trio.Event) -> None:
        """Collect its errors until it ends."""
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.errors += chunk.decode()
            if found := re.search(r"listen at port (\d+)\n", self.errors):
                self.address = f"127.0.0.1:{found[1]}"
                listening.set()
        self.ended.set()


@asynccontextmanager
async def client(*flags: str) -> AsyncIterator[Client]:
    """The command with two backends, blue and red, and sessions."""
    control = ManagementServer()
    with trio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            backends = {
                name: await stack.enter_async_context(running("backend", "-name", name)) for name in ("blue", "red")
            }
            plane = await stack.enter_async_context(control.serve())
            control.put(
                xds.listener("shop", routes="r", filters=[xds.stateful_session()]),
                xds.routes("r", xds.route("cart")),
                xds.cluster("cart"),
                xds.endpoints("cart", xds.locality(*(backend.address for backend in backends.values()))),
            )
            nursery = await stack.enter_async_context(trio.open_nursery())
            words = ["--server=xds:///shop", "--stats_port=0", "--qps=50", *flags]
            run = partial(
                trio.run_process,
                [sys.executable, "-m", "trxds.interop.xds_client", *words],
                env={**os.environ, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(plane))},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
            )
            command = Client(await nursery.start(run), backends, plane)
            listening = trio.Event()
            nursery.start_soon(command.read, listening)
            await listening.wait()
            yield command
            command.process.kill()


async def test_a_driver_of_grpcio_uses_all_services_of_the_client() -> None:
    async with client() as command:
        driven = await trio.run_process([sys.executable, str(DRIVER), command.address], capture_stdout=True)
    assert json.loads(driven.stdout) == {
        "spread": {"blue": 10, "red": 10},
        "keys": ["seen-authority", "set-cookie"],
        "pinned": True,
        "methods": {"UNARY_CALL": [0], "EMPTY_CALL": [0]},
        "csds": ["cart", "cart", "r", "shop"],
        "channels": ["xds:///shop", command.plane],
        "health": 1,
    }


async def test_the_command_ends_with_the_first_failure_after_a_success_if_wanted() -> None:
    async with client("--fail_on_failed_rpc=true", "--print_response=True") as command:
        output = command.process.stdout
        assert output is not None
        printed = b""
        while b"\n" not in printed:
            printed += await output.receive_some()
        for backend in command.backends.values():
            backend.process.kill()
        async for _ in output:
            pass
        await command.ended.wait()
        await command.process.wait()
    assert re.match(rb"Greeting: Hello world, this is (blue|red), from 127\.0\.0\.1:\d+\n", printed)
    assert command.process.returncode == 1
    assert "an RPC failed after one had succeeded, and --fail_on_failed_rpc is set: UNAVAILABLE" in command.errors
    assert "Traceback" not in command.errors


async def test_ctrl_c_ends_the_command_without_an_error(sigint: None) -> None:
    async with client() as command:
        command.process.send_signal(signal.SIGINT)
        await command.process.wait()
        await command.ended.wait()
    assert command.process.returncode == 0
    assert "Traceback" not in command.errors
