"""`ManagementServer(snapshots=True)`: what go-control-plane's snapshot cache sends, and when it says nothing."""

from __future__ import annotations

import pytest
from support.ads_client import Client, connected
from trio.testing import MockClock

from trxds.resources.types import CDS, EDS
from trxds.testing import resources
from trxds.testing.management import ManagementServer


@pytest.fixture
def plane() -> ManagementServer:
    plane = ManagementServer(snapshots=True)
    plane.put(resources.cluster("a"), resources.cluster("b"))
    return plane


async def test_a_response_has_all_that_is_asked_for(plane: ManagementServer, autojump_clock: MockClock) -> None:
    async with connected(plane) as client:
        await client.says(CDS, "a")
        assert await client.hears() == "CDS 1 n1 a"


async def test_a_snapshot_server_sends_everything_to_a_client_without_names(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    async with connected(plane) as client:
        await acknowledged(client)
        await client.says(CDS, nonce="n1", version="1")
        await client.hears_nothing()
        plane.put(resources.cluster("c"))
        assert await client.hears() == "CDS 2 n2 a,b,c"


async def test_a_snapshot_server_sends_no_response_before_the_last_ack_or_nack(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    async with connected(plane) as client:
        await client.says(CDS, "a")
        await client.hears()
        plane.put(resources.cluster("a", idle_timeout=1))
        await client.hears_nothing()
        await client.says(CDS, "a", nonce="n1", version="1")
        assert await client.hears() == "CDS 2 n2 a"


async def test_a_request_with_another_nonce_is_ignored(plane: ManagementServer, autojump_clock: MockClock) -> None:
    async with connected(plane) as client:
        await acknowledged(client)
        await client.says(CDS, "a", "b", nonce="n0", version="1")
        await client.says(CDS, "a", "b", version="1")
        await client.hears_nothing()


async def test_a_name_in_an_answer_is_taken_for_one_that_the_client_has(
    plane: ManagementServer, autojump_clock: MockClock
) -> None:
    async with connected(plane) as client:
        await acknowledged(client)
        await client.says(CDS, nonce="n1", version="1")
        await client.hears_nothing()
        plane.put(resources.cluster("c"))
        await client.hears()
        await client.says(CDS, "b", nonce="n2", version="2")
        await client.hears_nothing()


async def test_a_name_that_was_dropped_is_sent_again(plane: ManagementServer, autojump_clock: MockClock) -> None:
    async with connected(plane) as client:
        await acknowledged(client)
        await client.says(CDS, nonce="n1", version="1")
        await client.says(CDS, "a", nonce="n1", version="1")
        assert await client.hears() == "CDS 1 n2 a"


async def test_a_nack_has_it_sent_again_at_once(plane: ManagementServer, autojump_clock: MockClock) -> None:
    async with connected(plane) as client:
        await client.says(CDS, "a")
        await client.hears()
        await client.says(CDS, "a", nonce="n1", error="no")
        assert await client.hears() == "CDS 1 n2 a"


async def test_every_change_is_a_new_version_of_every_type(plane: ManagementServer, autojump_clock: MockClock) -> None:
    plane.put(resources.endpoints("a"))
    async with connected(plane) as client:
        await client.says(EDS, "a")
        assert await client.hears() == "EDS 2 n1 a"
        await client.says(EDS, "a", nonce="n1", version="2")
        plane.remove("CDS", "b")
        assert await client.hears() == "EDS 3 n2 a"


async def acknowledged(client: Client) -> None:
    await client.says(CDS, "a")
    await client.hears()
    await client.says(CDS, "a", nonce="n1", version="1")
