"""The xDS client against a control plane in memory, on a clock that jumps."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.ads.bootstrap import Authority, Bootstrap, Node, ServerConfig
from trxds.ads.client import XdsClient
from trxds.ads.delta import FEATURE
from trxds.ads.sotw import PATH
from trxds.ads.state import ResourceState
from trxds.ads.watches import Watch
from trxds.ground.channels import Mailbox
from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.types import CDS, EDS, LDS, RDS, ResourceType
from trxds.testing import Call, MemoryNetwork, resources, serve
from trxds.testing.management import ManagementServer

PLANE = "10.0.0.5:18000"
BOOTSTRAP = Bootstrap(servers=(ServerConfig(PLANE),), node=Node("web-1"))
WHERE = f'(server {PLANE}, node "web-1")'


@pytest.fixture(params=["state of the world", "delta"], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything is so in both protocols, unless a test says otherwise."""
    monkeypatch.setattr(World, "features", frozenset({FEATURE} if request.param == "delta" else ()))
    return str(request.param)


class Watcher:
    """One mailbox, and what its letters said last."""

    def __init__(self, client: XdsClient) -> None:
        self.client = client
        self.mailbox: Mailbox[ResourceState] = Mailbox()
        self.states: dict[Any, ResourceState] = {}

    def watch(self, type: ResourceType, name: str) -> Watch:
        return self.client.watch(type, name, self.mailbox, name)

    async def hears(self) -> dict[Any, ResourceState]:
        letters = await self.mailbox.next()
        self.states.update(letters)
        return letters

    async def reads(self) -> None:
        while True:
            await self.hears()


class World:
    """A client that runs, a watcher that reads, and a plane that may or may not be there."""

    features: frozenset[str] = frozenset()  # of every server

    def __init__(self, bootstrap: Bootstrap = BOOTSTRAP) -> None:
        bootstrap = replace(bootstrap, servers=tuple(map(self.featured, bootstrap.servers)))
        self.network = MemoryNetwork()
        self.plane = ManagementServer()
        self.client = XdsClient(bootstrap, self.network, Random(1), ParseContext())
        self.watcher = Watcher(self.client)

    def featured(self, server: ServerConfig) -> ServerConfig:
        return replace(server, features=self.features)

    def says(self) -> list[str]:
        """Every request, without the versions: one protocol has them, the other has not."""
        return [re.sub(r" v=\d+", "", str(request)) for request in self.plane.requests]

    def state(self, name: str) -> ResourceState:
        return self.watcher.states[name]

    def error(self, name: str) -> str:
        status = self.state(name).error
        assert status is not None
        return status.message

    @asynccontextmanager
    async def run(self, *, plane: bool = True) -> AsyncIterator[World]:
        with trio.fail_after(3600):  # on the jumping clock: a test that hangs fails
            async with trio.open_nursery() as nursery:
                if plane:
                    await nursery.start(self.serve)
                nursery.start_soon(self.client.run)
                nursery.start_soon(self.watcher.reads)
                yield self
                nursery.cancel_scope.cancel()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.plane.serve(PLANE, self.network):
            task_status.started()
            await trio.sleep_forever()


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


