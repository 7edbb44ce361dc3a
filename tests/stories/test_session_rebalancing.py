"""After a rollout sessions pile up on the oldest hosts; `rebalance_sessions` releases idle ones, a few at a time."""

from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.sessions import in_cookie, listen, session_filter
from trio.testing import wait_all_tasks_blocked

from trxds import TrxdsInternalError
from trxds.client.session_rebalancing import Rebalancer, shares
from trxds.lb.endpoint_set import Endpoints
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.testing import resources as xds


@asynccontextmanager
async def after_a_rollout(sessions=40, *, strict=False, **cookie):
    """All sessions are on the only host, and then three hosts come."""
    async with Mesh.run(1) as mesh, AsyncExitStack() as stack:
        listen(mesh, session_filter(state=in_cookie(path="/", **cookie), strict=strict))
        channel = await stack.enter_async_context(mesh.channel())
        opened = [await stack.enter_async_context(channel.session()) for _ in range(sessions)]
        for session in opened:
            await ask(session)
        for _ in range(3):
            await mesh.add_host()
        mesh.endpoints("cart", mesh.hosts)
        await wait_all_tasks_blocked()
        yield mesh, channel, opened


def on_hosts(sessions):
    return Counter(session.host for session in sessions)


async def call_all(sessions):
    for session in sessions:
        await ask(session)


async def test_without_it_sessions_stay_where_they_are(autojump_clock):
    async with after_a_rollout() as (mesh, _, sessions):
        await trio.sleep(600)
        await call_all(sessions)
        assert on_hosts(sessions) == {mesh.hosts[0]: 40}


async def test_idle_sessions_above_the_share_are_released(autojump_clock):
    async with after_a_rollout() as (_, channel, sessions), channel.rebalance_sessions(per_second=100, idle_for=10):
        await trio.sleep(60)
        assert sum(session.host is not None for session in sessions) == 11  # a quarter of forty, and a tenth more


async def test_the_share_of_a_host_is_not_rounded_up_from_a_whole_number(autojump_clock):
    async with after_a_rollout(200) as (_, channel, sessions), channel.rebalance_sessions(per_second=999, idle_for=1):
        await trio.sleep(60)
        assert sum(session.host is not None for session in sessions) == 55  # in floating point, 50 * 1.1 is above 55


async def test_released_sessions_spread_over_the_new_hosts(autojump_clock):
    async with after_a_rollout() as (mesh, channel, sessions):
        async with channel.rebalance_sessions(per_second=5, idle_for=2):
            for _ in range(60):
                await trio.sleep(5)
                for session in sessions:
                    if session.host is None:
                        await ask(session)
        spread = on_hosts(sessions)
        assert set(spread) == set(mesh.hosts)
        assert max(spread.values()) <= 11  # of 10, and a tenth more


async def test_at_most_so_many_sessions_a_second_are_released(autojump_clock):
    async with after_a_rollout() as (_, channel, sessions):
        async with channel.rebalance_sessions(per_second=2, idle_for=0):
            await trio.sleep(4.5)
            released = sum(session.host is None for session in sessions)
        assert 8 <= released <= 10


async def test_a_calm_time_earns_no_more_than_the_sessions_of_one_second(autojump_clock):
    async with after_a_rollout() as (_, channel, sessions), channel.rebalance_sessions(per_second=2, idle_for=30):
        await trio.sleep(32.5)
        assert sum(session.host is None for session in sessions) <= 6


async def test_a_slow_rate_releases_one_session_now_and_then(autojump_clock):
    async with after_a_rollout() as (_, channel, sessions), channel.rebalance_sessions(per_second=0.1, idle_for=0):
        await trio.sleep(25)
        assert sum(session.host is None for session in sessions) == 2


async def test_a_session_with_a_call_under_way_is_not_idle(autojump_clock):
    async with after_a_rollout(4) as (_, channel, sessions), bidi(sessions[0]).open() as call:
        await call.send(b"1")
        await call.receive()
        async with channel.rebalance_sessions(per_second=100, idle_for=1):
            await trio.sleep(30)
        assert sessions[0].host is not None
        assert any(session.host is None for session in sessions[1:])


async def test_a_session_that_goes_on_calling_is_not_idle(autojump_clock):
    async with after_a_rollout(8) as (mesh, channel, sessions):
        async with channel.rebalance_sessions(per_second=100, idle_for=3):
            for _ in range(20):
                await trio.sleep(1)
                await call_all(sessions)
        assert on_hosts(sessions) == {mesh.hosts[0]: 8}


async def test_a_session_that_is_moving_is_left_to_its_move(autojump_clock):
    async with after_a_rollout() as (_, channel, sessions), sessions[0].moving() as (old, _):
        async with channel.rebalance_sessions(per_second=100, idle_for=10):
            await trio.sleep(60)
        assert sessions[0].host == old.host


async def test_a_session_whose_cookie_is_too_old_is_not_released(autojump_clock):
    async with after_a_rollout(ttl="20s") as (_, channel, sessions):
        async with channel.rebalance_sessions(per_second=100, idle_for=30):
            await trio.sleep(60)
        assert not any(session._session.cookies.release_reason for session in sessions)


