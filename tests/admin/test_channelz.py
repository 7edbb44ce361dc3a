"""What channels are connected to and carry, as channelz tells it: the service, asked in memory (A14)."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from support.channelz import ADMIN, CONNECTING, FAILURE, READY, SHUTDOWN, Tool, calls, state, streams
from support.mesh import PLANE, Mesh, ask, bidi, method
from trio.testing import wait_all_tasks_blocked

import trxds
import trxds.admin
from trxds import RpcError, StatusCode
from trxds.admin.channelz.service import PAGE
from trxds.core.id_allocator import IdAllocator
from trxds.testing import ManagementServer, serve
from trxds.testing import resources as xds
from trxds.transport.connect import TcpNetwork

pytestmark = pytest.mark.slow


@asynccontextmanager
async def watched(hosts=1, **more):
    """A mesh, a channel to it, and the tool that looks at it."""
    async with (
        Mesh.run(hosts, **more) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=ADMIN, network=mesh.network),
    ):
        yield mesh, channel, Tool(mesh.network)


# -- channels


async def test_channelz_has_a_channel_with_target_state_and_calls(autojump_clock):
    async with watched() as (_, channel, tool):
        for _ in range(3):
            await ask(channel)
        told = await tool.channel()
    assert (told.data.target, state(told), calls(told)) == ("xds:///shop", READY, (3, 3, 0))
    assert told.data.last_call_started_timestamp.seconds > 0


async def test_a_failed_call_counts_as_failed_wherever_it_failed(autojump_clock):
    async with watched() as (mesh, channel, tool):
        await ask(channel)
        mesh.servers[mesh.hosts[0]].fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
        mesh.route(xds.route("cart", prefix="/only.This/"))
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError):
            await ask(channel)
        assert calls(await tool.channel()) == (3, 1, 2)
        [subchannel] = await tool.subchannels()
    assert calls(subchannel) == (2, 1, 1)  # the third met no host


async def test_a_call_that_runs_has_neither_succeeded_nor_failed(autojump_clock):
    async with watched() as (_, channel, tool):
        async with bidi(channel).open() as running:
            await running.send(b"")
            await running.receive()
            [subchannel] = await tool.subchannels()
            assert calls(await tool.channel()) == calls(subchannel) == (1, 0, 0)
        [subchannel] = await tool.subchannels()
        assert calls(await tool.channel()) == calls(subchannel) == (1, 0, 1)  # it was left before its end


async def test_an_explanation_does_not_count_as_a_call(autojump_clock):
    async with watched() as (_, channel, tool):
        await channel.explain("/shop.Cart/Add")
        assert calls(await tool.channel()) == (0, 0, 0)


async def test_a_call_of_several_attempts_is_one_of_the_channel(autojump_clock):
    async with watched(2, sessions=False) as (mesh, channel, tool):
        for server in mesh.servers.values():
            server.fallback = unwilling
        route = xds.route("cart")
        route["route"]["retry_policy"] = {"retry_on": "unavailable", "num_retries": 2}
        mesh.route(route)
        with pytest.raises(RpcError):
            await ask(channel)
        assert calls(await tool.channel()) == (1, 0, 1)
        assert sum(each.data.calls_failed for each in await tool.subchannels()) == 3


async def test_a_channel_without_routes_is_in_failure_and_one_that_waits_for_them_connects(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.remove("LDS", "shop")
        async with mesh.channel() as channel, trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            tool = Tool(mesh.network)
            assert state(await tool.channel()) == CONNECTING
            await trio.sleep(20)
            assert state(await tool.channel()) == FAILURE
            mesh.listen()
            await wait_all_tasks_blocked()
            assert state(await tool.channel()) == READY


async def test_a_channel_that_is_closed_is_shut_down(autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel() as channel:
            await ask(channel)
        async with trxds.admin.serve(channel, address=ADMIN, network=mesh.network):
            told = await Tool(mesh.network).channel()
    assert (state(told), list(told.subchannel_ref), calls(told)) == (SHUTDOWN, [], (1, 1, 0))


async def test_the_way_to_the_control_plane_is_a_channel_too(autojump_clock):
    async with watched() as (mesh, channel, tool):
        await ask(channel)
        told = await tool.channel("ads/")
        assert (told.ref.name, told.data.target, state(told), calls(told)) == (f"ads/{PLANE}", PLANE, READY, (1, 0, 0))
        [socket] = await tool.sockets(told)
        assert socket.remote.other_address.name == PLANE
        mesh.plane_server.stop()
        await wait_all_tasks_blocked()
        told = await tool.channel("ads/")
    assert (state(told), calls(told), list(told.socket_ref)) == (FAILURE, (1, 0, 1), [])
    assert "connection closed by the peer" in told.data.trace.events[0].description


async def test_the_stream_of_load_reports_is_on_the_same_channel(autojump_clock):
    async with watched() as (mesh, channel, tool):
        mesh.plane.put(xds.cluster("cart") | xds.load_reports())
        await ask(channel)
        await wait_all_tasks_blocked()
        told = await tool.channel("ads/")
    assert (told.data.target, state(told), calls(told), len(told.socket_ref)) == (PLANE, READY, (2, 0, 0), 1)


async def test_keepalive_pings_to_the_control_plane_are_counted(autojump_clock):
    async with watched() as (_, channel, tool):
        await ask(channel)
        await trio.sleep(1000)
        [socket] = await tool.sockets(await tool.channel("ads/"))
    assert socket.data.keep_alives_sent == 3


async def test_a_control_plane_on_a_unix_socket(tmp_path):
    plane = ManagementServer()
    address = f"unix:{tmp_path / 'plane'}"
    async with (
        plane.serve(address),
        trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(address)) as channel,
        trxds.admin.serve(channel) as admin,
    ):
        await plane.wait_for_streams(1)
        tool = Tool(TcpNetwork(), admin)
        [socket] = await tool.sockets(await tool.channel("ads/"))
    assert socket.remote.uds_address.filename == str(tmp_path / "plane")


async def test_channelz_has_a_shared_xds_client_once(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as xds_client,
        trxds.open_channel("xds:///shop", xds=xds_client, network=mesh.network) as one,
        trxds.open_channel("xds:///shop", xds=xds_client, network=mesh.network) as other,
    ):
        await ask(one)
        async with trxds.admin.serve(one, other, xds_client, address=ADMIN, network=mesh.network):
            names = [each.ref.name for each in await Tool(mesh.network).channels()]
    assert names == ["xds:///shop", "xds:///shop", f"ads/{PLANE}"]


# -- subchannels and sockets


async def test_every_host_in_use_is_a_subchannel_with_its_socket(autojump_clock):
    async with watched(2, sessions=False) as (mesh, channel, tool):
        for _ in range(4):
            await ask(channel)
        subchannels = await tool.subchannels()
        assert {each.data.target for each in subchannels} == set(mesh.hosts)
        assert [(state(each), calls(each)) for each in subchannels] == [(READY, (2, 2, 0))] * 2
        [socket] = await tool.sockets(subchannels[0])
    assert (streams(socket), socket.ref.name) == ((2, 2, 0), subchannels[0].data.target)
    assert (socket.data.messages_sent, socket.data.messages_received) == (2, 2)
    assert socket.data.peer_max_concurrent_streams > 0


async def test_a_host_that_cannot_be_reached_says_why_and_since_when(autojump_clock):
    async with watched() as (mesh, channel, tool):
        mesh.servers[mesh.hosts[0]].stop()
        with pytest.raises(RpcError):
            await ask(channel)
        [subchannel] = await tool.subchannels()
    [event] = subchannel.data.trace.events
    assert (state(subchannel), event.severity) == (FAILURE, 2)
    assert event.description.startswith(f"TRANSIENT_FAILURE: {mesh.hosts[0]}: cannot connect")
    assert event.timestamp.seconds > 0


async def test_calls_over_a_connection_that_is_gone_still_count(autojump_clock):
    async with watched() as (mesh, channel, tool):
        await ask(channel)
        await mesh.servers[mesh.hosts[0]].restart()
        await ask(channel, wait_for_ready=True)
        [subchannel] = await tool.subchannels()
        [socket] = await tool.sockets(subchannel)
    assert (calls(subchannel), streams(socket)) == ((2, 2, 0), (1, 1, 0))


async def test_a_stream_that_the_server_ended_with_an_error_did_not_fail_and_a_cancelled_one_did(autojump_clock):
    async with watched() as (mesh, channel, tool):
        mesh.servers[mesh.hosts[0]].fallback = None
        with pytest.raises(RpcError):
            await ask(channel)
        [subchannel] = await tool.subchannels()
        [socket] = await tool.sockets(subchannel)
        assert (calls(subchannel), streams(socket)) == ((1, 0, 1), (1, 1, 0))

        async def forever(call):
            await trio.sleep_forever()

        mesh.servers[mesh.hosts[0]].fallback = forever
        with pytest.raises(RpcError):
            await ask(channel, timeout=1)
        [socket] = await tool.sockets(subchannel)
    assert streams(socket) == (2, 1, 1)


async def test_every_message_of_a_stream_counts(autojump_clock):
    async with watched() as (_, channel, tool):
        async with bidi(channel).open() as running:
            for number in range(3):
                await running.send(b"%d" % number)
                await running.receive()
            running.done_sending()
            assert await running.receive() is None
        [subchannel] = await tool.subchannels()
        [socket] = await tool.sockets(subchannel)
    assert (socket.data.messages_sent, socket.data.messages_received) == (3, 3)


async def test_a_socket_of_tcp_has_both_addresses():
    async with xds_over_tcp() as (channel, address, tool):
        await method(channel)(b"")
        [subchannel] = await tool.subchannels()
        [socket] = await tool.sockets(subchannel)
    loopback = bytes([127, 0, 0, 1])
    assert (socket.remote.tcpip_address.ip_address, socket.local.tcpip_address.ip_address) == (loopback, loopback)
    assert f"127.0.0.1:{socket.remote.tcpip_address.port}" == address


# -- numbers and pages


async def test_a_channelz_id_is_stable_and_never_reused(autojump_clock):
    async with watched() as (mesh, channel, tool):
        await ask(channel)
        before = {each.ref.name: each.ref.channel_id for each in await tool.channels()}
        [subchannel] = await tool.subchannels()
        [socket] = await tool.sockets(subchannel)
        await mesh.servers[mesh.hosts[0]].restart()
        await ask(channel, wait_for_ready=True)
        assert {each.ref.name: each.ref.channel_id for each in await tool.channels()} == before
        [again] = await tool.subchannels()
        [other] = await tool.sockets(again)
    assert again.ref.subchannel_id == subchannel.ref.subchannel_id
    assert len({*before.values(), again.ref.subchannel_id, socket.ref.socket_id, other.ref.socket_id}) == 5


class Thing:
    pass


def test_a_channelz_id_does_not_keep_its_object_alive():
    numbers = IdAllocator()
    thing = Thing()
    assert numbers.find(numbers.id_of(thing)) is thing
    del thing
    assert numbers.find(1) is None
    assert numbers.id_of(Thing()) == 2


@pytest.mark.parametrize(
    ("name", "request_", "text"),
    [
        ("GetChannel", {"channel_id": 99}, "no channel 99"),
        ("GetSubchannel", {"subchannel_id": 99}, "no subchannel 99"),
        ("GetSubchannel", {"subchannel_id": 1}, "no subchannel 1"),  # that is a channel
        ("GetSocket", {"socket_id": 99}, "no socket 99"),
        ("GetServer", {"server_id": 1}, "no server 1"),
        ("GetServerSockets", {"server_id": 1}, "no server 1"),
    ],
)
async def test_an_unknown_channelz_id_is_not_found(autojump_clock, name, request_, text):
    async with watched() as (_, channel, tool):
        await ask(channel)
        await tool.channels()
        status = await tool.ask(name, **request_)
    assert status.code is StatusCode.NOT_FOUND
    assert text in status.message


async def test_a_socket_that_is_closed_is_not_found(autojump_clock):
    async with watched() as (mesh, channel, tool):
        await ask(channel)
        [subchannel] = await tool.subchannels()
        mesh.servers[mesh.hosts[0]].stop()
        await wait_all_tasks_blocked()
        status = await tool.ask("GetSocket", socket_id=subchannel.socket_ref[0].socket_id)
    assert status.code is StatusCode.NOT_FOUND


async def test_channelz_has_no_servers(autojump_clock):
    async with watched() as (_, _, tool):
        assert (await tool.ask("GetServers")).end


async def test_channels_come_in_pages_by_their_numbers(autojump_clock):
    async with Mesh.run(1) as mesh, open_many(mesh, 4) as tool:
        pages, start, end = [], 0, False
        while not end:
            reply = await tool.ask("GetTopChannels", start_channel_id=start, max_results=3)
            pages.append([each.ref.channel_id for each in reply.channel])
            start, end = pages[-1][-1] + 1, reply.end
    assert [len(page) for page in pages] == [3, 2]  # four, and one to the control plane
    numbers = [number for page in pages for number in page]
    assert numbers == sorted(numbers)


async def test_a_page_is_bounded_and_says_so(autojump_clock):
    async with Mesh.run(1) as mesh, open_many(mesh, PAGE) as tool:
        reply = await tool.ask("GetTopChannels", max_results=10 * PAGE)
    assert (len(reply.channel), reply.end) == (PAGE, False)


async def test_a_negative_page_is_refused(autojump_clock):
    async with watched() as (_, _, tool):
        for name in ("GetTopChannels", "GetServers"):
            assert (await tool.ask(name, max_results=-1)).code is StatusCode.INVALID_ARGUMENT


# -- the setting


@asynccontextmanager
async def open_many(mesh, count):
    """So many channels of one client, which has begun to speak to the control plane; the tool that looks at them."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network))
        opened = [
            await stack.enter_async_context(trxds.open_channel("xds:///shop", xds=client, network=mesh.network))
            for _ in range(count)
        ]
        await wait_all_tasks_blocked()
        await stack.enter_async_context(trxds.admin.serve(*opened, address=ADMIN, network=mesh.network))
        yield Tool(mesh.network)


async def unwilling(call):
    call.abort(StatusCode.UNAVAILABLE, "not now")


async def echo(call):
    async for each in call:
        await call.send(each)


@asynccontextmanager
async def xds_over_tcp():
    """The channel, its host's address, and the tool."""
    plane = ManagementServer()
    with trio.fail_after(30):
        async with (
            serve(fallback=echo) as host,
            plane.serve() as ads,
            trxds.open_channel("xds:///shop", bootstrap=xds.bootstrap(ads)) as channel,
            trxds.admin.serve(channel) as address,
        ):
            plane.put(xds.listener("shop", routes="r"), xds.routes("r", xds.route("cart")))
            plane.put(xds.cluster("cart"), xds.endpoints("cart", xds.locality(host.address)))
            yield channel, host.address, Tool(TcpNetwork(), address)
