"""A session of one process is continued in others, with three real grpcio hosts."""

from __future__ import annotations

import json
import os
import sys

import trio
from support.grpcio import grpcio_server

from trxds.testing import ManagementServer, resources

PROGRAM = """
import os
import trio
import trxds

async def main():
    async with (
        trxds.open_channel("xds:///greeter") as channel,
        channel.session(os.environ.get("TOKEN"), key=bytes.fromhex(os.environ["KEY"])) as session,
    ):
        for _ in range(3):
            async with session.method("/helloworld.Greeter/SayHello").open(b"x") as call:
                await call.receive()
                print(call.peer)
        print(session.export(key=bytes.fromhex(os.environ["KEY"])))

trio.run(main)
"""


async def run(environ: dict[str, str]) -> tuple[set[str], str]:
    """Run the program in a process of its own; return the hosts that it met, and its token."""
    done = await trio.run_process([sys.executable, "-c", PROGRAM], env={**os.environ, **environ}, capture_stdout=True)
    *hosts, token = done.stdout.decode().splitlines()
    return set(hosts), token


async def test_a_session_is_continued_in_other_processes_at_the_same_grpcio_host() -> None:
    plane = ManagementServer()
    async with grpcio_server() as first, grpcio_server() as second, grpcio_server() as third, plane.serve() as address:
        plane.put(
            resources.listener("greeter", routes="r", filters=[resources.stateful_session(ttl=600)]),
            resources.routes("r", resources.route("c")),
            resources.cluster("c"),
            resources.endpoints("c", resources.locality(first, second, third)),
        )
        environ = {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(resources.bootstrap(address)), "KEY": os.urandom(32).hex()}
        with trio.fail_after(60):
            hosts, token = await run(environ)
            assert len(hosts) == 1 and hosts < {first, second, third}
            for _ in range(5):
                assert (await run({**environ, "TOKEN": token}))[0] == hosts
