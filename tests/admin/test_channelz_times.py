"""When things happened, as channelz tells it: creations, calls, messages; and the windows of a connection (A14)."""

import time
from random import Random

import pytest
import trio
from support.channelz import ADMIN, Tool
from support.mesh import Mesh, ask, bidi

import trxds
import trxds.admin
from trxds.core.determinism import SOURCES, Sources
from trxds.transport.options import WireOptions


@pytest.fixture(autouse=True)
def time_of_day():
    """Let the time of day be Trio's clock, so that the machine's speed does not matter."""
    token = SOURCES.set(Sources(Random, trio.current_time, time.perf_counter))
    yield
    SOURCES.reset(token)


def at(data, field):
    """When that was, on the test's clock, whole seconds; None if there is no time."""
    if not data.HasField(field):
        return None
    stamp = getattr(data, field)
    return round(stamp.seconds + stamp.nanos / 1e9)


def watched(mesh, channel):
    return trxds.admin.serve(channel, address=ADMIN, network=mesh.network)


async def test_channel_subchannel_and_the_way_to_the_control_plane_have_their_creations(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.endpoints("cart", [])
        await trio.sleep(100)
        async with mesh.channel() as channel, watched(mesh, channel):
            await trio.sleep(100)
            mesh.endpoints("cart", mesh.hosts)
            await ask(channel, wait_for_ready=True)
            await trio.sleep(100)
            tool = Tool(mesh.network)
            [subchannel] = await tool.subchannels()
            created = [
                at(each.data.trace, "creation_timestamp")
                for each in (await tool.channel(), await tool.channel("ads/"), subchannel)
            ]
    assert created == [100, 100, 200]


async def test_a_socket_has_the_times_of_its_last_stream_and_messages(either_engine, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, watched(mesh, channel):
        tool = Tool(mesh.network)

        async def told():
            [socket] = await tool.sockets((await tool.subchannels())[0])
            fields = "last_local_stream_created", "last_message_sent", "last_message_received"
            return [at(socket.data, f"{field}_timestamp") for field in fields]

        async with bidi(channel).open() as call:
            assert await told() == [0, None, None]
            await trio.sleep(10)
            await call.send(b"")
            assert await call.receive() is not None
            assert await told() == [0, 10, 10]
            await trio.sleep(10)
            await call.send(b"")
            await trio.sleep(10)
            assert await told() == [0, 20, 10]  # it has come, and nobody has taken it
            await call.receive()
            assert await told() == [0, 20, 20]
        await trio.sleep(10)
        await ask(channel)
        await trio.sleep(10)
        assert await told() == [40, 40, 40]


async def test_a_socket_has_the_windows_of_both_ends(either_engine, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, watched(mesh, channel):
        tool = Tool(mesh.network)

        async def told():
            [socket] = await tool.sockets((await tool.subchannels())[0])
            windows = socket.data.local_flow_control_window, socket.data.remote_flow_control_window
            return [window.value for window in windows]

        await ask(channel)
        host, ours = await told()
        [server] = mesh.servers[mesh.hosts[0]].connections
        assert host == server.http2.engine.receive_window
        assert 0 < ours == server.http2.engine.connection_window <= WireOptions().connection_window
        async with bidi(channel).open() as call:
            await call.send(bytes(1000))
            await call.receive()
            after = await told()
    assert host - after[0] > 1000 and ours - after[1] > 1000


async def test_an_event_that_has_not_happened_has_no_channelz_time(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, watched(mesh, channel):
        told = await Tool(mesh.network).channel()
        assert told.data.HasField("trace")
        assert not told.data.HasField("last_call_started_timestamp")
        assert told.data.trace.num_events_logged == 0
