"""A session of a pool ends when it was not used for too long, or with its pool, or with the channel."""

from __future__ import annotations

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.session_pools import pool_of, users, visit, visitors
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError, StatusCode, TrxdsInternalError
from trxds.client.session_pool import SessionTable


class TestIdle:
    async def test_a_session_that_is_not_used_ends_after_the_idle_time(self, autojump_clock):
        async with pool_of(idle=60) as (_, channel, pool):
            await visit(pool, "anna")
            await trio.sleep(59)
            await visit(pool, "ben")
            await trio.sleep(2)  # not at the very moment: two tasks whose deadlines are equal run in any order
            assert users(pool) == ["ben"]
            await trio.sleep(60)
            assert (len(pool), len(channel.admin_view().sessions)) == (0, 0)

    async def test_each_use_begins_the_idle_time_again(self, autojump_clock):
        async with pool_of(idle=60) as (_, _, pool):
            for calls in range(1, 6):
                assert (await visit(pool, "anna"))[1] == calls
                await trio.sleep(59)

    async def test_a_session_in_use_is_never_idle(self, autojump_clock):
        async with pool_of(idle=60) as (_, _, pool), pool.session("anna") as session:
            host = await ask(session)
            await trio.sleep(1000)
            assert await ask(session) == host

    async def test_without_an_idle_time_a_session_stays(self, autojump_clock):
        async with pool_of() as (_, _, pool):
            await visit(pool, "anna")
            await trio.sleep(50_000)
            assert (await visit(pool, "anna"))[1] == 2

    async def test_nothing_wakes_while_the_pool_is_empty_and_once_for_many_sessions(self, autojump_clock):
        class Steps(trio.abc.Instrument):
            count = 0

            def before_task_step(self, task):
                self.count += task.name == "sessions/idle"

        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        async with pool_of(max=100, idle=60) as (_, _, pool):
            await wait_all_tasks_blocked()
            before = steps.count
            await trio.sleep(10_000)
            assert steps.count == before
            for number in range(100):
                async with pool.session(number):
                    pass
            await trio.sleep(10_000)
            assert len(pool) == 0
            assert steps.count - before <= 3
        trio.lowlevel.remove_instrument(steps)


class TestEnd:
    async def test_a_pool_that_has_ended_has_no_sessions(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def hold(pool):
                async with pool.session("anna"):
                    await trio.sleep(1)

            async with channel.sessions(max=2) as pool:
                await visit(pool, "ben")
                nursery.start_soon(hold, pool)
                await wait_all_tasks_blocked()
                assert len(pool) == 2
            assert len(pool) == 0

    async def test_with_its_block_the_sessions_of_a_pool_end_and_their_calls(self, autojump_clock, nursery):
        ended = []

        async def talk(pool, user, task_status):
            try:
                async with pool.session(user) as session, bidi(session).open() as call:
                    await call.send(b"")
                    await call.receive()
                    task_status.started()
                    await call.receive()
            except RpcError as error:
                ended.append(error.status)

        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.sessions(max=2) as pool:
                await nursery.start(talk, pool, "anna")
                await nursery.start(talk, pool, "anna")
            await wait_all_tasks_blocked()
            assert ended == [trxds.Status(StatusCode.CANCELLED, "session closed")] * 2
            assert channel.admin_view().sessions == set()
            await ask(channel)
            with pytest.raises(trio.ClosedResourceError, match="the block of the session pool of xds:///shop is over"):
                await visit(pool, "anna")

    async def test_those_that_wait_for_a_pool_that_ends_are_told(self, autojump_clock, nursery):
        async def wait(pool):
            with pytest.raises(trio.ClosedResourceError, match="the block of the session pool"):
                await visit(pool, "ben")
            told.set()

        told = trio.Event()
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            async with channel.sessions(max=1) as pool:
                await visitors(nursery, pool, "anna")
                nursery.start_soon(wait, pool)
                await wait_all_tasks_blocked()
            with trio.fail_after(1):
                await told.wait()
            nursery.cancel_scope.cancel()

    async def test_one_whose_turn_comes_as_the_pool_ends_is_told(self, autojump_clock, nursery):
        async def wait(pool):
            with pytest.raises(trio.ClosedResourceError, match="the block of the session pool"):
                await visit(pool, "ben")
            told.set()

        told = trio.Event()
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            async with channel.sessions(max=1) as pool, pool.session("anna"):
                nursery.start_soon(wait, pool)
                await wait_all_tasks_blocked()
            with trio.fail_after(1):
                await told.wait()
            assert channel.admin_view().sessions == set()

    async def test_with_its_channel_a_pool_ends(self, autojump_clock, nursery):
        async def wait(pool):
            with pytest.raises(trio.ClosedResourceError):
                await visit(pool, "ben")
            told.set()

        told = trio.Event()
        async with Mesh.run(1) as mesh:
            with pytest.raises(ValueError, match="the user's own"):
                async with mesh.channel() as channel, channel.sessions(max=1, idle=9) as pool:
                    (anna,) = await visitors(nursery, pool, "anna")
                    nursery.start_soon(wait, pool)
                    await wait_all_tasks_blocked()
                    raise ValueError("the user's own")
            with trio.fail_after(1):
                await told.wait()
            for call in (visit(pool, "anna"), ask(anna.session)):
                with pytest.raises(trio.ClosedResourceError, match="the channel to xds:///shop is closed"):
                    await call
        nursery.cancel_scope.cancel()

    async def test_a_closed_channel_opens_no_pool(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            async with mesh.channel() as channel:
                pass
            with pytest.raises(trio.ClosedResourceError):
                async with channel.sessions(max=1):
                    pass

    async def test_a_closed_channel_begins_no_block_though_the_pools_block_goes_on(self, autojump_clock):
        async with pool_of() as (_, channel, pool):
            channel._state.close()
            with pytest.raises(trio.ClosedResourceError, match="the channel to xds:///shop is closed"):
                async with pool.session("anna"):
                    pytest.fail("the block has begun")

    async def test_a_bug_in_the_task_that_ends_idle_sessions_ends_the_pool_with_one_error(
        self, monkeypatch, autojump_clock
    ):
        def broken(self):
            raise KeyError("bug")

        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(TrxdsInternalError, match="a bug in trxds ended the session pool of xds:///shop"):
                async with channel.sessions(max=1, idle=60) as pool:
                    await visit(pool, "anna")
                    monkeypatch.setattr(SessionTable, "sweep", broken)
                    await trio.sleep_forever()
