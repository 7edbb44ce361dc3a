"""RPCs and sessions survive changes of the configuration, one change per test."""

import pytest
import trio
from support.mesh import Mesh, ask, bidi, method, settled, spread

from trxds import RpcError, StatusCode
from trxds.testing import resources as xds


async def test_a_removed_host_gets_no_more_rpcs(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.endpoints("cart", mesh.hosts[:2])
        await settled()
        assert set(await spread(channel, 20)) == set(mesh.hosts[:2])


async def test_a_session_whose_host_is_removed_moves_once(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        first = await ask(session)
        mesh.endpoints("cart", [host for host in mesh.hosts if host != first])
        await settled()
        second = await ask(session)
        assert second != first
        mesh.endpoints("cart", mesh.hosts)
        await settled()
        assert set(await spread(session, 10)) == {second}


async def test_two_priorities_that_are_swapped_change_roles(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        a, b = mesh.hosts
        mesh.endpoints("cart", xds.locality(a, zone="a"), xds.locality(b, zone="b", priority=1))
        await settled()
        assert set(await spread(channel, 10)) == {a}
        mesh.endpoints("cart", xds.locality(b, zone="b"), xds.locality(a, zone="a", priority=1))
        await settled()
        assert set(await spread(channel, 10)) == {b}


async def test_a_host_that_moves_between_priorities_keeps_its_connection(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        a, b = mesh.hosts
        await ask(channel)
        await settled()
        mesh.endpoints("cart", xds.locality(b, zone="new"), xds.locality(a, zone="old", priority=1))
        await settled()
        mesh.endpoints("cart", xds.locality(a, zone="one"), xds.locality(b, zone="two"))
        await settled()
        await spread(channel, 10)
        assert mesh.network.attempts[b] == 1


@pytest.mark.parametrize("returned", ["routes", "others"])
async def test_a_refused_cluster_keeps_its_last_good_version_while_the_listener_is_gone(autojump_clock, returned):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        assert await ask(channel) == mesh.hosts[0]
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        await mesh.plane.wait_for_nack("CDS")
        mesh.plane.remove("LDS", "shop")
        await settled()
        mesh.plane.put(xds.routes("others", xds.route("cart")), xds.listener("shop", routes=returned))
        await settled()
        assert await ask(channel) == mesh.hosts[0]


@pytest.mark.parametrize("broken", ["listener", "routes"])
async def test_without_routes_nothing_is_unsubscribed_so_their_return_takes_no_other_request(autojump_clock, broken):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        await settled()
        said = len(mesh.plane.requests)
        if broken == "listener":
            mesh.plane.remove("LDS", "shop")
        else:
            mesh.plane.put(xds.routes("routes", xds.route("cart"), domains=["elsewhere"]))
        await settled()
        with pytest.raises(RpcError):
            await ask(channel)
        mesh.listen()
        mesh.route("cart")
        await settled()
        await ask(channel)
        kind = "LDS" if broken == "listener" else "RDS"
        assert [str(each).partition(" v=")[0] for each in mesh.plane.requests[said:]] == [f"ACK {kind}"] * 2


async def test_a_listener_with_other_routes_that_are_refused_ends_the_watch_of_those_before(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.put(xds.routes("refused", xds.route("cart"), domains=[]), xds.listener("shop", routes="refused"))
        await settled()
        with pytest.raises(RpcError):
            await ask(channel)
        assert [each.names for each in mesh.plane.requests if each.kind == "RDS"][-1] == ("refused",)


async def test_rpcs_follow_the_weights_of_weighted_clusters(autojump_clock):
    async with Mesh.run(2) as mesh:
        a, b = mesh.hosts
        for cluster, host in (("x", a), ("y", b)):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route({"x": 80, "y": 20})
        async with mesh.channel() as channel:
            before = await spread(channel, 500)
            mesh.route({"x": 20, "y": 80})
            await settled()
            after = await spread(channel, 500)
        assert 340 < before[a] < 460
        assert 340 < after[b] < 460


async def test_a_session_stays_in_its_cluster_when_weights_are_swapped(autojump_clock):
    async with Mesh.run(2) as mesh:
        for cluster, host in zip("xy", mesh.hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route({"x": 99, "y": 1})
        async with mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            mesh.route({"x": 1, "y": 99})
            await settled()
            assert set(await spread(session, 30)) == {host}


async def test_a_session_leaves_a_cluster_that_was_removed_from_its_route(autojump_clock):
    async with Mesh.run(2) as mesh:
        for cluster, host in zip("xy", mesh.hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route("x")
        async with mesh.channel() as channel, channel.session() as session:
            assert await ask(session) == mesh.hosts[0]
            mesh.route("y")
            await settled()
            assert set(await spread(session, 5)) == {mesh.hosts[1]}


async def test_an_open_stream_outlives_its_cluster(autojump_clock):
    async with Mesh.run(2) as mesh:
        for cluster, host in zip("xy", mesh.hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route("x")
        async with mesh.channel() as channel, bidi(channel).open() as call:
            await call.send(b"before")
            await call.receive()
            mesh.route("y")
            await settled()
            await call.send(b"after")
            assert await call.receive() == f"{mesh.hosts[0]} after".encode()


async def test_an_unused_connection_is_closed(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        await settled()
        assert len(mesh.servers[mesh.hosts[1]].connections) == 1
        mesh.endpoints("cart", mesh.hosts[:1])
        await settled()
        assert mesh.servers[mesh.hosts[1]].connections == []


async def test_rpcs_go_on_over_a_restart_of_the_control_plane(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
        host = await ask(session)
        mesh.plane.drop_streams()
        mesh.network.refuse("10.0.0.1:18000")
        await trio.sleep(30)
        assert set(await spread(session, 5)) == {host}
        mesh.network.restore("10.0.0.1:18000")
        mesh.endpoints("cart", [h for h in mesh.hosts if h != host])
        await trio.sleep(130)
        assert host not in await spread(session, 5)


async def test_a_wait_for_ready_rpc_is_served_when_its_host_comes_up(nursery, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.network.refuse(mesh.hosts[0])
        with pytest.raises(RpcError) as failed:
            await method(channel)(b"")
        assert failed.value.status.code is StatusCode.UNAVAILABLE
        answers = []

        async def wait():
            answers.append(await ask(channel, wait_for_ready=True))

        nursery.start_soon(wait)
        await settled()
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(200)
        assert answers == mesh.hosts


async def test_a_wait_for_ready_rpc_is_served_when_the_listener_arrives(nursery, autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.remove("LDS", "shop")
        async with mesh.channel() as channel:
            answers = []

            async def wait():
                answers.append(await ask(channel, wait_for_ready=True))

            nursery.start_soon(wait)
            await trio.sleep(20)  # past the 15 s after which it does not exist
            assert answers == []
            mesh.listen()
            await settled()
            assert answers == mesh.hosts


async def test_a_queued_wait_for_ready_rpc_is_dropped_when_its_cluster_is_deleted_and_unrouted(nursery, autojump_clock):
    async with Mesh.run(2) as mesh:
        for cluster, host in zip("xy", mesh.hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.network.refuse(mesh.hosts[0])
        mesh.route("x")
        async with mesh.channel() as channel:
            outcome = []

            async def wait():
                with pytest.raises(RpcError) as failed:
                    await ask(channel, wait_for_ready=True)
                outcome.append(failed.value.status.code)

            nursery.start_soon(wait)
            await settled()
            mesh.route("y")
            await settled()
            assert outcome == [], "the RPC keeps its cluster alive"
            mesh.plane.remove("CDS", "x")
            await settled()
            assert outcome == [StatusCode.UNAVAILABLE]
