"""A session remembers its host, its number of calls, and the reason of its last move."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask
from support.sessions import in_header, listen, session_filter
from trio.testing import wait_all_tasks_blocked

from trxds.lb.override_host.repin_reason import RepinReason
from trxds.testing import resources as xds


@asynccontextmanager
async def on_a_host(hosts=3, **filter_):
    """Run a mesh, and a session that has a host."""
    async with Mesh.run(hosts, **filter_) as mesh, mesh.channel() as channel, channel.session() as session:
        await ask(session)
        yield mesh, session, session._session.cookies


async def meet(session, times=1):
    await wait_all_tasks_blocked()
    for _ in range(times):
        await ask(session)


def move_of(record):
    assert record.last_move is not None
    return record.last_move.old.host, record.last_move.new.host, record.last_move.reason


async def test_a_session_knows_its_host_and_counts_its_calls(autojump_clock):
    async with on_a_host() as (_, session, record):
        host = await ask(session)
        await meet(session, 3)
        assert (record.host, record.cluster, record.calls, record.moves) == (host, "cart", 5, 0)
        assert record.last_move is None


async def test_a_session_has_no_host_before_its_first_response(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        assert (session._session.cookies.host, session._session.cookies.calls) == ("", 0)


async def test_a_session_moves_because_its_host_was_removed(autojump_clock):
    async with on_a_host() as (mesh, session, record):
        old = record.host
        mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
        await meet(session, 3)
        assert move_of(record) == (old, record.host, RepinReason.UNKNOWN_HOST)
        assert record.moves == 1


async def test_sessions_that_learn_of_a_drain_move_to_no_host_that_drains_in_the_same_update(autojump_clock):
    async with Mesh.run(5) as mesh, AsyncExitStack() as stack:
        mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
        channel = await stack.enter_async_context(mesh.channel())
        sessions = [await stack.enter_async_context(channel.session()) for _ in range(3)]
        hosts = {await ask(session) for session in sessions}
        stays = next(host for host in mesh.hosts if host not in hosts)

        async def move(session):
            await session.wait_draining()
            async with session.moving():
                pass

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(move, session)
            await wait_all_tasks_blocked()
            drain = dict.fromkeys({*mesh.hosts} - {stays}, "DRAINING")
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health=drain))
        assert [session.host for session in sessions] == [stays] * 3


async def test_a_session_moves_because_its_host_drains_and_override_host_status_excludes_it(autojump_clock):
    async with on_a_host() as (mesh, session, record):
        old = record.host
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={old: "DRAINING"}))
        await meet(session)
        assert move_of(record)[2] is RepinReason.UNKNOWN_HOST  # it is hidden even from the cookie

    async with on_a_host() as (mesh, session, record):
        old = record.host
        mesh.cluster("cart", override_statuses=["UNKNOWN", "DRAINING"])
        await meet(session)
        assert move_of(record) == (old, record.host, RepinReason.STATUS_NOT_ALLOWED)


async def test_a_session_moves_because_its_host_cannot_be_reached(autojump_clock):
    async with on_a_host() as (mesh, session, record):
        old = record.host
        mesh.servers[old].stop()
        await trio.sleep(5)
        await meet(session)
        assert move_of(record)[2] is RepinReason.NOT_READY


async def test_a_session_moves_because_its_route_has_another_cluster(autojump_clock):
    async with on_a_host() as (mesh, session, record):
        mesh.cluster("basket")
        mesh.endpoints("basket", [await mesh.add_host()])
        mesh.route("basket")
        await meet(session)
        assert move_of(record)[2] is RepinReason.CLUSTER_MISMATCH
        assert record.cluster == "basket"


async def test_a_session_moves_because_its_cookie_expired(autojump_clock):
    async with Mesh.run(2) as mesh:
        mesh.listen(ttl=10)
        async with mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            await trio.sleep(11)
            while await ask(channel) != (other := next(host for host in mesh.hosts if host != old)):
                pass
            await ask(channel)  # it was the other's turn, then the old one's; now it is the other's again
            await meet(session)
            assert move_of(session._session.cookies) == (old, other, RepinReason.NO_COOKIE)


async def test_a_header_session_is_observed_too(autojump_clock):
    async with Mesh.run(3) as mesh:
        listen(mesh, session_filter(state=in_header("x-session")))
        async with mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            assert session._session.cookies.host == old
            mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
            await meet(session)
            assert move_of(session._session.cookies)[2] is RepinReason.UNKNOWN_HOST


async def test_a_channel_knows_the_sessions_that_are_open(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        async with channel.session(), channel.session():
            assert sorted(each.number for each in channel._state.sessions.open) == [1, 2]
        with pytest.raises(ValueError, match="the user's own"):
            async with channel.session():
                raise ValueError("the user's own")
        assert channel._state.sessions.open == {}
