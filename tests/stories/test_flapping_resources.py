"""When a removed listener or cluster is put back, RPCs are served again within a round trip."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import trxds
from trxds.testing import Call, ManagementServer, MemoryNetwork, resources, serve, unary

pytestmark = pytest.mark.slow

PLANE, BACKEND = "10.0.0.1:18000", "10.0.0.2:50051"
ECHO = "/shop.Cart/Echo"
AT_ONCE = 12  # seconds on the real clock, less than the 15 after which a resource is taken for missing


async def echo(request: bytes, call: Call) -> bytes:
    return request


def everything(backend: str) -> list[resources.Resource]:
    return [
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        resources.cluster("cart"),
        resources.endpoints("cart", resources.locality(backend)),
    ]


@pytest.mark.parametrize("snapshots", [False, True], ids=["what is new", "snapshots"])
@pytest.mark.parametrize(("kind", "name"), [("LDS", "shop"), ("CDS", "cart")])
async def test_rpcs_are_served_at_once_when_a_removed_resource_returns_after_any_gap(
    kind: str, name: str, snapshots: bool, autojump_clock: MockClock
) -> None:
    network, plane = MemoryNetwork(), ManagementServer(snapshots=snapshots)
    plane.put(*everything(BACKEND))
    async with (
        plane.serve(PLANE, network),
        serve({ECHO: unary(echo)}, address=BACKEND, network=network),
        trxds.open_channel("xds:///shop", bootstrap=resources.bootstrap(PLANE), network=network) as channel,
    ):
        call = channel.method(ECHO)
        await call(b"x", timeout=5)
        began = trio.current_time()
        for gap in range(61):
            plane.remove(kind, name)
            for _ in range(gap):
                await trio.lowlevel.checkpoint()
            plane.put(*everything(BACKEND))
            for _ in range(200):  # the channel has heard of it
                await trio.lowlevel.checkpoint()
            await call(b"x", timeout=5, wait_for_ready=True)
            assert trio.current_time() - began < 1, f"after a gap of {gap} steps"


@pytest.mark.parametrize("kind", ["LDS", "CDS"])
@pytest.mark.parametrize("gap", [0, 0.0005, 0.001, 0.002, 0.005, 0.01])
async def test_rpcs_over_tcp_are_served_at_once_when_a_removed_resource_returns(kind: str, gap: float) -> None:
    plane = ManagementServer(snapshots=True)
    async with serve({ECHO: unary(echo)}) as backend, plane.serve() as address:
        plane.put(*everything(backend.address))
        async with trxds.open_channel("xds:///shop", bootstrap=resources.bootstrap(address)) as channel:
            call = channel.method(ECHO)
            await call(b"x", timeout=AT_ONCE)
            for _ in range(5):
                plane.remove(kind, "shop" if kind == "LDS" else "cart")
                await trio.sleep(gap)
                plane.put(*everything(backend.address))
                await plane.wait_for_ack("EDS")
                await call(b"x", timeout=AT_ONCE, wait_for_ready=True)
