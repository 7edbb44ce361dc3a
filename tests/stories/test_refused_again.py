"""NACKs are rate-limited for a control plane that resends a rejected resource at once, as go-control-plane does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

import trxds
from trxds.testing import Call, ManagementServer, MemoryNetwork, resources, serve, unary

PLANE, BACKEND, SECOND = "10.0.0.1:18000", "10.0.0.2:50051", "10.0.0.3:50051"
NAME = "/shop.Cart/Name"


@pytest.fixture
def plane() -> ManagementServer:
    plane = ManagementServer(snapshots=True)
    plane.put(
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        resources.cluster("cart"),
        resources.endpoints("cart", resources.locality(BACKEND)),
    )
    return plane


@asynccontextmanager
async def shop(plane: ManagementServer) -> AsyncIterator[trxds.Channel]:
    network = MemoryNetwork()

    async def name(request: bytes, call: Call) -> bytes:
        return b"first"

    async def second_name(request: bytes, call: Call) -> bytes:
        return b"second"

    async with (
        plane.serve(PLANE, network),
        serve({NAME: unary(name)}, address=BACKEND, network=network),
        serve({NAME: unary(second_name)}, address=SECOND, network=network),
        trxds.open_channel("xds:///shop", bootstrap=resources.bootstrap(PLANE), network=network) as channel,
    ):
        assert await channel.method(NAME)(b"", timeout=5) == b"first"
        yield channel


def bad_cluster() -> resources.Resource:
    return resources.cluster("cart") | {"lb_policy": "MAGLEV"}


def nacks(plane: ManagementServer) -> int:
    return sum(request.answer == "NACK" for request in plane.requests)


async def test_a_nacked_resource_sent_again_at_once_brings_fewer_than_fifty_nacks_in_five_seconds(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    async with shop(plane) as channel:
        plane.put(bad_cluster())
        await trio.sleep(5)
        assert 2 < nacks(plane) < 50
        assert await channel.method(NAME)(b"", timeout=5) == b"first"


async def test_other_types_are_updated_while_a_resource_is_nacked_repeatedly(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    async with shop(plane) as channel:
        plane.put(bad_cluster())
        await trio.sleep(3)
        began = trio.current_time()
        plane.put(resources.endpoints("cart", resources.locality(SECOND)))
        await plane.wait_for_ack("EDS")
        assert trio.current_time() == began
        await trio.testing.wait_all_tasks_blocked()
        assert await channel.method(NAME)(b"", timeout=5) == b"second"


async def test_a_good_update_after_repeated_nacks_is_acked_at_once(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    """This server waits for the NACK before it sends anything more of the type."""
    async with shop(plane):
        plane.put(bad_cluster())
        await trio.sleep(5)
        plane.put(resources.cluster("cart"))
        began = trio.current_time()
        await plane.wait_for_ack("CDS")
        assert trio.current_time() - began <= 1
