"""A leaf of an aggregate that only sessions use ends with A75's idle timeout, but not within A56's 15 minutes."""

import trio
from support.aggregates import IDLE_TIMEOUT, RETENTION, fail, fail_back, fail_over, runs, settled, two_leaves
from support.mesh import Mesh, ask, bidi
from support.tasks import all_tasks

from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

SWEPT = 10  # seconds; a leaf has ended so long after its idle timeout


def cookie(host):
    return {"metadata": [("cookie", f"session={encode(host, 'both')}")]}


async def test_a_leaf_ends_its_idle_timeout_after_the_last_call_of_a_session(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        host = await ask(session)
        await trio.sleep(IDLE_TIMEOUT - 1)
        assert runs("y")
        await trio.sleep(SWEPT)
        assert not runs("y")
        assert not any(mesh.servers[host].connections for host in ys)
        assert await ask(session) == host, "the session starts its leaf again"


async def test_each_call_of_a_session_keeps_its_leaf_for_another_idle_timeout(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        for _ in range(5):
            assert await ask(session) == host
            await trio.sleep(IDLE_TIMEOUT - 60)
        assert mesh.network.attempts[host] == 1


async def test_frequent_updates_neither_delay_nor_bring_forward_the_end_of_a_leaf(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        await ask(session)
        ran = 0
        for number in range((IDLE_TIMEOUT + SWEPT) // 4):
            for name, hosts in (("x", xs), ("y", ys)):
                mesh.endpoints(name, hosts if number % 2 else hosts[::-1])
            await trio.sleep(4)
            ran += 4 if runs("y") else 0
        assert IDLE_TIMEOUT - 4 <= ran < IDLE_TIMEOUT + SWEPT - 4


async def test_updates_reach_a_leaf_that_only_sessions_use(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        await trio.sleep(RETENTION + 60)
        new = await mesh.add_host()
        mesh.endpoints("y", [*ys, new])
        await settled()
        assert await ask(channel, **cookie(new)) == new
        assert await ask(session) == host


async def test_a_leaf_that_no_session_uses_any_more_stays_for_a_quarter_of_an_hour(autojump_clock):
    async with two_leaves(idle_timeout=30) as (mesh, channel, xs, _), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        back = trio.current_time()
        await ask(session)
        await trio.sleep(30 + SWEPT)
        assert runs("y"), "as a leaf that no session has ever used (A56)"
        # The time counts from the failback, and not from when the session was idle.
        await trio.sleep_until(back + RETENTION)
        assert not runs("y")


async def test_a_leaf_that_a_cookie_has_started_ends_with_its_idle_timeout(autojump_clock):
    async with two_leaves(idle_timeout=30) as (_, channel, _, ys):
        assert await ask(channel, **cookie(ys[0])) == ys[0]
        await trio.sleep(25)
        assert runs("y")
        await trio.sleep(SWEPT)
        assert not runs("y")


async def test_a_leaf_outlives_its_idle_timeout_while_a_call_waits_for_its_host(autojump_clock):
    async with two_leaves(idle_timeout=5) as (mesh, channel, xs, ys):
        await ask(channel)
        mesh.network.black_hole(ys[0])
        began = trio.current_time()
        assert await ask(channel, **cookie(ys[0])) in xs
        assert trio.current_time() - began < 30, "the attempt was made once"
        assert mesh.network.attempts[ys[0]] <= 2


async def test_a_stream_outlives_its_leaf_and_its_session_goes_on_at_the_same_host(autojump_clock):
    async with two_leaves(idle_timeout=30) as (mesh, channel, xs, _), channel.session() as session:
        await ask(channel)
        fail(mesh, xs)
        await settled()
        async with bidi(session).open() as call:
            await call.send(b"one")
            await call.receive()
            await fail_back(mesh, xs)
            await trio.sleep(RETENTION + SWEPT)
            assert not runs("y")
            await call.send(b"two")
            assert await call.receive() == f"{call.peer} two".encode()
            assert await ask(session) == call.peer


async def test_a_leaf_that_serves_again_is_not_ended_by_the_sweep(autojump_clock):
    async with two_leaves(idle_timeout=30) as (mesh, channel, xs, ys), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        await trio.sleep(RETENTION)
        assert await ask(session) in ys
        await fail_over(mesh, session, xs)
        await trio.sleep(RETENTION + 60)
        assert await ask(channel) in ys


async def test_a_channel_of_sticky_aggregates_leaves_no_task(autojump_clock):
    async with Mesh.run(0) as mesh:
        before = len(list(all_tasks()))
        hosts = [await mesh.add_host() for _ in range(2)]
        for cluster, host in zip("xy", hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        served = len(list(all_tasks()))
        async with mesh.channel(sticky_aggregates=True) as channel:
            await ask(channel, **cookie(hosts[1]))
        await trio.testing.wait_all_tasks_blocked()
        assert len(list(all_tasks())) == served > before
