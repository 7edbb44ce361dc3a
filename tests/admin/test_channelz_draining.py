"""Connections that end when their last stream does, as channelz shows them (A14)."""

from contextlib import asynccontextmanager

from support.channelz import ADMIN, READY, SHUTDOWN, Tool, calls, state, streams
from support.mesh import Mesh, ask, bidi
from trio.testing import wait_all_tasks_blocked

import trxds.admin


@asynccontextmanager
async def stream_to_one_of(hosts):
    """A mesh, a stream to one of its hosts, its channel, and a tool that looks at the channel."""
    async with (
        Mesh.run(hosts, sessions=False) as mesh,
        mesh.channel() as channel,
        trxds.admin.serve(channel, address=ADMIN, network=mesh.network),
        bidi(channel).open() as running,
    ):
        await running.send(b"")
        await running.receive()
        yield mesh, running, channel, Tool(mesh.network)


async def test_a_connection_that_drains_shows_beside_the_new_one(autojump_clock):
    async with stream_to_one_of(1) as (mesh, _, channel, tool):
        mesh.servers[mesh.hosts[0]].goaway()
        await wait_all_tasks_blocked()
        await ask(channel, wait_for_ready=True)
        [subchannel] = await tool.subchannels()
        sockets = await tool.sockets(subchannel)
    assert [each.data.HasField("received_goaway_error") for each in sockets] == [True, False]
    assert calls(subchannel) == (2, 1, 0)


async def test_a_host_that_was_let_go_is_listed_while_a_stream_goes_on(autojump_clock):
    async with stream_to_one_of(2) as (mesh, running, _, tool):
        mesh.endpoints("cart", [each for each in mesh.hosts if each != running.peer])
        await wait_all_tasks_blocked()
        kept, left = await tool.subchannels()
        [socket] = await tool.sockets(left)
    assert (left.data.target, state(left), state(kept)) == (running.peer, SHUTDOWN, READY)
    assert streams(socket) == (1, 0, 0)


async def test_a_host_that_was_let_go_is_listed_no_more_after_its_last_stream(autojump_clock):
    async with stream_to_one_of(2) as (mesh, running, _, tool):
        mesh.endpoints("cart", [each for each in mesh.hosts if each != running.peer])
        await wait_all_tasks_blocked()
        running.cancel()
        await wait_all_tasks_blocked()
        assert [state(each) for each in await tool.subchannels()] == [READY]
