"""A mesh whose control plane speaks the incremental protocol."""

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, spread

import trxds
from trxds import RpcError
from trxds.testing import resources as xds


def channel(mesh, **more):
    bootstrap = xds.bootstrap(PLANE, features=["trxds.delta"])
    return trxds.open_channel("xds:///shop", bootstrap=bootstrap, network=mesh.network, **more)


def sent(plane, kind):
    """How many resources of that kind each response had."""
    return [len(response.names) for response in plane.responses if response.kind == kind]


async def test_rpcs_spread_and_sessions_stick(autojump_clock):
    async with Mesh.run(3) as mesh, channel(mesh) as caller:
        assert set(await spread(caller, 30)) == set(mesh.hosts)
        async with caller.session() as session:
            assert len(await spread(session, 10)) == 1
        assert all(request.version == "" for request in mesh.plane.requests)


async def test_of_a_hundred_clusters_one_that_changes_is_one_resource_on_the_wire(autojump_clock):
    async with Mesh.run(1) as mesh:
        names = [f"c{number}" for number in range(100)]
        mesh.plane.put(*(xds.cluster(name) for name in names))
        mesh.plane.put(*(xds.endpoints(name, xds.locality(mesh.hosts[0])) for name in names))
        mesh.route(dict.fromkeys(names, 1))
        async with channel(mesh) as caller:
            await ask(caller)
            assert sent(mesh.plane, "CDS") == [100]
            mesh.cluster("c50", idle_timeout=5)
            await mesh.plane.wait_for_ack("CDS")
            assert sent(mesh.plane, "CDS") == [100, 1]


async def test_a_removed_cluster_fails_rpcs_and_its_return_mends_them(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.remove("CDS", "cart")
        await mesh.plane.wait_for_ack("CDS")
        await trio.sleep(1)
        with pytest.raises(RpcError, match="does not exist, deleted by the server"):
            await ask(caller)
        mesh.cluster("cart")
        await trio.sleep(1)
        await ask(caller)


async def test_a_resource_that_is_not_there_is_known_at_once(autojump_clock):
    async with Mesh.run() as mesh:
        mesh.route("nobody")
        async with channel(mesh) as caller:
            started = trio.current_time()
            with pytest.raises(RpcError, match='CDS resource "nobody"'):
                await ask(caller)
            assert trio.current_time() - started < 1


async def test_a_new_stream_brings_what_changed_meanwhile_and_one_thing_more(autojump_clock):
    async with Mesh.run(3) as mesh, channel(mesh) as caller:
        mesh.route({"cart": 1, "other": 1})
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts)
        await ask(caller)
        mesh.plane.drop_streams()
        await mesh.plane.wait_for_streams(0)
        mesh.cluster("other", idle_timeout=7)
        before = len(sent(mesh.plane, "CDS"))
        await mesh.plane.wait_for_streams(1)
        await trio.sleep(1)
        assert sent(mesh.plane, "CDS")[before:] == [2]  # "cart" is the one that has to come again
        await ask(caller)


async def test_a_deleted_resource_that_goes_while_the_stream_is_down_is_known_after_it(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.drop_streams()
        await mesh.plane.wait_for_streams(0)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(10)
        with pytest.raises(RpcError, match="does not exist"):
            await ask(caller)


async def test_an_outage_of_an_hour_is_over_with_the_first_answer(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.network.refuse(PLANE)
        mesh.network.cut(PLANE)
        await trio.sleep(3600)
        await ask(caller)
        mesh.network.restore(PLANE)
        await trio.sleep(150)
        mesh.endpoints("cart", mesh.hosts[:1])
        await trio.sleep(1)
        assert set(await spread(caller, 10)) == set(mesh.hosts[:1])


async def test_a_bad_resource_is_refused_and_the_last_good_one_serves_on(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
        nack = await mesh.plane.wait_for_nack("CDS")
        assert "cart" in nack.error
        await ask(caller)
        mesh.cluster("cart", idle_timeout=9)
        await mesh.plane.wait_for_ack("CDS")
        await ask(caller)


async def test_an_error_in_a_resources_place_reaches_rpcs(autojump_clock):
    async with Mesh.run() as mesh:
        mesh.plane.fail("EDS", "cart", trxds.StatusCode.INTERNAL, "my disk is full")
        async with channel(mesh) as caller:
            with pytest.raises(RpcError, match="my disk is full"):
                await ask(caller)
