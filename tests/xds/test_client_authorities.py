"""The xDS client and the authorities of its bootstrap: names, servers, shared streams (A47)."""

from __future__ import annotations

import pytest
import trio
from msgspec import structs
from support.world import BOOTSTRAP, PLANE, World
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.resources import protos
from trxds.resources.types import CDS, EDS, LDS
from trxds.testing import Call, resources, serve
from trxds.testing.management import ManagementServer
from trxds.xds.bootstrap import Authority, Bootstrap, ServerConfig
from trxds.xds.sotw import PATH

pytestmark = pytest.mark.usefixtures("protocol")


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
        watch.cancel()


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
        watch.cancel()
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
    world = World(structs.replace(BOOTSTRAP, authorities=authorities))
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
            last = {request.stream: request.names for request in world.plane.requests}
            assert sorted(last.values()) == [("cart",), (theirs,)]
