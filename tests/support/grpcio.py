"""The whole client in front of a grpcio server, as `peers/grpcio_server.py` runs it in a process of its own."""

import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

import trxds
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

PEERS = Path(__file__).parent.parent / "peers"
SERVER = PEERS / "grpcio_server.py"


@asynccontextmanager
async def grpcio_server(*arguments, program=SERVER):
    """The address of a grpcio server that lives as long as the block; what it logs of bad clients is not shown."""
    command = [sys.executable, str(program), *arguments]
    quiet = {"stderr": subprocess.DEVNULL} if arguments else {}
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **quiet)
        )
        line = b""
        while not line.endswith(b"\n"):
            line += await process.stdout.receive_some()
        yield line.decode().strip()
        await process.stdin.aclose()


@asynccontextmanager
async def channel_to_grpcio(route=None, **options):
    plane = ManagementServer()
    async with grpcio_server() as address, plane.serve() as ads:
        plane.put(
            xds.listener("echo", routes="r", filters=[xds.stateful_session()]),
            xds.routes("r", route or xds.route("echo")),
            xds.cluster("echo"),
            xds.endpoints("echo", xds.locality(address)),
        )
        async with trxds.open_channel("xds:///echo", bootstrap=xds.bootstrap(ads), **options) as channel:
            yield channel
