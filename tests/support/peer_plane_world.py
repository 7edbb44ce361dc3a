"""A shop on loopback whose control plane is another's program: two hosts, and a channel that is led to the first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import trio

import trxds
from trxds import Metadata
from trxds.testing import Call, serve
from trxds.testing import resources as xds
from trxds.testing.resources import Resource
from trxds.xds.bootstrap import DELTA

from .peer_planes import Plane, StartPlane
from .ports import reserved_address

PATIENCE = 180  # seconds for a whole test, most of which take one; on a busy machine Java alone needs ten to begin
AT_ONCE = 12  # seconds, less than the 15 after which a client without a resource takes it for missing
SETTLED = 0.1  # seconds in which a change is usually noticed, if only by what it broke; no test needs it to be
PROTOCOLS = {"sotw": "xds_v3", "delta": DELTA}


class Mode(NamedTuple):
    """A control plane, the protocol that the client speaks with it, and the flags of its program."""

    plane: StartPlane
    protocol: str
    flags: tuple[str, ...] = ()


CLUSTER = xds.cluster("cart")["@type"]
REFUSED = xds.cluster("cart") | {"lb_policy": "MAGLEV"}  # gRPC has no such policy


@dataclass
class World:
    """A control plane, two hosts, and a channel that is led to the first."""

    mode: Mode
    plane: Plane
    hosts: list[str]
    channel: trxds.Channel
    resources: dict[str, Resource]
    seen: list[Metadata]  # of the calls that reached a host

    async def serve(self, **changed: Resource | None) -> None:
        """Another snapshot: without the kinds that are None."""
        resources = self.resources | changed
        await self.plane.serve(*(resource for resource in resources.values() if resource is not None))

    @asynccontextmanager
    async def restarted(self, *flags: str) -> AsyncIterator[None]:
        """Kill the control plane. One with the same address and no snapshot takes its place until the block is left."""
        address = self.plane.address
        await self.plane.kill()
        async with self.mode.plane(*self.mode.flags, *flags, "-listen", address) as self.plane:
            yield

    async def host(self) -> str:
        """Who answers a call that waits for a host."""
        reply: bytes = await self.channel.method("/shop.Cart/Add")(b"", wait_for_ready=True)
        return reply.decode()

    async def fails(self) -> trxds.Status | None:
        """Of a call that does not wait for a host, how it fails."""
        try:
            await self.channel.method("/shop.Cart/Add")(b"")
        except trxds.RpcError as error:
            return error.status
        return None

    async def metadata(self) -> Metadata:
        """What reaches a host with a call."""
        await self.host()
        return self.seen[-1]

    async def come_to(self, host: str) -> None:
        """Wait until that one answers."""
        while await self.host() != host:
            pass


@asynccontextmanager
async def world(mode: Mode, *, filters: tuple[Resource, ...] = (), **more: Any) -> AsyncIterator[World]:
    seen: list[Metadata] = []
    async with AsyncExitStack() as stack:
        stack.enter_context(trio.fail_after(PATIENCE))
        address = stack.enter_context(reserved_address())  # for the one, too, that takes its place
        plane = await stack.enter_async_context(mode.plane(*mode.flags, "-listen", address))
        one, other = [await stack.enter_async_context(host(seen)) for _ in range(2)]
        channel = await stack.enter_async_context(open_channel(plane, mode, **more))
        resources = {
            "LDS": xds.listener("shop", routes="routes", filters=filters),
            "RDS": xds.routes("routes", xds.route("cart")),
            "CDS": xds.cluster("cart"),
            "EDS": endpoints(one),
        }
        shop = World(mode, plane, [one, other], channel, resources, seen)
        await shop.serve()
        await shop.come_to(one)
        yield shop


def open_channel(
    plane: Plane, mode: Mode, *, node: str = "trxds-test", target: str = "shop", **more: Any
) -> AbstractAsyncContextManager[trxds.Channel]:
    bootstrap = xds.bootstrap(plane.address, node=node, features=["xds_v3", PROTOCOLS[mode.protocol]])
    return trxds.open_channel(f"xds:///{target}", bootstrap=bootstrap, **more)


@asynccontextmanager
async def host(seen: list[Metadata]) -> AsyncIterator[str]:
    """One that says its own address, which is the value, and keeps the metadata of its calls."""
    async with serve() as server:

        async def say_address(call: Call) -> None:
            seen.append(call.metadata)
            await call.send(server.address.encode())

        server.fallback = say_address
        yield server.address


def endpoints(*addresses: str) -> Resource:
    return xds.endpoints("cart", xds.locality(*addresses))
