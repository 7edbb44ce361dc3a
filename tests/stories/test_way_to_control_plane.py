"""ADS and LRS share one connection to the control plane."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.channelz import ADMIN, IDLE, READY, Tool, state
from support.mesh import PLANE, Mesh, ask
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds.testing import resources as xds
from trxds.testing import serve


@asynccontextmanager
async def reporting():
    async with Mesh.run(2) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        mesh.plane.load.ask(interval=10)
        async with mesh.channel() as channel:
            yield mesh, channel


async def test_ads_and_lrs_share_a_connection(autojump_clock):
    async with reporting() as (mesh, channel):
        await ask(channel)
        await mesh.plane.load.next_report()
        assert (mesh.plane.streams, mesh.plane.load.streams) == (1, 1)
        assert (mesh.network.attempts[PLANE], len(mesh.plane_server.connections)) == (1, 1)


async def test_the_connection_of_ads_and_lrs_stays_while_one_of_them_is_open(autojump_clock):
    async with reporting() as (mesh, channel):
        await ask(channel)
        for end in (mesh.plane.drop_streams, mesh.plane.load.drop_streams):
            await mesh.plane.load.next_report()
            end()
            await wait_all_tasks_blocked()
            assert mesh.plane.streams + mesh.plane.load.streams == 1
            await trio.sleep(5)
            assert (mesh.plane.streams, mesh.plane.load.streams) == (1, 1)
        assert mesh.network.attempts[PLANE] == 1


async def test_ads_and_lrs_move_to_one_new_connection_when_theirs_is_lost(autojump_clock):
    async with reporting() as (mesh, channel):
        await ask(channel)
        await mesh.plane.load.next_report()
        mesh.network.cut(PLANE)
        await trio.sleep(5)
        assert (mesh.plane.streams, mesh.plane.load.streams) == (1, 1)
        assert (mesh.network.attempts[PLANE], len(mesh.plane_server.connections)) == (2, 1)


async def test_a_stream_opened_after_a_goaway_uses_another_connection_to_the_control_plane(autojump_clock):
    async with reporting() as (mesh, channel):
        await ask(channel)
        await mesh.plane.load.next_report()
        mesh.plane_server.goaway()
        await wait_all_tasks_blocked()
        mesh.plane.drop_streams()
        await trio.sleep(5)
        assert (mesh.plane.streams, mesh.plane.load.streams) == (1, 1)
        assert (mesh.network.attempts[PLANE], len(mesh.plane_server.connections)) == (2, 2)
        mesh.plane.load.drop_streams()
        await trio.sleep(5)
        assert (mesh.network.attempts[PLANE], len(mesh.plane_server.connections)) == (2, 1)


async def test_ads_and_lrs_use_two_connections_if_the_server_allows_one_stream(autojump_clock):
    narrow = "10.0.0.9:18000"
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        mesh.plane.load.ask(interval=10)
        async with (
            serve(mesh.plane.handlers, address=narrow, network=mesh.network, max_concurrent_streams=1) as server,
            mesh.channel(bootstrap=xds.bootstrap(narrow)) as channel,
        ):
            await ask(channel)
            for _ in range(5):
                await mesh.plane.load.next_report()
                assert (mesh.plane.streams, mesh.plane.load.streams, len(server.connections)) == (1, 1, 2)
                mesh.network.cut(narrow)
                await trio.sleep(5)  # by then both are back, whichever was first
            mesh.endpoints("cart", [await mesh.add_host()])
            await mesh.plane.wait_for_ack("EDS")


class SlowNetwork:
    """The network of a mesh, whose connections take `delay` seconds."""

    delay = 0.0

    def __init__(self, network):
        self.network = network

    async def connect(self, address):
        await trio.sleep(self.delay)
        return await self.network.connect(address)

    async def resolve(self, host, port):
        return await self.network.resolve(host, port)


@asynccontextmanager
async def waiting_for_room_for_one():
    """ADS and LRS both wait for a new connection, to a server that allows one stream on each connection.

    The block gets the mesh and the server. A connection takes 5 seconds.
    """
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        mesh.plane.load.ask(interval=10)
        slow, narrow = SlowNetwork(mesh.network), "10.0.0.9:18000"
        async with (
            serve(mesh.plane.handlers, address=narrow, network=mesh.network, max_concurrent_streams=1) as server,
            mesh.channel(bootstrap=xds.bootstrap(narrow), network=slow) as channel,
        ):
            await ask(channel)
            await mesh.plane.load.next_report()
            slow.delay = 5
            mesh.network.cut(narrow)
            await trio.sleep(3)  # past both backoffs
            assert (mesh.plane.streams, mesh.plane.load.streams) == (0, 0)
            yield mesh, server


async def test_a_stream_that_waited_for_a_connection_without_room_for_it_waits_for_one_more(autojump_clock):
    async with waiting_for_room_for_one() as (mesh, server):
        attempts = mesh.network.attempts[server.address]
        await trio.sleep(9)
        assert (mesh.plane.streams, mesh.plane.load.streams) == (1, 1)
        assert mesh.network.attempts[server.address] == attempts + 2


async def test_a_stream_does_not_keep_the_connection_that_had_no_room_for_it(autojump_clock):
    async with waiting_for_room_for_one() as (mesh, server):
        await trio.sleep(9)
        assert len(server.connections) == 2
        mesh.plane.drop_streams()
        mesh.plane.load.drop_streams()
        await wait_all_tasks_blocked()
        assert server.connections == []


async def test_a_proxy_that_cannot_be_reached_has_its_own_remedy_and_not_the_bootstraps(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(http_proxy="http://proxy.example:3128") as channel:
        with pytest.raises(trxds.RpcError) as failed:
            await ask(channel)
    proxy = "proxy proxy.example:3128: Connection refused; check that it runs, and its address"
    assert failed.value.status.message.endswith(proxy)


async def test_the_xds_channel_is_ready_while_one_of_its_connections_is_in_use(autojump_clock):
    async with reporting() as (mesh, channel), trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
        await ask(channel)
        await mesh.plane.load.next_report()
        mesh.plane_server.goaway()
        mesh.plane.load.drop_streams()
        await mesh.plane.load.next_report()
        assert len(mesh.plane_server.connections) == 2, "resources still come by the old one, which drains"
        mesh.plane.load.drop_streams()
        await wait_all_tasks_blocked()
        assert state(await Tool(mesh.network).channel("ads/")) == READY


async def test_a_server_that_allows_no_streams_is_not_reconnected_in_a_loop(autojump_clock):
    closed = "10.0.0.9:18000"
    async with (
        Mesh.run(1) as mesh,
        serve(mesh.plane.handlers, address=closed, network=mesh.network, max_concurrent_streams=0),
        mesh.channel(bootstrap=xds.bootstrap(closed)),
    ):
        await trio.sleep(60)
        assert mesh.network.attempts[closed] == 1


async def test_the_xds_channel_is_idle_without_streams(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        async with (
            trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
            trxds.admin.serve(client, address=ADMIN, network=mesh.network),
        ):
            async with trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as channel:
                await ask(channel)
                await trio.sleep(1)
                mesh.plane.drop_streams()
                await wait_all_tasks_blocked()
                [way] = await Tool(mesh.network).channels()
                assert state(way) == READY, "the load reports go on"
            await wait_all_tasks_blocked()
            [way] = await Tool(mesh.network).channels()
            assert state(way) == IDLE
