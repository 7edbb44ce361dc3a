"""A session of a channel for asyncio is seen, moved, carried elsewhere and kept in a pool."""

import asyncio
import traceback

import pytest
import trio
from support.asyncio_tests import in_asyncio

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import resources as xds


async def peer(caller):
    _, call = await caller.method("/shop.Cart/Echo").with_call(b"")
    return call.peer


@in_asyncio
async def test_a_session_stays_on_one_host(world):
    async with world.channel() as channel:
        async with channel.session() as session:
            assert session.host is None
            assert {await peer(session) for _ in range(6)} == {session.host}
            assert (session.calls, session.cluster) == (6, "cart")
            assert "trxds.aio <Session" in repr(session)
        assert {await peer(channel) for _ in range(6)} == world.hosts


@in_asyncio
async def test_a_session_s_events_begin_with_the_call_of_events(world):
    async with world.channel() as channel:
        async with channel.session() as session:
            events = session.events()
            host = await peer(session)
            await session.release()
            await peer(session)
        found = [event async for event in events]
        assert isinstance(found[0], trxds.SessionPinned) and found[0].host.host == host
        assert len(found) == 2
        with pytest.raises(trio.ClosedResourceError):
            await anext(session.events())


@in_asyncio
async def test_a_cancelled_step_loses_no_event(world):
    async with world.channel() as channel, channel.session() as session:
        events = session.events()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(events)
        await peer(session)
        assert isinstance(await anext(events), trxds.SessionPinned)


@in_asyncio
async def test_events_that_nobody_has_any_more_end_in_trio_too(world):
    async with world.channel() as channel, channel.session() as session:
        assert await world.workers_after(channel, lambda: anext(session.events()), 20) < 10


@in_asyncio
async def test_a_session_moves_to_another_host(world):
    async with world.channel() as channel, channel.session() as session:
        before = await peer(session)
        async with session.moving() as (old, new):
            assert {await peer(old), await peer(new)} == {old.host, new.host} == world.hosts
            assert (old.host, old.cluster) == (before, "cart")
        assert await peer(session) == session.host == new.host


@in_asyncio
async def test_a_session_that_is_cancelled_while_it_moves_stays_where_it_was(world):
    async with world.channel() as channel, channel.session() as session:
        before = await peer(session)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), session.moving():
                await asyncio.sleep(20)
        assert await peer(session) == session.host == before


@in_asyncio
async def test_a_task_waits_until_its_host_drains(world):
    async with world.channel() as channel, channel.session() as session:
        host = await peer(session)
        world.put(xds.endpoints("cart", xds.locality(*world.hosts, health={host: "DRAINING"})))
        assert (await session.wait_draining()).host.host == host


@in_asyncio
async def test_a_session_travels_as_a_token(world):
    async with world.channel() as channel:
        async with channel.session() as session:
            host = await peer(session)
            token = session.export(key=b"k" * 16)
        async with channel.session(token, key=b"k" * 16) as session:
            assert session.host == host == await peer(session)
        with pytest.raises(trxds.SessionTokenError, match="the session token is signed") as refused:
            async with channel.session(token):
                raise AssertionError
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(refused.tb) if "/tests/" not in frame.f_code.co_filename]
    assert frames and token not in repr(frames)


@in_asyncio
async def test_tasks_share_a_pool_of_sessions(world):
    async with world.channel() as channel:

        async def visit(user):
            async with pool.session(user) as session:
                await peer(session)
                return user, session.host

        async with channel.sessions(max=4) as pool:
            assert len(set(await asyncio.gather(*(visit(number % 4) for number in range(40))))) == 4
            assert len(pool) == 4
            assert repr(pool) == "<trxds.aio <SessionPool of xds:///shop: 0 of 4 sessions in use, 4 not, 0 waiting>>"
        with pytest.raises(trio.ClosedResourceError, match="the block of the session pool"):
            await visit(1)


@in_asyncio
async def test_a_pool_may_fail_where_it_is_full(world):
    async with (
        world.channel() as channel,
        channel.sessions(max=1, idle=60, when_full="fail") as pool,
        pool.session("anna"),
    ):
        with pytest.raises(RpcError) as raised:
            async with pool.session("ben"):
                raise AssertionError
        assert raised.value.status.code is StatusCode.RESOURCE_EXHAUSTED


@in_asyncio
async def test_a_task_that_waits_for_a_full_pool_can_be_cancelled(world):
    async with world.channel() as channel, channel.sessions(max=1) as pool:
        async with pool.session("anna"):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), pool.session("ben"):
                    raise AssertionError
        async with pool.session("ben") as session:
            assert await peer(session) in world.hosts


@in_asyncio
async def test_sessions_are_rebalanced_while_the_block_lasts(world):
    async with world.channel() as channel:
        async with channel.rebalance_sessions(per_second=1, idle_for=60), channel.session() as session:
            assert await peer(session) == session.host
        with pytest.raises(ValueError, match="per_second"):
            async with channel.rebalance_sessions(per_second=0, idle_for=60):
                raise AssertionError
