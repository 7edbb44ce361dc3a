"""A105: failed attempts and lost connections, and the state of the subchannel meanwhile."""

from __future__ import annotations

import pytest
import trio
from support.connection_scaling import connections, one_host, one_host_of_a_cluster, subchannel
from support.mesh import ask

from trxds import Connectivity, RpcError, StatusCode

# -- backoff, and the state of the subchannel


async def test_a_failed_attempt_leaves_the_host_ready_and_is_repeated_after_its_backoff(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(2)
        await trio.sleep(0.5)
        assert mesh.network.attempts[mesh.hosts[0]] == 2 and subchannel(channel).state is Connectivity.READY
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(1)
        assert mesh.network.attempts[mesh.hosts[0]] == 3 and held.answered == [1, 2]


async def test_the_backoff_of_further_attempts_grows(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(2)
        await trio.sleep(20)
        # Backoffs of 1, 1.6, 2.6, 4.1 and 6.6 s, give or take a fifth.
        assert 5 <= mesh.network.attempts[mesh.hosts[0]] - 1 <= 7


async def test_no_attempt_is_repeated_for_which_no_call_waits(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        await held.end(2)
        await trio.sleep(20)
        assert mesh.network.attempts[mesh.hosts[0]] == 2


async def test_a_stream_that_ends_during_the_backoff_serves_the_queue(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        await held.end(1)
        assert held.answered == [1, 2]


async def test_a_host_that_loses_its_connection_during_an_attempt_is_connecting(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.black_hole(mesh.hosts[0])
        await held.begin(1)
        looked_up = mesh.look_ups
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.CONNECTING
        assert channel.state is Connectivity.CONNECTING  # pick_first connects at once, without a call
        await trio.sleep(31)
        assert mesh.look_ups > looked_up


async def test_a_host_that_loses_its_connection_during_a_backoff_has_failed(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(1)
        mesh.network.refuse(mesh.hosts[0])
        await held.begin(1)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.TRANSIENT_FAILURE
        assert channel.state is not Connectivity.IDLE
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(3)
        assert channel.state is Connectivity.READY


async def test_a_host_without_an_attempt_is_idle_when_its_last_connection_is_lost(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(2)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert channel.state is Connectivity.IDLE


# -- connections that end


async def test_calls_go_on_where_one_of_two_connections_got_a_goaway(autojump_clock):
    async with one_host(2, streams=2) as (mesh, channel, held):
        await held.begin(3)
        first, second = mesh.servers[mesh.hosts[0]].connections
        first.goaway()
        await trio.sleep(0.01)
        assert subchannel(channel).state is Connectivity.READY and len(subchannel(channel).working) == 1
        await held.begin(1)
        assert held.answered == [1, 2, 3, 4] and (len(first.streams), len(second.streams)) == (2, 2)


async def test_a_connection_that_ends_makes_room_for_another(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(3)
        mesh.servers[mesh.hosts[0]].connections[0].goaway()
        await trio.sleep(0.01)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1, 1]


async def test_a_connection_without_stream_identifiers_leaves_new_calls_to_the_other(autojump_clock):
    async with one_host(2, streams=2) as (_, channel, held):
        await held.begin(3)
        await held.end(1)
        first, second = subchannel(channel).working.connections
        first.http2.engine._streams.next_id = 2**31 - 1
        await held.begin(1)
        await held.end(2)
        await held.begin(1)
        assert held.answered == [1, 2, 3, 4, 5] and first.error is not None and len(second.streams.open) == 2


async def test_waiting_calls_stay_when_one_of_two_connections_is_lost(autojump_clock):
    async with one_host(2) as (mesh, channel, held):
        await held.begin(3)
        mesh.network.refuse(mesh.hosts[0])
        mesh.servers[mesh.hosts[0]].connections[0].drop()
        await trio.sleep(0.01)
        assert subchannel(channel).working.num_waiting == 1
        await held.end(2)
        assert held.answered == [1, 2, 3]


async def test_waiting_calls_are_retried_transparently_when_all_connections_are_lost(autojump_clock):
    async with one_host(2) as (mesh, _, held):
        await held.begin(4)
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(0.01)
        assert held.answered == [1, 2, 3, 4] and not held.failed


async def test_a_host_that_is_no_longer_wanted_leaves_its_waiting_calls_to_others(autojump_clock):
    async with one_host_of_a_cluster(2) as (mesh, _, held):
        await held.begin(3)
        mesh.endpoints("cart", [await mesh.add_host()])
        await trio.sleep(0.1)
        assert held.answered == [1, 2, 3] and connections(mesh) == [1, 1] and connections(mesh, 1) == [1]
        await held.end(1)
        assert connections(mesh) == [1]


async def test_a_call_that_waited_at_a_host_that_is_no_longer_wanted_does_not_name_it_in_its_error(
    autojump_clock, nursery
):
    async with one_host_of_a_cluster(2) as (mesh, channel, held):
        await held.begin(2)
        errors = []

        async def wait_in_vain():
            with pytest.raises(RpcError) as caught:
                await ask(channel, timeout=3)
            errors.append(caught.value)

        nursery.start_soon(wait_in_vain)
        await trio.sleep(1)
        mesh.network.black_hole("10.9.9.9:80")
        mesh.endpoints("cart", ["10.9.9.9:80"])
        await trio.sleep(3)
        [error] = errors
        assert (error.status.code, error.peer) == (StatusCode.DEADLINE_EXCEEDED, "")