async def test_no_session_is_released_for_hosts_that_cannot_be_reached(autojump_clock):
    async with after_a_rollout() as (mesh, channel, sessions):
        for host in mesh.hosts[1:]:
            mesh.network.refuse(host)
            mesh.network.cut(host)
        await wait_all_tasks_blocked()
        async with channel.rebalance_sessions(per_second=100, idle_for=1):
            await trio.sleep(10)
        assert on_hosts(sessions) == {mesh.hosts[0]: 40}


async def test_strict_sessions_are_never_released(autojump_clock):
    async with after_a_rollout(strict=True) as (mesh, channel, sessions):
        async with channel.rebalance_sessions(per_second=100, idle_for=0):
            await trio.sleep(30)
        assert on_hosts(sessions) == {mesh.hosts[0]: 40}


async def test_an_imported_session_may_be_strict_and_is_left_until_its_first_call(autojump_clock):
    async with after_a_rollout() as (mesh, channel, sessions), AsyncExitStack() as stack:
        imported = [await stack.enter_async_context(channel.session(sessions[0].export())) for _ in range(40)]
        await call_all(sessions)
        async with channel.rebalance_sessions(per_second=100, idle_for=0):
            await trio.sleep(30)
        assert on_hosts(imported) == {mesh.hosts[0]: 40}
        assert on_hosts(sessions)[None] > 20


async def test_sessions_of_a_draining_host_are_left_to_the_drain(autojump_clock):
    async with after_a_rollout() as (mesh, channel, sessions):
        old = mesh.hosts[0]
        mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={old: "DRAINING"}))
        await wait_all_tasks_blocked()
        async with channel.rebalance_sessions(per_second=100, idle_for=0):
            await trio.sleep(30)
        assert on_hosts(sessions) == {old: 40}


async def test_sessions_of_a_pool_are_released_while_nobody_uses_them(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.sessions(max=8) as pool:
        for user in range(8):
            async with pool.session(user) as session:
                await ask(session)
        mesh.endpoints("cart", [*mesh.hosts, await mesh.add_host()])
        await wait_all_tasks_blocked()
        async with channel.rebalance_sessions(per_second=100, idle_for=1):
            await trio.sleep(10)
        assert sum(bool(cookies.pins) for cookies in channel._state.sessions.open) == 5


async def test_a_released_session_that_ends_is_counted_no_more(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, AsyncExitStack() as stack:
        for _ in range(8):
            await ask(await stack.enter_async_context(channel.session()))
        mesh.endpoints("cart", [*mesh.hosts, await mesh.add_host()])
        await wait_all_tasks_blocked()
        rebalancer = Rebalancer(channel._state.sessions, 100.0, 0.0, 0.0)
        rebalancer._credit = 100.0
        rebalancer.look(trio.current_time())
        assert len(rebalancer._released) == 4
        await stack.aclose()
        rebalancer.look(trio.current_time())
        assert rebalancer._released == {}


async def test_it_ends_with_its_block(autojump_clock):
    async with after_a_rollout() as (mesh, channel, sessions):
        async with channel.rebalance_sessions(per_second=1, idle_for=100):
            pass
        await trio.sleep(600)
        assert on_hosts(sessions) == {mesh.hosts[0]: 40}


async def test_a_bug_ends_its_block_with_an_internal_error(monkeypatch, caplog, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        monkeypatch.setattr(Rebalancer, "look", lambda self, now: 1 / 0)
        with pytest.raises(TrxdsInternalError, match="a bug in trxds ended"):
            async with channel.rebalance_sessions(per_second=1, idle_for=1):
                await trio.sleep(10)


async def test_the_blocks_own_exception_comes_out_unchanged(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(KeyError, match="mine"):
            async with channel.rebalance_sessions(per_second=1, idle_for=1):
                raise KeyError("mine")


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"per_second": 0, "idle_for": 1}, "per_second is 0"),
        ({"per_second": float("nan"), "idle_for": 1}, "per_second is nan"),
        ({"per_second": 1, "idle_for": -1}, "idle_for is -1"),
        ({"per_second": 1, "idle_for": 1, "tolerance": "10 %"}, "tolerance is '10 %'"),
    ],
)
async def test_numbers_that_make_no_sense_are_refused(numbers, problem, autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        with pytest.raises(ValueError, match=problem):
            async with channel.rebalance_sessions(**numbers):
                pass


def test_hosts_that_take_no_new_sessions_have_no_share():
    hosts = tuple(Endpoint((f"10.0.0.{n}:1",)) for n in range(1, 4))
    draining = Endpoint(("10.0.0.9:1",), HealthStatus.DRAINING)
    ready = frozenset({"10.0.0.1:1", "10.0.0.2:1", "10.0.0.9:1"})
    assert shares(Endpoints((*hosts, draining)), "", ready) == [(("10.0.0.1:1",), 0.5), (("10.0.0.2:1",), 0.5)]
