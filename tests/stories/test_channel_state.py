"""A channel shows its connectivity state and becomes IDLE (doc/connectivity-semantics-and-api.md)."""

import pytest
import trio
from support.mesh import Mesh, ask, bidi, settled
from support.plain import hosts_in_memory
from support.tasks import task_names

from trxds import Connectivity, RpcError
from trxds.testing import resources as xds

IDLE, CONNECTING = Connectivity.IDLE, Connectivity.CONNECTING
READY, FAILURE = Connectivity.READY, Connectivity.TRANSIENT_FAILURE
HALF_AN_HOUR = 30 * 60.0


def watch(channel, nursery):
    """Record the states of a channel as they come."""
    seen = []

    async def follow():
        async for state in channel.states():
            seen.append(state)

    nursery.start_soon(follow)
    return seen


# -- watching


async def test_a_channel_connects_when_it_is_opened_and_a_watcher_sees_it(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        seen = watch(channel, nursery)
        await settled()
        assert seen == [CONNECTING, READY]
        assert channel.state is READY
        nursery.cancel_scope.cancel()


async def test_pick_first_is_idle_when_its_host_is_lost_and_the_next_call_connects(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        await ask(channel)
        seen = watch(channel, nursery)
        await settled()
        mesh.network.cut(mesh.hosts[0])
        await settled()
        assert (seen, channel.state) == ([READY, IDLE], IDLE)
        await ask(channel)
        await settled()
        assert seen == [READY, IDLE, CONNECTING, READY]
        nursery.cancel_scope.cancel()


async def test_a_state_is_shown_no_sooner_than_calls_find_it(autojump_clock):
    """The policies know it some steps before: their report has to reach the resolver first."""
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        before = channel._state.data_plane.current
        mesh.network.cut(mesh.hosts[0])
        while channel.state is READY:
            await trio.lowlevel.checkpoint()
        assert channel._state.data_plane.current is not before


async def test_try_to_connect_connects_an_idle_pick_first(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.network.cut(mesh.hosts[0])
        await settled()
        channel.try_to_connect()
        assert await channel.wait_for_state_change(IDLE) is CONNECTING
        assert await channel.wait_for_state_change(CONNECTING) is READY


async def test_try_to_connect_connects_one_host_of_ring_hash(autojump_clock):
    config = {"loadBalancingConfig": [{"ring_hash_experimental": {}}]}
    async with hosts_in_memory(3) as mesh, mesh.channel(service_config=config) as channel:
        await settled()
        assert (channel.state, sum(mesh.network.attempts.values())) == (IDLE, 0)
        channel.try_to_connect()
        await settled()
        assert (channel.state, sum(mesh.network.attempts.values())) == (READY, 1)


async def test_try_to_connect_connects_a_cluster_of_the_control_plane(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "RING_HASH"})
        async with mesh.channel() as channel:
            await settled()
            assert channel.state is IDLE
            channel.try_to_connect()
            await settled()
            assert channel.state is READY


async def test_a_channel_whose_hosts_cannot_be_reached_fails_and_recovers(autojump_clock):
    async with hosts_in_memory(1) as mesh:
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel() as channel:
            assert await channel.wait_for_state_change(CONNECTING) is FAILURE
            mesh.network.restore(mesh.hosts[0])
            assert await channel.wait_for_state_change(FAILURE) is READY


async def test_a_channel_whose_listener_is_deleted_fails_although_its_hosts_are_connected(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        mesh.plane.remove("LDS", "shop")
        await settled()
        assert channel.state is FAILURE
        mesh.listen()
        await settled()
        assert channel.state is READY


async def test_iteration_over_the_states_ends_when_the_channel_closes(autojump_clock):
    async with hosts_in_memory(1) as mesh, trio.open_nursery() as nursery:
        async with mesh.channel() as channel:
            seen = watch(channel, nursery)
            await settled()
        await settled()
        assert seen == [CONNECTING, READY]
        assert channel.state is None
        assert await channel.wait_for_state_change(READY) is None
        with pytest.raises(trio.ClosedResourceError):
            channel.try_to_connect()


# -- idle


async def test_a_channel_without_calls_is_idle_after_half_an_hour_and_closes_its_connections(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel() as channel:
        await ask(channel)
        began = trio.current_time()
        assert await channel.wait_for_state_change(READY) is IDLE
        assert HALF_AN_HOUR <= trio.current_time() - began <= HALF_AN_HOUR * 9 / 8
        await settled()
        assert [len(server.connections) for server in mesh.servers.values()] == [0, 0]
        assert not [name for name in task_names() if name.startswith(("lb/", "subchannel/"))]


async def test_the_next_call_ends_idle_and_resolves_the_name_again(autojump_clock):
    async with hosts_in_memory(2) as mesh, mesh.channel(idle_timeout=60) as channel:
        mesh.points_to(mesh.hosts[0])
        await ask(channel)
        await channel.wait_for_state_change(READY)
        mesh.points_to(mesh.hosts[1])
        assert await ask(channel) == mesh.hosts[1]


async def test_a_channel_enters_and_leaves_idle_repeatedly(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=60) as channel:
        for _ in range(3):
            await ask(channel)
            assert await channel.wait_for_state_change(READY) is IDLE
            await settled()
        assert mesh.look_ups == 3
        assert len(channel._pool.subchannels) == 0


async def test_try_to_connect_ends_the_idle_state_of_a_channel(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=60) as channel, trio.open_nursery() as nursery:
        await ask(channel)
        await channel.wait_for_state_change(READY)
        seen = watch(channel, nursery)
        await settled()
        channel.try_to_connect()
        await settled()
        assert seen == [IDLE, CONNECTING, READY]
        nursery.cancel_scope.cancel()


async def test_watching_the_state_neither_prevents_nor_ends_idle(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=60) as channel, trio.open_nursery() as nursery:
        seen = watch(channel, nursery)
        await trio.sleep(1000)
        assert seen == [CONNECTING, READY, IDLE]
        nursery.cancel_scope.cancel()


async def test_an_open_call_prevents_idle(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=60) as channel:
        async with bidi(channel).open() as call:
            await trio.sleep(1000)
            await call.send(b"still there")
            assert await call.receive() is not None
        assert channel.state is READY


async def test_the_idle_timeout_begins_when_the_last_call_has_ended(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=80) as channel:
        async with bidi(channel).open():
            await trio.sleep(105)  # between two checks, which come each 10 s
        ended = trio.current_time()
        await channel.wait_for_state_change(READY)
        assert 80 <= trio.current_time() - ended <= 90


async def test_a_channel_is_idle_an_eighth_of_the_timeout_late_at_most(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=80) as channel:
        await trio.sleep(5)
        await ask(channel)
        await trio.sleep(79)
        assert channel.state is READY
        await trio.sleep(12)
        assert channel.state is IDLE


async def test_occasional_calls_prevent_idle(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=60) as channel:
        for _ in range(20):
            await ask(channel)
            await trio.sleep(50)
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_a_channel_without_idle_timeout_is_never_idle(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel(idle_timeout=None) as channel:
        await ask(channel)
        await trio.sleep(100 * HALF_AN_HOUR)
        assert channel.state is READY


async def test_a_channel_with_failing_hosts_becomes_idle_and_a_call_connects_again(autojump_clock):
    async with hosts_in_memory(1) as mesh:
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel(idle_timeout=60) as channel:
            with pytest.raises(RpcError):
                await ask(channel)
            assert await channel.wait_for_state_change(FAILURE) is IDLE
            attempts = mesh.network.attempts[mesh.hosts[0]]
            await trio.sleep(1000)
            assert mesh.network.attempts[mesh.hosts[0]] == attempts
            mesh.network.restore(mesh.hosts[0])
            assert await ask(channel) == mesh.hosts[0]


async def test_an_idle_xds_channel_keeps_its_watches_and_closes_its_connections(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=60) as channel, channel.session() as session:
        host = await ask(session)
        await channel.wait_for_state_change(READY)
        await settled()
        assert len(list(channel.admin_view().client.resources)) == 4
        assert [server.connections for server in mesh.servers.values()] == [[], []]
        assert {await ask(session) for _ in range(5)} == {host}, "a session outlasts it"


async def test_an_idle_xds_channel_leaves_idle_without_its_control_plane(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=60) as channel:
        await ask(channel)
        await channel.wait_for_state_change(READY)
        mesh.plane_server.stop()
        assert await ask(channel) in mesh.hosts


async def test_an_xds_update_during_idle_is_in_force_after_it(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel(idle_timeout=60) as channel:
        mesh.endpoints("cart", mesh.hosts[:1])
        await ask(channel)
        await channel.wait_for_state_change(READY)
        mesh.endpoints("cart", mesh.hosts[1:2])
        await settled()
        mesh.cluster("depot")
        mesh.endpoints("depot", mesh.hosts[2:])
        mesh.route("depot")
        await settled()
        assert await ask(channel) == mesh.hosts[2]
        await settled()
        mesh.route("cart")
        await settled()
        assert await ask(channel) == mesh.hosts[1]
        assert {address for address, _ in channel._pool.subchannels} == set(mesh.hosts[1:]), "one is kept warm"


async def test_an_xds_error_during_idle_is_in_force_after_it(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(idle_timeout=60) as channel:
        await ask(channel)
        await channel.wait_for_state_change(READY)
        mesh.plane.remove("LDS", "shop")
        await settled()
        assert channel.state is IDLE
        with pytest.raises(RpcError, match="LDS"):
            await ask(channel)
        mesh.listen()
        assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]


async def test_a_silent_control_plane_does_not_prevent_idle(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane_server.stop()
        async with mesh.channel(idle_timeout=60) as channel:
            assert await channel.wait_for_state_change(CONNECTING) is FAILURE
            assert await channel.wait_for_state_change(FAILURE) is IDLE
            await mesh.plane_server.restart()
            assert await ask(channel, wait_for_ready=True) == mesh.hosts[0]


async def test_closing_an_idle_channel_leaves_no_task(autojump_clock):
    async with hosts_in_memory(1) as mesh:
        before = task_names()
        async with mesh.channel(idle_timeout=60) as channel:
            await channel.wait_for_state_change(CONNECTING)
            assert await channel.wait_for_state_change(READY) is IDLE
        await settled()
        assert task_names() == before
