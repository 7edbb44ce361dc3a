"""The ManagementServer: what it sends to whom, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from support.ads_client import connected
from trio.testing import MockClock

from trxds.resources import protos
from trxds.resources.types import CDS, EDS, LDS
from trxds.testing import resources
from trxds.testing.management import ManagementServer


async def test_clusters_are_sent_complete_each_time(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"), resources.cluster("b"))
    async with connected(plane) as client:
        await client.says(CDS, "a", "b", "c")
        assert await client.hears() == "CDS 1 n1 a,b"
        plane.put(resources.cluster("c"))
        assert await client.hears() == "CDS 2 n2 a,b,c"
        plane.remove("CDS", "a")
        assert await client.hears() == "CDS 3 n3 b,c"


async def test_endpoints_are_sent_as_they_change(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.endpoints("a"))
    async with connected(plane) as client:
        await client.says(EDS, "a", "b")
        assert await client.hears() == "EDS 1 n1 a"
        plane.put(resources.endpoints("b"))
        assert await client.hears() == "EDS 2 n2 b"
        plane.remove("EDS", "a")
        await client.hears_nothing()


async def test_the_endpoints_of_a_cluster_that_changed_follow_it_once_more(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"), resources.cluster("b"), resources.endpoints("a"), resources.endpoints("b"))
    async with connected(plane) as client:
        await client.says(CDS)
        assert await client.hears() == "CDS 1 n1 a,b"
        await client.says(EDS, "a", "b")
        assert await client.hears() == "EDS 1 n2 a,b"
        plane.put(resources.cluster("b", idle_timeout=5))
        assert [await client.hears(), await client.hears()] == ["CDS 2 n3 a,b", "EDS 1 n4 b"]
        shares = resources.cluster("c")
        shares["eds_cluster_config"]["service_name"] = "a"
        plane.put(shares)
        assert [await client.hears(), await client.hears()] == ["CDS 3 n5 a,b,c", "EDS 1 n6 a"]
        await client.hears_nothing()


async def test_a_client_that_asks_for_what_is_not_there_hears_so_of_clusters_only(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    async with connected(plane) as client:
        await client.says(EDS, "a")
        await client.hears_nothing()
        await client.says(CDS, "a")
        assert await client.hears() == "CDS 0 n1"


async def test_an_ack_and_an_unrelated_change_are_no_reason_to_send(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"))
    async with connected(plane) as client:
        await client.says(CDS, "a")
        await client.hears()
        await client.says(CDS, "a", nonce="n1", version="1")
        plane.put(resources.cluster("b"))
        await client.hears_nothing()


async def test_a_new_name_is_answered(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.endpoints("a"), resources.endpoints("b"))
    async with connected(plane) as client:
        await client.says(EDS, "a")
        await client.hears()
        await client.says(EDS, "a", "b", nonce="n1", version="1")
        assert await client.hears() == "EDS 1 n2 b"


async def test_a_name_dropped_and_asked_for_again_is_sent_again(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.endpoints("a"))
    async with connected(plane) as client:
        for _ in range(2):
            await client.says(EDS, "a", nonce=f"n{len(plane.responses)}" if plane.responses else "")
            await client.hears()
            await client.says(EDS, nonce=f"n{len(plane.responses)}")


async def test_the_names_of_an_answer_to_an_older_response_do_not_count(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"), resources.cluster("b"))
    async with connected(plane) as client:
        await client.says(CDS, "a", "b")
        await client.hears()
        plane.put(resources.cluster("a", idle_timeout=1))
        await client.hears()
        await client.says(CDS, "a", nonce="n1", version="1")
        await client.hears_nothing()


async def test_a_first_request_without_names_asks_for_all_clusters(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"), resources.cluster("b"))
    async with connected(plane) as client:
        await client.says(CDS)
        assert await client.hears() == "CDS 1 n1 a,b"
        plane.put(resources.cluster("c"))
        assert await client.hears() == "CDS 2 n2 a,b,c"


async def test_one_put_of_many_types_is_one_response_each_clusters_first(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    async with connected(plane) as client:
        for type in (LDS, CDS, EDS):
            await client.says(type, "a")
        assert {(await client.hears())[:5], (await client.hears())[:5]} == {"LDS 0", "CDS 0"}
        plane.put(resources.listener("a", routes="r"), resources.endpoints("a"), resources.cluster("a"))
        assert [await client.hears() for _ in range(3)] == ["CDS 1 n3 a", "EDS 1 n4 a", "LDS 1 n5 a"]


async def test_a_withheld_resource_is_sent_when_it_is_released(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"))
    plane.withhold("CDS")
    async with connected(plane) as client:
        await client.says(CDS, "a")
        await client.hears_nothing()
        plane.release("CDS")
        assert await client.hears() == "CDS 1 n1 a"


async def test_answers_are_found_by_nonce(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"))
    async with connected(plane) as client:
        await client.says(CDS, "a")
        await client.hears()
        await client.says(CDS, "a", nonce="n1", error="no")
        nack = await plane.wait_for_nack("CDS")
        assert (nack.answer, nack.error, nack.version, nack.names, nack.stream) == ("NACK", "no", "", ("a",), 1)
        assert nack.node.id == "n"
        plane.put(resources.cluster("a", idle_timeout=1))
        await client.hears()
        with trio.move_on_after(1) as early:
            await plane.wait_for_ack("CDS")
        assert early.cancelled_caught
        await client.says(CDS, "a", nonce="n2", version="2")
        assert str(await plane.wait_for_ack("CDS")) == "ACK CDS v=2 a"


async def test_the_management_server_can_drop_streams_and_keep_listening(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    async with connected(plane) as client:
        await plane.wait_for_streams(1)
        plane.drop_streams()
        assert await client.stream.receive() is None
        assert client.stream.status is not None
        assert client.stream.status.ok
        await plane.wait_for_streams(0)


async def test_resources_outlive_serve(autojump_clock: MockClock) -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"))
    for number in (1, 2):
        async with connected(plane) as client:
            await client.says(CDS, "a")
            assert await client.hears() == f"CDS 1 n{number} a"


def test_resources_come_as_messages_too() -> None:
    plane = ManagementServer()
    plane.put(protos.Cluster(name="a"), protos.pack(protos.Listener(name="l")))
    assert repr(plane) == "<ManagementServer 1 LDS, 0 RDS, 1 CDS, 0 EDS, 0 streams>"


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        ({**resources.cluster("a"), "lb_polcy": "x"}, "resource 'a': field:lb_polcy error:"),
        (resources.endpoints("c", resources.locality("a:1", health={"a:1": "SICK"})), "resource 'c': field:endpoints"),
        ({"name": "a"}, "@type"),
        (protos.DiscoveryRequest(), "DiscoveryRequest is not served; the types are type.googleapis.com/envoy.config"),
    ],
)
def test_a_resource_that_cannot_be_served_is_named(resource: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ManagementServer().put(resource)


@pytest.mark.parametrize(
    ("resource", "problem"),
    [(None, "and no NoneType$"), ([resources.cluster("a")], r"no list; spread it, put\(\*reso")],
)
def test_what_is_no_resource_at_all_is_a_type_error(resource: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ManagementServer().put(resource)


def test_the_management_server_cannot_remove_a_missing_resource() -> None:
    plane = ManagementServer()
    plane.put(resources.cluster("a"), resources.cluster("b"))
    with pytest.raises(KeyError, match="there is no CDS resource 'cart'; there are a, b"):
        plane.remove("CDS", "a", "cart")
    plane.remove("CDS", "a", "b")  # none was removed before


@pytest.mark.parametrize(
    "use",
    [
        lambda plane: plane.remove("XDS", "cart"),
        lambda plane: plane.fail("XDS", "cart", 5, "gone"),
        lambda plane: plane.withhold("XDS"),
        lambda plane: plane.release("XDS"),
        lambda plane: plane.version("XDS"),
    ],
)
def test_a_kind_that_there_is_not_is_named_with_those_that_there_are(use: Callable[[ManagementServer], object]) -> None:
    with pytest.raises(ValueError, match="no resources of the kind 'XDS'; the kinds are LDS, RDS, CDS, EDS"):
        use(ManagementServer())


async def test_nobody_waits_for_an_answer_of_a_kind_that_there_is_not(autojump_clock: MockClock) -> None:
    with pytest.raises(ValueError, match="no resources of the kind 'XDS'"):
        await ManagementServer().wait_for_nack("XDS")


@pytest.mark.parametrize("address", ["x", "x:", ":1", "x:http"])
def test_an_endpoint_has_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match=f"'{address}' is no address of an endpoint; write host:port"):
        resources.locality(address)