async def test_nobody_is_connected_before_something_is_watched(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        await trio.sleep(60)
        assert world.network.attempts[PLANE] == 0


async def test_what_is_watched_before_run_is_asked_then(autojump_clock: MockClock) -> None:
    world = World()
    world.watcher.watch(LDS, "shop")
    async with world.run():
        await world.plane.wait_for(lambda request: request.names == ("shop",))


async def test_a_second_watcher_has_its_letter_at_once_and_costs_no_request(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        second = Watcher(world.client)
        second.watch(CDS, "cart")
        assert await second.mailbox.next(deadline=0) == {"cart": world.state("cart")}
        await wait_all_tasks_blocked()
        assert len(world.says()) == 2


async def test_there_is_no_letter_as_long_as_nothing_is_known(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.withhold("CDS")
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await trio.sleep(14)
        assert world.watcher.states == {}


async def test_only_the_last_watcher_that_leaves_unsubscribes(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))

    def wanted() -> set[str]:
        return set(world.plane.requests[-1].names)

    async with world.run():
        first, second = (Watcher(world.client).watch(CDS, "cart") for _ in range(2))
        other = world.watcher.watch(CDS, "other")
        await world.plane.wait_for_ack("CDS")
        first.leave()
        first.leave()
        await wait_all_tasks_blocked()
        assert wanted() == {"cart", "other"}
        second.leave()
        await wait_all_tasks_blocked()
        assert wanted() == {"other"}
        other.leave()
        await wait_all_tasks_blocked()
        assert wanted() == set()


async def test_a_watch_that_is_renewed_in_one_step_is_not_noticed(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        watch = world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        watch.leave()
        world.watcher.states.clear()
        world.watcher.watch(CDS, "cart")
        await wait_all_tasks_blocked()
        assert world.state("cart").value is not None
        assert len(world.says()) == 2


async def test_who_has_left_hears_nothing(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        watch = world.watcher.watch(CDS, "cart")
        await world.plane.wait_for(lambda request: True)
        watch.leave()
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
        assert world.error("cart") == f'CDS resource "cart" {WHERE}: does not exist, asked 15 s ago'


async def test_a_deleted_cluster_is_absent_at_once(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.plane.remove("CDS", "cart")
        await world.plane.wait_for_ack("CDS")
        assert world.state("cart").absent
        assert world.error("cart") == f'CDS resource "cart" {WHERE}: does not exist, deleted by the server'


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
        assert world.error("bad").startswith(f'CDS resource "bad" {WHERE}: invalid resource: INVALID_ARGUMENT: errors')
        world.plane.put(resources.cluster("bad"))
        await world.plane.wait_for_ack("CDS")
        assert world.state("bad").error is None


# -- the server goes and comes


async def test_a_server_that_refuses_is_an_error_at_once(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await wait_all_tasks_blocked()
        assert not world.state("shop").absent
        assert world.error("shop") == (
            f'LDS resource "shop" {WHERE}: cannot reach the xDS server: Connection refused; '
            "check that it runs, and server_uri in the bootstrap"
        )


async def test_a_server_that_does_not_answer_is_an_error_after_20_seconds(autojump_clock: MockClock) -> None:
    world = World()
    world.network.black_hole(PLANE)
    async with world.run():
        world.watcher.watch(LDS, "shop")
        await trio.sleep(19.9)
        assert world.watcher.states == {}
        await trio.sleep(0.2)
        assert "no connection within 20 s" in world.error("shop")


async def test_a_server_that_accepts_and_is_silent_is_an_error_after_20_seconds(autojump_clock: MockClock) -> None:
    world = World()
    world.network.listen(PLANE)
    async with world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await trio.sleep(20.1)
        assert "no HTTP/2 within 20 s" in world.error("shop")


async def test_a_server_that_speaks_something_else_is_named(autojump_clock: MockClock) -> None:
    world = World()
    listener = world.network.listen(PLANE)

    async def greet() -> None:
        await (await listener.accept()).send_all(b"SSH-2.0-OpenSSH_9.7\r\n" + bytes(100))

    async with world.run(plane=False), trio.open_nursery() as nursery:
        nursery.start_soon(greet)
        world.watcher.watch(LDS, "shop")
        await trio.sleep(21)
        assert "cannot reach the xDS server" in world.error("shop")


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_a_server_without_ads_is_named(autojump_clock: MockClock) -> None:
    world = World()
    async with serve(address=PLANE, network=world.network), world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await wait_all_tasks_blocked()
        assert world.error("shop").endswith(
            f"cannot reach the xDS server: the ADS stream ended with UNIMPLEMENTED: no handler for {PATH}"
        )


async def test_attempts_back_off_to_two_minutes(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    times: list[float] = []

    async def refuse(address: str) -> trio.abc.Stream:
        times.append(trio.current_time())
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(world.network, "connect", refuse)
    async with world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await trio.sleep(1000)
    delays = [after - before for before, after in pairwise(times)]
    assert len(delays) > 13
    for attempt, delay in enumerate(delays):
        wanted = min(1.6**attempt, 120)
        assert 0.8 * wanted <= delay <= 1.2 * wanted


async def test_a_restart_is_no_error_and_asks_again_with_version_and_without_nonce(
    autojump_clock: MockClock, protocol: str
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.watcher.states.clear()
        ended = trio.current_time()
        world.plane.drop_streams()
        again = await world.plane.wait_for(lambda request: request.stream == 2)
        assert 0.8 <= again.at - ended <= 1.2
        assert (again.answer, again.names, again.nonce) == ("SUBSCRIBE", ("cart",), "")
        assert again.version == ("" if protocol == "delta" else "1")
        await wait_all_tasks_blocked()
        assert world.watcher.states == {}


async def test_an_outage_is_ambient_for_what_is_known_and_over_with_the_first_response(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.network.refuse(PLANE)
        world.network.cut(PLANE)
        await trio.sleep(10)
        assert world.state("cart").value is not None
        assert "cannot reach the xDS server" in str(world.state("cart").ambient)
        world.network.restore(PLANE)
        await world.plane.wait_for(lambda request: request.stream == 2 and request.answer == "ACK")
        assert world.state("cart").ambient is None


async def test_what_changed_during_an_outage_arrives_after_it(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.plane.drop_streams()
        world.plane.remove("CDS", "cart")
        await world.plane.wait_for(lambda request: request.stream == 2 and request.answer == "ACK")
        assert world.state("cart").absent


# -- flow


async def test_a_response_is_acknowledged_before_its_watchers_have_read_it_and_the_next_one_after(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    slow = Watcher(world.client)
    slow.watch(CDS, "cart")
    async with world.run():
        await world.plane.wait_for_ack("CDS", 1)
        world.plane.put(resources.cluster("cart", idle_timeout=5))
        await trio.sleep(0.5)
        assert world.says()[-1] == "ACK CDS cart"
        await slow.hears()
        await trio.sleep(0.1)
        assert world.says()[-1] == "ACK CDS cart"
        with trio.move_on_after(0.1):
            await slow.hears()
        before = trio.current_time()
        await world.plane.wait_for_ack("CDS", 2)
        assert trio.current_time() == before


async def test_a_watcher_that_does_not_read_holds_up_the_others_once_and_for_a_second(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    stuck = Watcher(world.client)
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        started = trio.current_time()
        stuck.watch(CDS, "cart")
        world.watcher.watch(CDS, "cart")
        for seconds in range(1, 20):
            world.plane.put(resources.cluster("cart", idle_timeout=seconds))
            await world.plane.wait_for_ack("CDS")
        assert trio.current_time() - started == pytest.approx(1.0)
        assert await stuck.hears() == {"cart": world.state("cart")}
    assert [record.getMessage() for record in caplog.records] == [
        "1 watchers have read nothing for 1 s; the others go on without them"
    ]


async def test_a_watcher_that_comes_back_is_waited_for_again(autojump_clock: MockClock) -> None:
    world = World()
    sleepy = Watcher(world.client)
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        sleepy.watch(CDS, "cart")
        await trio.sleep(10)
        await sleepy.hears()
        with trio.move_on_after(1):
            await sleepy.hears()
        world.plane.put(resources.cluster("cart", idle_timeout=5))
        await world.plane.wait_for_ack("CDS")
        started = trio.current_time()
        world.plane.put(resources.cluster("cart", idle_timeout=6))
        await world.plane.wait_for_ack("CDS")
        assert trio.current_time() - started == pytest.approx(1.0)


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_what_is_no_response_of_a_known_type_is_ignored(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    received: list[bytes] = []

    async def talk(call: Call) -> None:
        await call.send(b"\xff\xff garbage")
        await call.send(b'"\x07unknown')  # a DiscoveryResponse with only a type_url
        async for message in call:
            received.append(message)

    async with serve({PATH: talk}, address=PLANE, network=world.network), world.run(plane=False):
        world.watcher.watch(CDS, "cart")
        await wait_all_tasks_blocked()
        assert len(received) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"xDS server {PLANE}: 10 bytes that are no DiscoveryResponse; ignored",
        f"xDS server {PLANE}: a response of unknown type 'unknown'; ignored",
    ]


async def test_a_response_of_20_megabytes_is_taken(autojump_clock: MockClock) -> None:
    world = World()
    big = resources.cluster("cart")
    big["alt_stat_name"] = "x" * 20_000_000
    world.plane.put(big)
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")


async def test_the_end_of_run_leaves_no_task_and_no_connection(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.plane.serve(PLANE, world.network):
        await wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        async with world.run(plane=False):
            world.watcher.watch(CDS, "cart")
            await world.plane.wait_for_ack("CDS")
            assert world.plane.streams == 1
        await wait_all_tasks_blocked()
        assert world.plane.streams == 0
        assert trio.lowlevel.current_statistics().tasks_living == before


# -- what operators read in the log


async def test_a_refused_resource_is_one_warning_however_often_it_comes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    world = World()
    world.plane.put({**resources.cluster("bad"), "lb_policy": "MAGLEV"})
    async with world.run():
        world.watcher.watch(CDS, "bad")
        await world.plane.wait_for_nack("CDS")
        world.watcher.watch(CDS, "good")
        world.plane.put(resources.cluster("good"))
        # The bad one comes again only where a response has everything.
        await (world.plane.wait_for_ack if protocol == "delta" else world.plane.wait_for_nack)("CDS")
    assert [record.getMessage() for record in caplog.records] == [world.error("bad")]


async def test_an_outage_is_one_warning_however_long_it_lasts(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    async with world.run(plane=False):
        for name in ("a", "b", "c"):
            world.watcher.watch(CDS, name)
        await trio.sleep(600)
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"xDS server {PLANE}: Connection refused; check that it runs, and server_uri in the")


# -- authorities


def with_authorities(**authorities: str) -> Bootstrap:
    return Bootstrap(
        servers=BOOTSTRAP.servers,
        node=BOOTSTRAP.node,
        authorities={
            name: Authority(f"xdstp://{name}/%s", (ServerConfig(uri, features=World.features),))
            for name, uri in authorities.items()
        },
    )


async def test_a_resource_of_an_authority_is_asked_of_its_server(autojump_clock: MockClock) -> None:
    world = World(with_authorities(fleet="10.0.0.9:1"))
    name = "xdstp://fleet/envoy.config.listener.v3.Listener/shop"
    fleet = ManagementServer()
    fleet.put(resources.listener(name, routes="r"))
    async with fleet.serve("10.0.0.9:1", world.network), world.run():
        world.watcher.watch(LDS, name)
        await fleet.wait_for_ack("LDS")
        assert world.state(name).value is not None
        assert world.says() == []


async def test_an_authority_that_is_not_configured_is_an_error_at_once(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run():
        watch = world.watcher.watch(CDS, "xdstp://fleet/envoy.config.cluster.v3.Cluster/cart")
        await wait_all_tasks_blocked()
        assert 'authority "fleet" is not in the bootstrap\'s authorities; add it there' in world.error(
            "xdstp://fleet/envoy.config.cluster.v3.Cluster/cart"
        )
        watch.leave()


async def test_authorities_with_one_server_share_one_stream(autojump_clock: MockClock) -> None:
    world = World(with_authorities(a=PLANE, b=PLANE))
    async with world.run():
        names = ["cart", *(f"xdstp://{authority}/envoy.config.cluster.v3.Cluster/cart" for authority in "ab")]
        for name in names:
            world.watcher.watch(CDS, name)
        await world.plane.wait_for(lambda request: True)
        await wait_all_tasks_blocked()
        assert world.says()[0] == f"SUBSCRIBE CDS {','.join(names)}"
        assert world.plane.streams == 1


async def test_the_order_of_context_parameters_does_not_count(autojump_clock: MockClock) -> None:
    world = World(with_authorities(a=PLANE))
    cart = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"
    world.plane.put(resources.endpoints(f"{cart}?env=prod&zone=a"))
    async with world.run():
        for query in ("zone=a&env=prod", "env=prod&zone=a", "env=test&zone=a&env=prod"):
            world.watcher.watch(EDS, f"{cart}?{query}")
        await world.plane.wait_for_ack("EDS")
        assert len({id(state.value) for state in world.watcher.states.values()}) == 1
        assert world.says() == [f"SUBSCRIBE EDS {cart}?env=prod&zone=a", f"ACK EDS {cart}?env=prod&zone=a"]


@pytest.mark.parametrize("protocol", ["state of the world"], indirect=True)
async def test_a_resource_may_come_with_its_context_parameters_in_any_order(autojump_clock: MockClock) -> None:
    world = World(with_authorities(a=PLANE))
    cart = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"

    async def talk(call: Call) -> None:
        async for _ in call:
            packed = protos.from_json(resources.endpoints(f"{cart}?zone=a&env=prod"))
            await call.send(
                protos.DiscoveryResponse(type_url=EDS.type_url, nonce="1", resources=[packed]).SerializeToString()
            )
            await trio.sleep_forever()

    async with serve({PATH: talk}, address=PLANE, network=world.network), world.run(plane=False):
        world.watcher.watch(EDS, f"{cart}?env=prod&zone=a")
        await trio.sleep(1)
        assert world.state(f"{cart}?env=prod&zone=a").value is not None


async def test_a_name_of_another_type_is_an_error_at_once(autojump_clock: MockClock) -> None:
    world = World(with_authorities(a=PLANE))
    name = "xdstp://a/envoy.config.listener.v3.Listener/cart"
    async with world.run():
        watch = world.watcher.watch(CDS, name)
        await wait_all_tasks_blocked()
        assert world.error(name).endswith("write xdstp://AUTHORITY/envoy.config.cluster.v3.Cluster/NAME")
        watch.leave()
        assert world.says() == []


async def test_the_outage_of_one_authoritys_server_is_not_the_others(autojump_clock: MockClock) -> None:
    world = World(with_authorities(fleet="10.0.0.9:1"))
    theirs = "xdstp://fleet/envoy.config.cluster.v3.Cluster/cart"
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        world.watcher.watch(CDS, theirs)
        await trio.sleep(60)
        assert world.state("cart").ambient is None
        assert "(server 10.0.0.9:1, node" in world.error(theirs)


async def test_a_server_that_one_authority_has_already_is_another_ones_fallback_on_the_same_stream(
    autojump_clock: MockClock,
) -> None:
    dead, alive = (ServerConfig(uri, features=World.features) for uri in ("10.0.0.9:1", PLANE))
    authorities = {"fleet": Authority("xdstp://fleet/%s", (dead, alive))}
    world = World(replace(BOOTSTRAP, authorities=authorities))
    theirs = "xdstp://fleet/envoy.config.endpoint.v3.ClusterLoadAssignment/cart"
    world.plane.put(resources.endpoints("cart"), resources.endpoints(theirs))
    async with world.run():
        world.watcher.watch(EDS, "cart")
        await world.plane.wait_for_ack("EDS")
        world.watcher.watch(EDS, theirs)
        await trio.sleep(1)
        assert world.state(theirs).value is not None
        assert world.plane.streams == 1
        async with world.plane.serve(dead.address, world.network):
            await trio.sleep(120)
            assert world.plane.streams == 2
            assert set(world.plane.requests[-1].names) in ({"cart"}, {theirs})
