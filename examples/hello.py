"""One RPC through xDS: a control plane says where "greeter" is, and the client asks there.

python examples/hello.py                                 # brings its own control plane and server
GRPC_XDS_BOOTSTRAP=bootstrap.json python examples/hello.py --target xds:///greeter
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

import trxds
from trxds.testing import Call, ManagementServer, resources, serve, unary

SAY_HELLO = "/helloworld.Greeter/SayHello"


async def main(target: str | None) -> None:
    if target is not None:
        await greet(target, bootstrap=None)  # the environment has the bootstrap
        return
    async with own_control_plane() as bootstrap:
        await greet("xds:///greeter", bootstrap)


async def greet(target: str, bootstrap: dict[str, Any] | None) -> None:
    """The client: all there is to it."""
    async with trxds.open_channel(target, bootstrap=bootstrap) as channel:
        # Without types a message is its bytes; with protobuf, give the two classes, or use channel.stub(descriptor).
        say_hello = channel.method(SAY_HELLO)
        print((await say_hello(b"you", timeout=10)).decode())


@asynccontextmanager
async def own_control_plane() -> AsyncIterator[dict[str, Any]]:
    """A greeter, and an ADS server that knows it; the value is the bootstrap of a client."""

    async def hello(request: bytes, call: Call) -> bytes:
        return b"Hello, " + request

    plane = ManagementServer()
    async with serve({SAY_HELLO: unary(hello)}) as greeter, plane.serve() as address:
        plane.put(
            resources.listener("greeter", routes="greeter-routes"),
            resources.routes("greeter-routes", resources.route("greeter-cluster")),
            resources.cluster("greeter-cluster"),
            resources.endpoints("greeter-cluster", resources.locality(greeter.address)),
        )
        yield resources.bootstrap(address)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", help="an xDS target of your own; its bootstrap comes from the environment")
    trio.run(main, parser.parse_args().target)
