"""RPCs and sessions work with a control plane of the delta protocol."""

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
    """Return the number of resources of that kind in each response."""
    return [len(response.names) for response in plane.responses if response.kind == kind]


async def test_rpcs_are_spread_and_sessions_stay_with_delta_ads(autojump_clock):
    async with Mesh.run(3) as mesh, channel(mesh) as caller:
        assert set(await spread(caller, 30)) == set(mesh.hosts)
        async with caller.session() as session:
            assert len(await spread(session, 10)) == 1
        assert all(request.version == "" for request in mesh.plane.requests)


async def test_one_changed_cluster_of_a_hundred_is_one_resource_in_a_delta_response(autojump_clock):
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


async def test_a_cluster_removed_by_delta_fails_rpcs_until_it_returns(autojump_clock):
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


async def test_an_absent_resource_is_known_at_once_with_delta_ads(autojump_clock):
    async with Mesh.run() as mesh:
        mesh.route("nobody")
        async with channel(mesh) as caller:
            started = trio.current_time()
            with pytest.raises(RpcError, match='CDS resource "nobody"'):
                await ask(caller)
            assert trio.current_time() - started < 1


async def test_a_new_delta_stream_brings_the_changes_during_the_outage(autojump_clock):
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


async def test_a_resource_removed_while_the_delta_stream_is_down_is_known_after_it(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.drop_streams()
        await mesh.plane.wait_for_streams(0)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(10)
        with pytest.raises(RpcError, match="does not exist"):
            await ask(caller)


async def test_an_outage_of_a_delta_server_ends_with_its_first_response(autojump_clock):
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


async def test_a_bad_delta_resource_is_nacked_and_the_last_good_one_is_used(autojump_clock):
    async with Mesh.run() as mesh, channel(mesh) as caller:
        await ask(caller)
        mesh.plane.put({**xds.cluster("cart"), "lb_policy": "MAGLEV"})
        nack = await mesh.plane.wait_for_nack("CDS")
        assert "cart" in nack.error
        await ask(caller)
        mesh.cluster("cart", idle_timeout=9)
        await mesh.plane.wait_for_ack("CDS")
        await ask(caller)


async def test_a_resource_error_of_a_delta_server_reaches_rpcs(autojump_clock):
    async with Mesh.run() as mesh:
        mesh.plane.fail("EDS", "cart", trxds.StatusCode.INTERNAL, "my disk is full")
        async with channel(mesh) as caller:
            with pytest.raises(RpcError, match="my disk is full"):
                await ask(caller)
