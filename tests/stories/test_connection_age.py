"""A connection that has reached its maximum age is replaced without a failed call."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.plain import BY_NAME, hosts_in_memory

import trxds
from trxds import Connectivity, CookieAffinity, RpcError, StatusCode

MAX_AGE, MAX_AGE_WITH_JITTER = 100, 110


@asynccontextmanager
async def aging(hosts=1, **options):
    async with hosts_in_memory(hosts) as mesh:
        config = {"loadBalancingConfig": [{"round_robin": {}}]}
        async with mesh.channel(service_config=config, max_connection_age=MAX_AGE, **options) as channel:
            await ask(channel)
            await trio.sleep(0.1)
            yield mesh, channel


async def test_a_connection_is_replaced_at_its_age(autojump_clock):
    async with aging() as (mesh, _):
        [server] = mesh.servers.values()
        [old] = server.connections
        await trio.sleep(MAX_AGE_WITH_JITTER)
        [new] = server.connections
        assert new is not old and mesh.network.attempts[mesh.hosts[0]] == 2


async def test_the_age_is_within_a_tenth_and_differs_between_connections(autojump_clock):
    async with aging(20) as (mesh, _):
        ages = {}
        for second in range(112):
            for host in mesh.hosts:
                if mesh.network.attempts[host] == 2:
                    ages.setdefault(host, second)
            await trio.sleep(1)
        assert len(ages) == 20 and min(ages.values()) >= 90 and max(ages.values()) <= 111
        assert len(set(ages.values())) > 5


async def test_no_call_fails_or_waits_while_connections_are_replaced(autojump_clock):
    async with aging(3) as (mesh, channel):
        states = set()
        for _ in range(400):
            began = trio.current_time()
            await ask(channel)
            assert trio.current_time() == began
            states.add(channel.state)
            await trio.sleep(1)
        assert states == {Connectivity.READY}
        assert all(mesh.network.attempts[host] >= 4 for host in mesh.hosts)


async def test_calls_under_way_end_on_the_old_connection_and_new_ones_begin_on_the_new(autojump_clock):
    async with aging() as (mesh, channel), bidi(channel).open(b"one") as call:
        await call.receive()
        await trio.sleep(MAX_AGE_WITH_JITTER)
        old, new = mesh.servers[mesh.hosts[0]].connections
        async with bidi(channel).open(b"") as later:
            await later.receive()
            assert (len(old.streams), len(new.streams)) == (1, 1)
        await call.send(b"two")
        assert (await call.receive()).endswith(b"two")
        call.done_sending()
        assert await call.receive() is None
        await trio.sleep(0.1)
        assert mesh.servers[mesh.hosts[0]].connections == [new]


async def test_a_call_that_outlasts_the_grace_ends_with_unavailable(autojump_clock):
    async with aging(max_connection_age_grace=30) as (mesh, channel), bidi(channel).open(b"") as call:
        await call.receive()
        await trio.sleep(MAX_AGE_WITH_JITTER)
        assert len(mesh.servers[mesh.hosts[0]].connections) == 2
        with pytest.raises(RpcError) as caught:
            await call.receive()
        assert caught.value.status.code is StatusCode.UNAVAILABLE
        assert "older than max_connection_age, and the grace is over" in caught.value.status.message
        assert trio.current_time() < 1.1 * MAX_AGE + 31


async def test_a_host_that_cannot_be_connected_again_keeps_its_old_connection_until_it_can(autojump_clock):
    async with aging() as (mesh, channel):
        [old] = mesh.servers[mesh.hosts[0]].connections
        mesh.network.refuse(mesh.hosts[0])
        await trio.sleep(2 * MAX_AGE)
        assert channel.state is Connectivity.READY
        assert await ask(channel) == mesh.hosts[0] and mesh.servers[mesh.hosts[0]].connections == [old]
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(130)
        assert mesh.servers[mesh.hosts[0]].connections not in ([old], [])


async def test_dns_is_asked_again_and_new_addresses_are_found(autojump_clock):
    async with aging() as (mesh, channel):
        mesh.points_to(mesh.hosts[0], await mesh.add_host())
        await trio.sleep(MAX_AGE_WITH_JITTER)
        assert {await ask(channel) for _ in range(4)} == set(mesh.hosts)
        assert mesh.look_ups == 2


async def test_a_session_stays_on_its_host(autojump_clock):
    async with aging(3, affinity=CookieAffinity("session")) as (mesh, channel), channel.session() as session:
        home = await ask(session)
        for _ in range(4):
            await trio.sleep(MAX_AGE)
            assert await ask(session) == home
        assert mesh.network.attempts[home] > 3


async def test_connections_of_a_cluster_are_replaced_too(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel(max_connection_age=MAX_AGE) as channel:
        await ask(channel)
        await trio.sleep(MAX_AGE_WITH_JITTER + 1)
        assert [mesh.network.attempts[host] for host in mesh.hosts] == [2, 2]


async def test_without_an_age_connections_are_kept(autojump_clock):
    async with hosts_in_memory(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        await trio.sleep(1000)
        await ask(channel)
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_an_idle_channel_makes_no_connection_for_the_sake_of_its_age(autojump_clock):
    async with aging(idle_timeout=50) as (mesh, channel):
        await trio.sleep(3 * MAX_AGE)
        assert channel.state is Connectivity.IDLE and mesh.network.attempts[mesh.hosts[0]] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_connection_age": 0}, "max_connection_age is 0; it must be a finite number of seconds above 0"),
        ({"max_connection_age": float("inf")}, "max_connection_age is inf; it must be"),
        ({"max_connection_age": 9, "max_connection_age_grace": 0}, "max_connection_age_grace is 0; it must be"),
        ({"max_connection_age_grace": 5}, "has no meaning without max_connection_age; set both"),
    ],
)
async def test_an_age_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        async with trxds.open_channel(BY_NAME, **options):
            pass
