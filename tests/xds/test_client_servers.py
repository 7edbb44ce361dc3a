"""The xDS client while its server goes and comes, and what operators read of it in the log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import trio
from support.talk import since
from support.world import PLANE, WHERE, World
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.core.observe import Observer, XdsResource
from trxds.resources.cooperative_parse import Slices, run_at_once
from trxds.resources.types import CDS, LDS, RDS
from trxds.testing import ManagementServer, resources, serve
from trxds.testing.management import Request
from trxds.xds.bootstrap import Bootstrap, Node, ServerConfig
from trxds.xds.delta import PATH as DELTA_PATH
from trxds.xds.sotw import PATH

pytestmark = pytest.mark.usefixtures("protocol")


class Resources(Observer):
    """The last reported state of each resource."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}

    def xds_resource(self, resource: XdsResource) -> None:
        self.states[resource.name] = resource.state


async def test_an_xds_server_that_refuses_the_connection_is_an_error_at_once(autojump_clock: MockClock) -> None:
    world = World()
    async with world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await wait_all_tasks_blocked()
        assert not world.state("shop").absent
        assert world.error("shop") == (
            f'LDS resource "shop" {WHERE}: {since("REQUESTED")}: '
            "cannot reach the xDS server since 1970-01-01T00:00:00Z: Connection refused; "
            "check that it runs, and server_uri in the bootstrap"
        )


async def test_an_xds_server_that_does_not_accept_the_connection_is_an_error_after_20_seconds(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.network.black_hole(PLANE)
    async with world.run():
        world.watcher.watch(LDS, "shop")
        await trio.sleep(19.9)
        assert world.watcher.states == {}
        await trio.sleep(0.2)
        assert "no connection within 20 s" in world.error("shop")


async def test_an_xds_server_that_accepts_and_sends_no_settings_is_an_error_after_20_seconds(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.network.listen(PLANE)
    async with world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await trio.sleep(20.1)
        assert "no HTTP/2 within 20 s" in world.error("shop")


async def test_an_xds_server_without_http2_is_named_in_the_error(autojump_clock: MockClock) -> None:
    world = World()
    listener = world.network.listen(PLANE)

    async def greet() -> None:
        await (await listener.accept()).send_all(b"SSH-2.0-OpenSSH_9.7\r\n" + bytes(100))

    async with world.run(plane=False), trio.open_nursery() as nursery:
        nursery.start_soon(greet)
        world.watcher.watch(LDS, "shop")
        await wait_all_tasks_blocked()
        reason = world.error("shop").partition("cannot reach the xDS server since 1970-01-01T00:00:00Z: ")[2]
        # The server's address is in front already.
        assert reason.startswith("FRAME_SIZE_ERROR") and PLANE not in reason


async def test_observers_hear_of_an_update_of_a_server_that_another_one_replaces_while_its_next_one_is_parsed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, parsed = "10.0.0.6:18000", []

    async def parse(work: Slices[Any]) -> Any:
        parsed.append(work)
        if len(parsed) == 1:
            await trio.sleep(0.1)  # the second message comes meanwhile
        if len(parsed) == 2:
            world.network.restore(PLANE)
            await trio.sleep_forever()
        return run_at_once(work)

    monkeypatch.setattr("trxds.xds.ads_stream.run_in_slices", parse)
    monkeypatch.setattr("trxds.xds.ads_stream.SLICE_TIME", 60)  # the messages are handled together
    world = World(Bootstrap(servers=(ServerConfig(PLANE), ServerConfig(second)), node=Node("web-1")))
    world.client.observers.add(noted := Resources())
    world.network.refuse(PLANE)
    world.plane.put(resources.listener("shop", routes="routes"))
    for kind in ("CDS", "RDS"):
        world.plane.withhold(kind)
    fallback = ManagementServer()
    fallback.put(resources.cluster("cart"), resources.routes("routes", resources.route("cart")))
    fallback.withhold("LDS")
    async with world.run(), fallback.serve(second, world.network):
        for type, name in ((LDS, "shop"), (RDS, "routes"), (CDS, "cart")):
            world.watcher.watch(type, name)
        await trio.sleep(10)
    assert noted.states == {"shop": "acked", "routes": "acked", "cart": "requested"}


async def test_a_server_without_ads_is_named_with_the_remedy(autojump_clock: MockClock, protocol: str) -> None:
    path, remedy = {
        "state of the world": (PATH, "check that server_uri is an xDS server's"),
        "delta": (
            DELTA_PATH,
            "check that the server speaks the incremental protocol, or take trxds.delta out of its server_features",
        ),
    }[protocol]
    world = World()
    async with serve(address=PLANE, network=world.network), world.run(plane=False):
        world.watcher.watch(LDS, "shop")
        await wait_all_tasks_blocked()
        assert world.error("shop").endswith(
            "cannot reach the xDS server since 1970-01-01T00:00:00Z: "
            f"the ADS stream ended with UNIMPLEMENTED: no handler for {path}; {remedy}"
        )


async def test_attempts_to_reach_an_xds_server_back_off_to_two_minutes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_restart_of_the_xds_server_is_no_error_and_requests_have_the_version_without_a_nonce(
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


def is_ack_on(stream: int) -> Callable[[Request], bool]:
    return lambda request: request.stream == stream and request.answer == "ACK"


async def test_a_stream_that_was_answered_is_followed_by_another_in_a_second_however_often_that_is(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        for number in range(2, 8):
            ended = trio.current_time()
            world.plane.drop_streams()
            ack = await world.plane.wait_for(is_ack_on(number))
            assert ack.at - ended <= 1.2


async def test_an_outage_is_an_ambient_error_of_cached_resources_until_the_first_response(
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


async def test_a_resource_that_changed_during_an_outage_arrives_after_it(autojump_clock: MockClock) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.plane.drop_streams()
        world.plane.remove("CDS", "cart")
        await world.plane.wait_for(lambda request: request.stream == 2 and request.answer == "ACK")
        assert world.state("cart").absent


async def test_a_pending_resource_loses_the_error_of_an_outage_when_the_server_answers_again(
    autojump_clock: MockClock,
) -> None:
    world = World()
    world.plane.put(resources.listener("shop", routes="routes"))
    world.plane.withhold("CDS")
    world.network.refuse(PLANE)
    async with world.run():
        world.watcher.watch(LDS, "shop")
        world.watcher.watch(CDS, "cart")
        await trio.sleep(60)
        assert "cannot reach the xDS server" in world.error("cart")
        world.network.restore(PLANE)
        await world.plane.wait_for_ack("LDS")
        assert world.error("cart") == (
            f'CDS resource "cart" {WHERE}: {since("REQUESTED")}: the server has sent nothing of it yet'
        )


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


async def test_a_refused_version_of_a_resource_in_use_is_a_warning(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.plane.put(resources.cluster("cart"))
    async with world.run():
        world.watcher.watch(CDS, "cart")
        await world.plane.wait_for_ack("CDS")
        world.plane.put({**resources.cluster("cart"), "lb_policy": "MAGLEV"})
        await world.plane.wait_for_nack("CDS")
    ambient = world.state("cart").ambient
    assert ambient is not None
    assert [record.getMessage() for record in caplog.records] == [ambient.message]


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
