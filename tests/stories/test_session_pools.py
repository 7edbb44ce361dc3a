"""A pool keeps a session for each user: bounded, least recently used, never one that is in use."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import trio
from support.mesh import Mesh, ask, bidi, spread
from support.session_pools import Visitor, pool_of, users, visit, visitors
from support.tokens import KEY, exported
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError, SessionTokenError, StatusCode


class TestByUser:
    async def test_each_user_has_a_session_of_its_own_that_outlives_its_blocks(self, autojump_clock):
        async with pool_of() as (_, _, pool):
            first = {user: await visit(pool, user) for user in ("anna", "ben")}
            assert len({host for host, _ in first.values()}) == 2
            for user, (host, _) in first.items():
                assert await visit(pool, user) == (host, 2)
            assert len(pool) == 2

    async def test_blocks_of_one_user_at_a_time_share_the_session(self, autojump_clock):
        async with pool_of() as (_, _, pool), pool.session("anna") as one, pool.session("anna") as two:
            assert await ask(one) == await ask(two)
            assert len(pool) == 1
            assert (one.calls, two.calls) == (2, 2)

    async def test_a_call_after_its_block_raises_though_the_session_lives_on(self, autojump_clock):
        async with pool_of() as (_, _, pool):
            async with pool.session("anna") as session:
                host = await ask(session)
            with pytest.raises(trio.ClosedResourceError, match="the session's block is over"):
                await ask(session)
            assert (await visit(pool, "anna"))[0] == host

    async def test_a_stream_that_is_open_when_its_block_ends_is_cancelled_and_those_of_other_blocks_are_not(
        self, autojump_clock
    ):
        async with pool_of() as (_, _, pool), pool.session("anna") as other:
            await ask(other)
            async with bidi(other).open() as kept:
                with pytest.raises(RpcError, match="session closed"):
                    async with pool.session("anna") as session:
                        opened = bidi(session).open()
                        call = await opened.__aenter__()
                    try:
                        await call.receive()
                    finally:
                        await opened.__aexit__(None, None, None)
                await kept.send(b"x")
                assert await kept.receive() is not None

    async def test_a_token_begins_the_session_of_a_user_who_has_none(self, autojump_clock):
        async with pool_of(8) as (mesh, _, pool):
            token, host = await exported(mesh, key=KEY)
            async with pool.session("anna", token, key=KEY) as session:
                assert session.host == host == await ask(session)

    async def test_the_pools_own_session_wins_over_a_token_which_is_checked_nevertheless(self, autojump_clock):
        async with pool_of() as (mesh, _, pool):
            token, other = await exported(mesh)
            at = {user: (await visit(pool, user))[0] for user in ("anna", "ben")}
            user, mine = next(pair for pair in at.items() if pair[1] != other)
            async with pool.session(user, token) as session:
                assert session.host == mine
            with pytest.raises(SessionTokenError, match="not signed"):
                async with pool.session(user, token, key=KEY):
                    pass

    async def test_each_session_is_seen_by_the_admin_surface_until_it_ends(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.sessions(max=2) as pool:
                for user in ("anna", "ben", "carl"):
                    await visit(pool, user)
                assert sorted(each.number for each in channel.admin_view().sessions) == [2, 3]
            assert channel.admin_view().sessions == set()

    async def test_the_options_of_sessions_apply_to_each(self, autojump_clock):
        async with (
            Mesh.run(1, sessions=False) as mesh,
            mesh.channel() as channel,
            channel.sessions(max=1, require=True) as pool,
        ):
            with pytest.raises(RpcError, match="the session cannot be sticky"):
                await visit(pool, "anna")

    async def test_a_repr_has_no_user(self, autojump_clock):
        async with pool_of(idle=5) as (_, _, pool), pool.session("s3cret") as session:
            await ask(session)
            assert repr(pool) == "<SessionPool of xds:///shop: 1 of 3 sessions in use, 0 not, 0 waiting>"
            assert "s3cret" not in repr(session)
        assert repr(pool) == "<SessionPool of xds:///shop: closed>"

    async def test_a_users_key_is_hashable_and_short(self, autojump_clock):
        async with pool_of() as (_, _, pool):
            with pytest.raises(ValueError, match="has 1025 characters, and 1024 are the limit; use a hash of it"):
                await visit(pool, "x" * 1025)
            with pytest.raises(TypeError, match="of type list, which is not hashable"):
                await visit(pool, ["s3cret"])
            assert len(pool) == 0
            await visit(pool, "x" * 1024)


class TestRoom:
    async def test_the_least_recently_used_session_makes_room(self, autojump_clock):
        async with pool_of() as (_, _, pool):
            for user in ("anna", "ben", "carl", "anna", "dora"):
                await visit(pool, user)
            assert users(pool) == ["carl", "anna", "dora"]
            assert (await visit(pool, "ben"))[1] == 1  # a new one

    async def test_a_session_counts_as_used_when_its_last_block_ends(self, autojump_clock, nursery):
        async with pool_of() as (_, _, pool):
            (anna,) = await visitors(nursery, pool, "anna")
            await visit(pool, "ben")
            await visit(pool, "carl")
            await anna.leave()
            assert users(pool) == ["ben", "carl", "anna"]

    async def test_a_session_in_use_never_makes_room(self, autojump_clock, nursery):
        async with pool_of(max=2) as (_, _, pool):
            (anna,) = await visitors(nursery, pool, "anna")
            for number in range(5):
                await visit(pool, number)
            host = await ask(anna.session)
            await visit(pool, "zoe")
            assert await ask(anna.session) == host
            await anna.leave()
            assert users(pool) == ["zoe", "anna"]

    async def test_a_session_with_two_blocks_is_in_use_until_both_end(self, autojump_clock, nursery):
        async with pool_of(max=1, when_full="fail") as (_, _, pool):
            one, two = await visitors(nursery, pool, "anna", "anna")
            await one.leave()
            with pytest.raises(RpcError):
                await visit(pool, "ben")
            await two.leave()
            await visit(pool, "ben")

    async def test_beyond_the_maximum_a_pool_may_fail_with_resource_exhausted(self, autojump_clock, nursery):
        async with pool_of(max=2, when_full="fail") as (_, _, pool):
            anna, _ = await visitors(nursery, pool, "anna", "ben")
            with pytest.raises(RpcError) as raised:
                await visit(pool, "carl")
            assert raised.value.status == trxds.Status(
                StatusCode.RESOURCE_EXHAUSTED,
                "all 2 sessions of the pool of xds:///shop are in use; "
                "try again later, or raise max of channel.sessions",
            )
            assert (await visit(pool, "anna"))[1] == 1  # its session is there
            await anna.leave()
            await visit(pool, "carl")
            nursery.cancel_scope.cancel()

    async def test_beyond_the_maximum_a_pool_waits_for_the_end_of_a_block(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            anna, ben = await visitors(nursery, pool, "anna", "ben")
            assert not ben.entered.is_set()
            assert "1 waiting" in repr(pool)
            await anna.leave()
            assert ben.entered.is_set()
            await ben.leave()
            assert users(pool) == ["ben"]

    async def test_those_that_wait_come_in_the_order_of_arrival_and_before_newcomers(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            waiting = await visitors(nursery, pool, *"abcde")
            for first, second in pairwise(waiting):
                newcomer = Visitor(pool, f"after {second.user}")
                first._leave.set()
                nursery.start_soon(newcomer.run)  # in the same step of the scheduler as the one that leaves
                await wait_all_tasks_blocked()
                assert second.entered.is_set() and not newcomer.entered.is_set()
            nursery.cancel_scope.cancel()

    async def test_those_that_wait_for_one_user_come_together(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            anna, ben, carl, again = await visitors(nursery, pool, "anna", "ben", "carl", "ben")
            await anna.leave()
            assert (ben.entered.is_set(), again.entered.is_set(), carl.entered.is_set()) == (True, True, False)
            await ben.leave()
            assert not carl.entered.is_set()
            await again.leave()
            assert carl.entered.is_set()
            nursery.cancel_scope.cancel()

    async def test_a_user_with_a_session_does_not_wait_for_those_that_have_none(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            await visitors(nursery, pool, "anna", "ben")
            assert (await visit(pool, "anna"))[1] == 1
            nursery.cancel_scope.cancel()

    async def test_one_that_stops_waiting_leaves_its_turn_to_the_next(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            anna, ben, carl = await visitors(nursery, pool, "anna", "ben", "carl")
            ben.scope.cancel()
            await ben.left.wait()
            assert "1 waiting" in repr(pool)
            await anna.leave()
            assert carl.entered.is_set()
            nursery.cancel_scope.cancel()

    async def test_a_turn_that_comes_with_the_cancellation_is_not_lost(self, autojump_clock, nursery):
        for cancelled_first in (True, False):
            async with pool_of(max=1) as (_, _, pool):
                anna, ben, carl = await visitors(nursery, pool, "anna", "ben", "carl")
                if cancelled_first:
                    ben.scope.cancel()
                anna._leave.set()
                await anna.left.wait()
                ben.scope.cancel()  # its turn has come, and it has not run
                await wait_all_tasks_blocked()
                assert carl.entered.is_set() and ben.left.is_set()
                await carl.leave()
                assert len(pool) == 1

    async def test_one_of_two_that_wait_for_a_user_may_stop(self, autojump_clock, nursery):
        async with pool_of(max=1) as (_, _, pool):
            anna, ben, again = await visitors(nursery, pool, "anna", "ben", "ben")
            ben.scope.cancel()
            await anna.leave()
            assert again.entered.is_set()
            await again.leave()
            assert users(pool) == ["ben"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max": 0}, "max is 0; it must be a number of sessions from 1"),
        ({"max": True}, "max is True"),
        ({"max": 1.5}, "max is 1.5"),
        ({"idle": 0}, "idle is 0; it must be a number of seconds above 0, or None for never"),
        ({"idle": math.nan}, "idle is nan"),
        ({"idle": "5"}, "idle is '5'"),
        ({"when_full": "drop"}, "when_full is 'drop'; it must be 'wait' or 'fail'"),
        ({"first_within": -1}, "first_within is -1"),
    ],
    ids=str,
)
async def test_an_option_that_cannot_be_is_refused(options, text, autojump_clock):
    async with Mesh.run(0) as mesh, mesh.channel() as channel:
        with pytest.raises(ValueError, match=text):
            async with channel.sessions(**{"max": 1} | options):
                pass


async def test_many_users_at_a_time_get_their_sessions_and_no_more_are_kept_than_may_be(autojump_clock):
    async with pool_of(5, max=10, idle=300) as (_, channel, pool):
        seen = {}

        async def user(name):
            for _ in range(3):
                async with pool.session(name) as session:
                    assert len(await spread(session, 2)) == 1
                    assert len(pool) <= 10
                    seen[name] = session.calls
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            for name in range(60):
                nursery.start_soon(user, name)
        assert len(seen) == 60
        assert len(pool) == len(channel.admin_view().sessions) == 10
        assert repr(pool).endswith("0 of 10 sessions in use, 10 not, 0 waiting>")
