"""The xDS client against a control plane in memory, on a clock that jumps."""

from __future__ import annotations

import pytest
import trio
from support.talk import since
from support.world import PLANE, WHERE, Watcher, World
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.resources.types import CDS, EDS, LDS, RDS
from trxds.testing import resources

pytestmark = pytest.mark.usefixtures("protocol")


async def test_a_watched_resource_arrives_as_a_value(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        assert getattr(world.state("cart").value, "name", None) == "cart"
        assert world.says() == ["SUBSCRIBE CDS cart", "ACK CDS cart"]


async def test_a_chain_of_resources_is_one_subscribe_and_one_ack_each(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(
        resources.listener("shop", routes="r"),
        resources.routes("r", resources.route("cart")),
        resources.cluster("cart"),
        resources.endpoints("cart", resources.locality("10.0.1.1:80")),
    )
    async with world.run():
        for type, name in ((LDS, "shop"), (RDS, "r"), (CDS, "cart"), (EDS, "cart")):
            world.watcher.watch(type, name)
            await world.plane.wait_for_ack(type.kind)
    asked = [request for request in world.says() if request.startswith("SUBSCRIBE")]
    assert asked == ["SUBSCRIBE LDS shop", "SUBSCRIBE RDS r", "SUBSCRIBE CDS cart", "SUBSCRIBE EDS cart"]
    assert len(world.says()) == 8
    assert [request.node is not None for request in world.plane.requests] == [True] + 7 * [False]


async def test_no_xds_server_is_connected_before_the_first_watch(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        await trio.sleep(60)
        assert world.network.attempts[PLANE] == 0


async def test_a_watch_before_run_is_requested_in_run(autojump_clock: MockClock) -> None:
    world = World()
    world.watcher.watch(LDS, "shop")
    async with world.run():
        await world.plane.wait_for(lambda request: request.names == ("shop",))


async def test_a_second_watcher_gets_the_state_at_once_without_a_request(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        second = Watcher(world.client)
        second.watch(CDS, "cart")
        assert await second.queue.next(deadline=0) == {"cart": world.state("cart")}
        await wait_all_tasks_blocked()
        assert len(world.says()) == 2


async def test_a_resource_that_has_just_come_is_not_said_to_be_missing(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        text = f'CDS resource "cart" {WHERE}: {since("ACKED")}: the channel is about to act on that'
        assert world.client.describe_pending(CDS, "cart") == text


async def test_a_watcher_gets_no_message_while_nothing_is_known(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.withhold("CDS")
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await trio.sleep(14)
        assert world.watcher.states == {}


async def test_only_the_last_cancelled_watch_unsubscribes_the_resource(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))

    def wanted() -> set[str]:
        return set(world.plane.requests[-1].names)

    async with world.run():
        first, second = (Watcher(world.client).watch(CDS, "cart") for _ in range(2))
        other = world.watcher.watch(CDS, "other")
        await world.plane.wait_for_ack("CDS")
        first.cancel()
        first.cancel()
        await wait_all_tasks_blocked()
        assert wanted() == {"cart", "other"}
        second.cancel()
        await wait_all_tasks_blocked()
        assert wanted() == {"other"}
        other.cancel()
        await wait_all_tasks_blocked()
        assert wanted() == set()


async def test_a_watch_renewed_in_one_step_makes_no_request(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        watch = world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        watch.cancel()
        world.watcher.states.clear()
        world.watcher.watch(CDS, "cart")
        await wait_all_tasks_blocked()
        assert world.state("cart").value is not None
        assert len(world.says()) == 2


async def test_a_cancelled_watch_gets_no_message(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        watch = world.watcher.watch(CDS, "cart")
        await world.plane.wait_for(lambda request: True)
        watch.cancel()
        world.plane.put(resources.cluster("cart"))
        await trio.sleep(60)
        assert world.watcher.states == {}
        assert repr(watch) == "<Watch CDS cart left>"


async def test_a_resource_that_does_not_come_in_15_seconds_does_not_exist(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.withhold("CDS")
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for(lambda request: True)
        asked = trio.current_time()
        await trio.sleep_until(asked + 14.99)
        assert world.watcher.states == {}
        await trio.sleep_until(asked + 15.01)
        assert world.state("cart").absent
        stands = f'CDS resource "cart" {WHERE}: {since("DOES_NOT_EXIST", 15)}'
        assert world.error("cart") == f"{stands}: does not exist, asked 15 s before"


async def test_a_deleted_cluster_is_absent_at_once(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.plane.remove("CDS", "cart")
        await world.plane.wait_for_ack("CDS")
        assert world.state("cart").absent
        stands = f'CDS resource "cart" {WHERE}: {since("DOES_NOT_EXIST")}'
        assert world.error("cart") == f"{stands}: does not exist, deleted by the server"


async def test_a_bad_resource_is_refused_and_the_good_one_beside_it_is_used(autojump_clock: MockClock) -> None:
    world = World()
    bad = {**resources.cluster("bad"), "lb_policy": "MAGLEV"}
    world.plane.put(resources.cluster("good"), bad)
    async with world.run():
        world.watcher.watch(CDS, "good")
        world.watcher.watch(CDS, "bad")
        nack = await world.plane.wait_for_nack("CDS")
        assert (nack.version, nack.error_code) == ("", 3)
        assert nack.error is not None
        assert nack.error.startswith(
            "xDS response validation errors: [resource index 1: bad: INVALID_ARGUMENT: "
            "errors validating Cluster resource: [field:lb_policy error:"
        )
        assert world.state("good").value is not None
        stands = f'CDS resource "bad" {WHERE}: {since("NACKED")}'
        assert world.error("bad").startswith(f"{stands}: invalid resource: INVALID_ARGUMENT: errors validating")
        world.plane.put(resources.cluster("bad"))
        await world.plane.wait_for_ack("CDS")
        assert world.state("bad").error is None
