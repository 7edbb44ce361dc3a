"""What crosses in a session: late responses, moves and ends at the same time."""

import math
from contextlib import AsyncExitStack, suppress

import pytest
import trio
from support.mesh import Mesh, ask, bidi, method, spread
from support.outliers import EJECTION, broken
from support.sessions import in_cookie, in_header, listen, session_filter
from support.slow_hosts import slow
from trio.testing import wait_all_tasks_blocked

from trxds import Connectivity, Observer, RepinReason, RpcError, SessionDraining, StatusCode
from trxds.lb.override_host.host_table import HostTable
from trxds.testing import resources as xds

ALL_STATUSES = ["UNKNOWN", "HEALTHY", "DRAINING"]


async def at_once(session, count):
    """The hosts of so many calls that begin at once."""
    hosts = []

    async def call():
        hosts.append(await ask(session))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(call)
    return hosts


class TestLateResponses:
    async def test_a_first_stream_that_answers_late_does_not_take_the_session_away(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session(first_within=1) as session:
            async with bidi(session).open() as call:
                host = await ask(session)
                async with session.moving() as (_, new):
                    assert new.host != host
                await call.send(b"1")
                await call.receive()
            assert session.host == await ask(session) == new.host

    async def test_calls_that_leave_a_lost_host_together_are_one_move(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            mesh.endpoints("cart", [each for each in mesh.hosts if each != host])
            await wait_all_tasks_blocked()
            slow(mesh, 0.1)
            await at_once(session, 6)
            assert session._session.cookies.moves == 1

    async def test_a_session_that_returns_to_a_released_host_is_sticky_again(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            (host,) = mesh.hosts
            await ask(session)
            session.release()
            mesh.cluster("other")
            mesh.endpoints("other", [host])
            mesh.route("other")
            await wait_all_tasks_blocked()
            assert await ask(session) == host
            mesh.endpoints("other", [await mesh.add_host() for _ in range(3)])
            await wait_all_tasks_blocked()
            assert len(await spread(session, 9)) == 1

    async def test_a_response_from_before_a_release_does_not_let_the_next_calls_go(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel() as channel, channel.session() as session:
            async with bidi(session).open() as call:
                await call.send(b"1")
                await call.receive()
                session.release()
                slow(mesh, 1)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(at_once, session, 3)
                    await wait_all_tasks_blocked()
                    call.done_sending()
                    await call.receive()
                    hosts = await at_once(session, 3)
            assert set(hosts) == {session.host}

    async def test_a_first_stream_from_before_a_release_does_not_bring_its_host(self, autojump_clock):
        async with (
            Mesh.run(3) as mesh,
            mesh.channel() as channel,
            channel.session(first_within=1) as session,
            bidi(session).open() as call,
        ):
            await ask(session)
            session.release()
            await call.send(b"1")
            await call.receive()
            assert session.host is None

    async def test_a_release_of_another_cookie_leaves_a_call_its_own(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            cookies = (
                session_filter("f1", in_cookie("a", path="/shop.Cart")),
                session_filter("f2", in_cookie("b", path="/shop.Orders")),
            )
            listen(mesh, *cookies)
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                await method(session, "/shop.Orders/Get")(b"")
                first, second = session.hosts
                session.release(first)
                async with bidi(session).open() as call:
                    session.release(second)
                    await call.send(b"1")
                    host = (await call.receive()).decode().split()[0]
                assert session.hosts[first].host == host

    async def test_two_releases_leave_no_call_waiting(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            cookies = (
                session_filter("f1", in_cookie("a", path="/shop.Cart")),
                session_filter("f2", in_cookie("b", path="/shop.Orders")),
            )
            listen(mesh, *cookies)
            async with mesh.channel() as channel, channel.session(first_within=math.inf) as session:
                orders = method(session, "/shop.Orders/Get")
                await ask(session)
                await orders(b"")
                slow(mesh, 1)
                with trio.fail_after(10):
                    async with trio.open_nursery() as nursery:
                        first, second = session.hosts
                        session.release(first)
                        nursery.start_soon(at_once, session, 2)
                        await wait_all_tasks_blocked()
                        session.release(second)
                        nursery.start_soon(orders, b"")


class TestMovesAndEnds:
    async def test_a_session_does_not_move_to_an_ejected_host(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.plane.put({**xds.cluster("cart"), "outlier_detection": EJECTION})
            async with mesh.channel() as channel, channel.session() as session:
                good, bad = mesh.hosts
                while await ask(session) != good:
                    session.release()
                mesh.servers[bad].fallback = broken
                for _ in range(20):
                    with suppress(RpcError):
                        await ask(channel)
                await trio.sleep(3)
                with pytest.raises(RpcError, match="cannot leave"):
                    async with session.moving():
                        pass
                assert await ask(session) == good

    @pytest.mark.parametrize("bug", ["raises", "returns nothing"])
    async def test_a_bug_in_a_policy_fails_a_move_as_it_fails_a_call(self, bug, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            plane = channel._state.data_plane

            class Broken:
                def pick(self, call):
                    if bug == "raises":
                        raise KeyError("my own")

            plane.publish(plane.current.selector, Broken(), Connectivity.READY)
            with pytest.raises(RpcError) as raised:
                async with session.moving():
                    pass
            assert raised.value.status.code is StatusCode.INTERNAL
            assert session.host == host

    async def test_a_move_to_a_host_that_has_just_left_says_so(self, autojump_clock, monkeypatch):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            # As between two policies, of which one has the endpoints without the host and the other still gives it.
            monkeypatch.setattr(HostTable, "get", lambda *_: None)
            with pytest.raises(RpcError, match="cannot move: the host that was picked has just left its cluster"):
                async with session.moving():
                    raise AssertionError

    async def test_a_move_ends_with_its_session(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def move(session):
                with pytest.raises(RpcError) as raised:
                    async with session.moving():
                        pass
                assert raised.value.status.code is StatusCode.CANCELLED

            async with channel.session() as session:
                await ask(session)
                mesh.network.black_hole("10.0.1.9:50051")
                mesh.endpoints("cart", [*mesh.hosts, "10.0.1.9:50051"])
                await wait_all_tasks_blocked()
                nursery.start_soon(move, session)
                await wait_all_tasks_blocked()
            began = trio.current_time()
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()
            assert trio.current_time() == began

    async def test_a_block_that_outlives_its_session_leaves_nothing(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
            inside, leave = trio.Event(), trio.Event()

            async def move(session):
                async with session.moving():
                    inside.set()
                    await leave.wait()

            async with channel.session() as session:
                await ask(session)
                nursery.start_soon(move, session)
                await inside.wait()
            leave.set()
            await wait_all_tasks_blocked()
            assert channel._state.sessions.pinned.by_host == {}

    async def test_a_pool_that_closes_in_the_step_of_a_turn_opens_no_block(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def visit(pool):
                with pytest.raises(trio.ClosedResourceError):
                    async with pool.session("ben"):
                        raise AssertionError("the pool is closed")

            async with channel.sessions(max=1) as pool, pool.session("anna"):
                nursery.start_soon(visit, pool)
                await wait_all_tasks_blocked()

    async def test_a_session_is_not_rebalanced_while_it_moves(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(channel.session()) for _ in range(10)]
            for session in sessions:
                await ask(session)
            mesh.endpoints("cart", [*mesh.hosts, await mesh.add_host(), await mesh.add_host()])
            await ask(channel)
            await wait_all_tasks_blocked()
            async with channel.rebalance_sessions(per_second=10, idle_for=5), sessions[0].moving() as (old, _):
                await trio.sleep(30)
                assert sessions[0].host == await ask(sessions[0]) == old.host


class TestWhatSessionsLearn:
    async def test_an_observer_may_release_sessions_when_hosts_drain(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.cluster("cart", override_statuses=ALL_STATUSES)
            async with mesh.channel() as channel, channel.session() as one, channel.session() as two:

                class Releasing(Observer):
                    def session_changed(self, changed):
                        if changed.kind == "draining":
                            one.release()
                            two.release()

                hosts = [await ask(one), await ask(two)]
                with channel.observed_by(Releasing()):
                    mesh.endpoints("cart", xds.locality(*mesh.hosts, health=dict.fromkeys(hosts, "DRAINING")))
                    await wait_all_tasks_blocked()
                assert await ask(one) not in hosts

    async def test_a_drain_is_an_event_while_the_channel_is_idle(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.cluster("cart", override_statuses=ALL_STATUSES)
            async with mesh.channel(idle_timeout=10) as channel, channel.session() as session:
                host = await ask(session)
                await trio.sleep(20)
                mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
                with trio.fail_after(1):
                    assert isinstance(await session.wait_draining(), SessionDraining)

    async def test_a_health_that_changed_is_put_down_to_eds(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.cluster("cart", override_statuses=["HEALTHY"])
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "UNKNOWN"}))
                await wait_all_tasks_blocked()
                await spread(session, 2)  # round robin may give the same host once more
                move = session._session.cookies.last_move
                assert (move.reason, move.change) == (RepinReason.STATUS_NOT_ALLOWED, 'EDS resource "cart" version 2')

    async def test_a_draw_of_weighted_clusters_is_put_down_to_no_version(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            for cluster, host in zip(("one", "two"), mesh.hosts, strict=True):
                mesh.cluster(cluster)
                mesh.endpoints(cluster, [host])
            mesh.route({"one": 50, "two": 50})
            async with mesh.channel() as channel, channel.session() as session:
                await spread(session, 20)
                move = session._session.cookies.last_move
                assert (move.reason, move.change) == (RepinReason.CLUSTER_MISMATCH, "")
