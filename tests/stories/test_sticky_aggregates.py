"""With `sticky_aggregates` a session keeps its host in any leaf of an aggregate, as long as it can be used (A55)."""

import pytest
import trio
from support.aggregates import (
    RETENTION,
    fail,
    fail_back,
    fail_over,
    restore,
    runs,
    settled,
    two_leaves,
)
from support.mesh import Mesh, ask, bidi, spread
from support.sessions import in_header, listen, session_filter
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds.admin import state_stream
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds


def move_of(session):
    record = session._session.cookies
    return record.moves, record.last_move and record.last_move.reason


def cookie(host):
    return {"metadata": [("cookie", f"session={encode(host, 'both')}")]}


# -- staying


async def test_a_session_of_the_fallback_leaf_stays_when_the_primary_returns(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        assert host in ys
        await fail_back(mesh, xs)
        assert set(await spread(session, 10)) == {host}
        assert mesh.network.attempts[host] == 1, "it has kept its connection"


async def test_new_sessions_and_calls_without_one_go_to_the_primary_when_it_returns(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        assert set(await spread(channel, 10)) == set(xs)
        async with channel.session() as later:
            assert await ask(later) in xs


async def test_without_sticky_aggregates_the_session_moves_and_the_tree_has_priority(autojump_clock):
    async with two_leaves(sticky_aggregates=False) as (mesh, channel, xs, ys), channel.session() as session:
        assert await fail_over(mesh, session, xs) in ys
        await fail_back(mesh, xs)
        assert await ask(session) in xs
        assert move_of(session) == (1, RepinReason.UNKNOWN_HOST)
        steps = (await channel.explain("/shop.Cart/Add")).steps
        assert steps[2].path == "cluster_manager/both/priority"


async def test_a_session_of_a_header_stays_in_the_fallback_leaf_too(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        listen(mesh, session_filter(state=in_header("x-session")))
        async with channel.session() as session:
            host = await fail_over(mesh, session, xs)
            assert host in ys
            await fail_back(mesh, xs)
            assert set(await spread(session, 5)) == {host}


async def test_a_session_stays_while_its_host_moves_from_leaf_to_leaf(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        mesh.endpoints("x", [*xs, host])
        mesh.endpoints("y", [other for other in ys if other != host])
        await settled()
        assert set(await spread(session, 5)) == {host}
        assert mesh.network.attempts[host] == 1


async def test_a_session_stays_when_the_clusters_of_its_aggregate_change_places(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await ask(session)
        mesh.plane.put(xds.aggregate("both", "y", "x"))
        await settled()
        assert set(await spread(channel, 4)) == set(ys)
        assert set(await spread(session, 4)) == {host} <= set(xs)


async def test_a_stream_of_the_fallback_leaf_goes_on_when_the_primary_returns(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        fail(mesh, xs)
        async with channel.session() as session, bidi(session).open() as call:
            await call.send(b"one")
            await call.receive()
            assert call.peer in ys
            await fail_back(mesh, xs)
            await call.send(b"two")
            assert await call.receive() == f"{call.peer} two".encode()


async def test_a_draining_host_of_the_fallback_leaf_keeps_its_session_after_a_failback(autojump_clock):
    statuses = ["UNKNOWN", "HEALTHY", "DRAINING"]
    async with two_leaves(statuses=statuses) as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        mesh.endpoints("y", xds.locality(*ys, health={host: "DRAINING"}))
        await settled()
        assert set(await spread(session, 5)) == {host}


# -- moving, by A75's rules


async def test_a_session_of_the_fallback_leaf_moves_when_its_host_is_removed(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        mesh.endpoints("y", [other for other in ys if other != host])
        await settled()
        assert await ask(session) in xs
        assert move_of(session) == (1, RepinReason.UNKNOWN_HOST)


async def test_a_session_of_the_fallback_leaf_moves_when_its_host_is_down(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        fail(mesh, [host])
        await settled()
        assert await ask(session) in xs
        assert move_of(session) == (1, RepinReason.NOT_READY)


async def test_a_session_of_the_fallback_leaf_moves_when_its_hosts_health_is_not_allowed(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        mesh.cluster("y", override_statuses=["DRAINING"])
        await settled()
        assert await ask(session) in xs
        assert move_of(session) == (1, RepinReason.STATUS_NOT_ALLOWED)


async def test_a_session_of_the_primary_moves_when_the_primary_fails_over(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        assert await ask(session) in xs
        assert await fail_over(mesh, session, xs) in ys
        assert move_of(session) == (1, RepinReason.NOT_READY)


async def test_a_session_of_a_primary_that_does_not_answer_moves_after_ten_seconds(autojump_clock):
    async with two_leaves(each=1) as (mesh, channel, (x,), (y,)), channel.session() as session:
        await ask(session)
        mesh.network.black_hole(x)
        mesh.network.cut(x)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        assert await ask(session) == y
        assert trio.current_time() - began == pytest.approx(10, abs=0.5)
        assert move_of(session) == (1, RepinReason.NOT_READY)


async def test_a_cookie_connects_its_draining_host_of_a_primary_that_has_only_draining_ones(autojump_clock):
    statuses = ["UNKNOWN", "HEALTHY", "DRAINING"]
    async with two_leaves(statuses=statuses) as (mesh, channel, xs, ys):
        mesh.endpoints("x", xds.locality(*xs, health=dict.fromkeys(xs, "DRAINING")))
        assert await ask(channel) in ys
        assert mesh.network.attempts[xs[0]] == 0
        assert await ask(channel, **cookie(xs[0])) == xs[0]


async def test_a_session_moves_when_its_leaf_leaves_the_aggregate(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        assert await fail_over(mesh, session, xs) in ys
        await fail_back(mesh, xs)
        mesh.plane.put(xds.aggregate("both", "x"))
        await settled()
        assert not runs("y")
        assert await ask(session) in xs
        assert move_of(session) == (1, RepinReason.UNKNOWN_HOST)


async def test_a_session_waits_for_its_host_of_the_fallback_leaf_that_reconnects(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        mesh.network.cut(host)
        await wait_all_tasks_blocked()
        assert await ask(session) == host
        assert mesh.network.attempts[host] == 2


async def test_no_call_of_a_session_fails_during_failover_and_failback(nursery, autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        met = []

        async def traffic():
            while True:
                met.append(await ask(session))
                await trio.sleep(1)

        nursery.start_soon(traffic)
        await trio.sleep(10.5)  # between two calls: one that is under way would fail
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        nursery.cancel_scope.cancel()
    assert met[0] in xs and met[-1] in ys
    assert len(set(met)) == 2, "it has moved once"


# -- strict sessions


async def strict_leaves(mesh):
    listen(mesh, session_filter(state=in_header("x-session"), strict=True))


async def test_a_strict_session_stays_in_the_fallback_leaf(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        await strict_leaves(mesh)
        async with channel.session() as session:
            host = await fail_over(mesh, session, xs)
            assert host in ys
            await fail_back(mesh, xs)
            assert set(await spread(session, 5)) == {host}


async def test_a_strict_session_fails_when_no_leaf_can_use_its_host(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _):
        await strict_leaves(mesh)
        async with channel.session() as session:
            host = await fail_over(mesh, session, xs)
            await fail_back(mesh, xs)
            fail(mesh, [host])
            await settled()
            with pytest.raises(trxds.RpcError, match=f"none of the session's hosts can be used: {host}"):
                await ask(session)
            restore(mesh, [host])
            await trio.sleep(200)
            assert await ask(session) == host


# -- a leaf that does not run


async def test_a_cookie_starts_the_leaf_of_its_host(autojump_clock):
    async with two_leaves() as (_, channel, xs, ys):
        assert await ask(channel) in xs
        assert not runs("y")
        assert set(await spread(channel, 5, **cookie(ys[1]))) == {ys[1]}
        assert runs("y")
        assert set(await spread(channel, 5)) == set(xs), "other calls stay in the primary"


async def test_a_cookie_reaches_its_leaf_as_the_first_call_of_a_channel(autojump_clock):
    async with two_leaves() as (_, channel, _, ys):
        assert await ask(channel, **cookie(ys[1])) == ys[1]


async def test_many_calls_with_cookies_start_their_leaf_once(autojump_clock):
    async with two_leaves() as (mesh, channel, _, ys):
        await ask(channel)
        met = []

        async def call(host):
            met.append((host, await ask(channel, **cookie(host))))

        async with trio.open_nursery() as calls:
            for number in range(20):
                calls.start_soon(call, ys[number % 2])
        assert all(host == reached for host, reached in met) and len(met) == 20
        assert [mesh.network.attempts[host] for host in ys] == [1, 1]


async def test_a_cookie_of_a_host_that_no_leaf_has_starts_no_leaf(autojump_clock):
    async with two_leaves() as (_, channel, xs, _):
        assert await ask(channel, **cookie("10.9.9.9:1")) in xs
        assert not runs("y")


async def test_a_cookie_of_a_host_whose_health_is_not_allowed_starts_no_leaf(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        mesh.endpoints("y", xds.locality(*ys, health={ys[0]: "DRAINING", ys[1]: "UNHEALTHY"}))
        await ask(channel)
        for host in ys:
            assert await ask(channel, **cookie(host)) in xs
        assert not runs("y")


async def test_a_leaf_whose_cookies_host_is_down_gives_the_call_back_to_the_primary(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        await ask(channel)
        fail(mesh, ys)
        assert await ask(channel, **cookie(ys[0])) in xs


async def test_a_leaf_that_a_cancelled_call_started_ends_a_moment_later(autojump_clock):
    async with two_leaves() as (mesh, channel, _, ys):
        await ask(channel)
        mesh.endpoints("y", [*ys])
        with trio.move_on_after(0) as scope:
            scope.cancel()
            await ask(channel, **cookie(ys[0]))
        await trio.sleep(10)
        assert not runs("y")


async def test_an_explanation_starts_no_leaf_and_says_that_a_call_would(autojump_clock):
    async with two_leaves() as (_, channel, _, ys):
        await ask(channel)
        explained = await channel.explain("/shop.Cart/Add", cookie(ys[0])["metadata"])
        await settled()
        assert not runs("y")
        step = explained.steps[-1]
        assert step.path == "cluster_manager/both/sticky_priority"
        assert step.why == "cluster y has the host of the session and does not run, so it is started"
        assert f"{ys[0]} is HEALTHY, and cluster y does not run" in step.saw


# -- what a person sees


async def test_an_explanation_says_that_another_leaf_has_the_host_of_the_session(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, ys):
        await fail_over(mesh, channel, xs)
        await fail_back(mesh, xs)
        await ask(channel, **cookie(ys[0]))
        explained = await channel.explain("/shop.Cart/Add", cookie(ys[0])["metadata"])
        step = explained.steps[2]
        assert (step.chose, step.why) == ("y", "it has the host of the session")
        assert explained.outcome.address == ys[0]
        plain = await channel.explain("/shop.Cart/Add")
        assert (plain.steps[2].chose, plain.steps[2].why) == ("x", "the first that is READY or IDLE")


async def test_the_description_of_the_policy_names_the_leaves_that_sessions_use(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        await trio.sleep(RETENTION)
        explained = await channel.explain("/shop.Cart/Add")
        assert explained.steps[2].saw == "x READY, y READY; sessions use y"


async def test_the_state_stream_has_the_session_at_its_host_in_the_leaf_that_only_sessions_use(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, _), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        await fail_back(mesh, xs)
        async with state_stream.open(channel) as opened:
            row = (await opened.snapshot())["endpoints"][f"shop/y/{host}"]
        assert (row["state"], row["sessions"]) == ("READY", 1)


# -- channels


def test_sticky_aggregates_need_an_xds_target():
    async def main():
        async with trxds.open_channel("dns:///cart", sticky_aggregates=True):
            pass

    with pytest.raises(ValueError, match="sticky_aggregates cannot be used with the target 'dns:///cart'"):
        trio.run(main)


async def test_two_channels_of_one_xds_client_may_differ_in_sticky_aggregates(autojump_clock):
    async with Mesh.run(2) as mesh:
        (x,), (y,) = mesh.hosts[:1], mesh.hosts[1:]
        for cluster, host in (("x", x), ("y", y)):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client:
            shared = {"xds": client, "network": mesh.network}
            async with (
                trxds.open_channel("xds:///shop", sticky_aggregates=True, **shared) as sticky,
                trxds.open_channel("xds:///shop", **shared) as plain,
            ):
                assert await ask(sticky, **cookie(y)) == y
                assert await ask(plain, **cookie(y)) == x
