"""What crosses in a session: late responses, changed cookies, moves and ends at the same time."""

import math
from contextlib import AsyncExitStack, suppress

import pytest
import trio
from support.mesh import Mesh, ask, bidi, method, spread
from support.outliers import EJECTION, broken
from support.sessions import b64, in_cookie, in_header, listen, session_filter, two_cookies
from trio.testing import wait_all_tasks_blocked

from trxds import Connectivity, CookieKey, Observer, RepinReason, RpcError, SessionDraining, SessionHost, StatusCode
from trxds.lb.override_host.host_table import HostTable
from trxds.testing import resources as xds

ALL_STATUSES = ["UNKNOWN", "HEALTHY", "DRAINING"]


def slow(mesh, seconds):
    """Let every host answer after so many seconds."""
    for address, server in mesh.servers.items():

        async def echo(call, address=address):
            async for _ in call:
                await trio.sleep(seconds)
                await call.send(address.encode())

        server.fallback = echo


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


class TestChangedCookies:
    async def test_a_session_moves_although_its_cookie_has_got_another_path(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.listen(path="/shop.Cart")
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                mesh.listen(path="/")
                await wait_all_tasks_blocked()
                async with session.moving() as (_, new):
                    pass
                assert set(await spread(session, 4)) == {session.host} == {new.host}

    async def test_a_session_moves_although_its_cookie_has_got_another_name(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            mesh.listen(cookie="one")
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                mesh.listen(cookie="two")
                await wait_all_tasks_blocked()
                async with session.moving() as (_, new):
                    pass
                assert await ask(session) == session.host == new.host

    async def test_a_session_whose_cookie_got_another_path_is_sticky_after_its_host_is_lost(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            mesh.listen(path="/shop.Cart")
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                mesh.listen(path="/")
                mesh.endpoints("cart", [each for each in mesh.hosts if each != host])
                await wait_all_tasks_blocked()
                assert len(await spread(session, 6)) == 1
                assert (session._session.cookies.moves, len(session.hosts)) == (1, 1)

    async def test_a_move_to_another_cluster_has_that_reason_although_the_cookie_has_got_another_path(
        self, autojump_clock
    ):
        async with Mesh.run(2) as mesh:
            mesh.listen(path="/shop.Cart")
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                mesh.cluster("orders")
                mesh.endpoints("orders", [each for each in mesh.hosts if each != host])
                mesh.route(xds.route("orders"))
                mesh.listen(path="/")
                await trio.sleep(1)
                assert await ask(session) != host
                assert session._session.cookies.last_move.reason is RepinReason.CLUSTER_MISMATCH

    async def test_a_cookie_of_a_longer_path_takes_no_host_away_from_the_other_routes(self, autojump_clock):
        async with Mesh.run(6) as mesh:
            two_cookies(mesh, in_cookie(path="/shop.Cart"), in_cookie(path="/"))
            async with mesh.channel() as channel, channel.session() as session:
                orders = method(session, "/shop.Orders/Get")
                host = await orders(b"")
                for _ in range(4):
                    await ask(session)
                    assert await orders(b"") == host

    async def test_a_session_has_a_host_for_each_of_two_nested_paths(self, autojump_clock):
        async with Mesh.run(6) as mesh:
            two_cookies(mesh, in_cookie(path="/shop.Cart"), in_cookie(path="/"))
            async with mesh.channel() as channel, channel.session() as session:
                orders = (await method(session, "/shop.Orders/Get")(b"")).decode()
                cart = await ask(session)
                assert session.hosts == {
                    CookieKey("session", "/"): SessionHost(orders, "orders"),
                    CookieKey("session", "/shop.Cart"): SessionHost(cart, "cart"),
                }
                assert session._session.cookies.moves == 0

    async def test_a_cookie_of_a_shorter_path_takes_no_host_away_from_one_of_another_name(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            cart, all_methods = in_cookie("a", path="/shop.Cart"), in_cookie("b", path="/")
            listen(mesh, session_filter("f1", all_methods), session_filter("f2", cart))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                assert set(session.hosts) == {CookieKey("a", "/shop.Cart"), CookieKey("b", "/")}

    async def test_bound_calls_stay_on_their_hosts_when_the_cookies_time_is_over(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            mesh.listen(ttl=10)
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving() as (old, new):
                    await trio.sleep(20)
                    assert set(await spread(old, 4)) == {old.host}
                    assert set(await spread(new, 4)) == {new.host}
                assert set(await spread(session, 4)) == {new.host}

    async def test_a_bound_call_that_fails_when_the_cookies_time_is_over_loses_no_host(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            mesh.listen(ttl=10)
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                slow(mesh, 5)
                async with session.moving() as (_, new):
                    await trio.sleep(20)
                    with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
                        await ask(new, timeout=1)
                assert session.host == await ask(session) == new.host

    async def test_bound_calls_do_not_follow_a_header_of_the_callers(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving() as (old, new):
                    assert await ask(new, metadata=[("x-session", b64(old.host))]) == new.host

    async def test_a_session_with_two_filters_on_a_route_moves_with_both(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, *(session_filter(name, in_cookie(name, path="/")) for name in ("a", "b")))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving(next(iter(session.hosts))) as (old, new):
                    assert new.host != old.host
                assert {at.host for at in session.hosts.values()} == {await ask(session)} == {new.host}

    async def test_a_session_with_two_header_filters_on_a_route_moves_with_both(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, *(session_filter(name, in_header(name)) for name in ("x-a", "x-b")))
            async with mesh.channel() as channel, channel.session() as session:
                await ask(session)
                async with session.moving(next(iter(session.hosts))) as (old, new):
                    assert new.host != old.host
                assert {at.host for at in session.hosts.values()} == {await ask(session)} == {new.host}

    async def test_a_server_cannot_make_a_session_remember_more_cookies_than_its_jar(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            (host,), numbers = mesh.hosts, iter(range(300))

            async def hostile(call):
                async for _ in call:
                    cookie = f"c{next(numbers)}={b64(f'{host};cart')}"
                    await call.send_initial_metadata([("set-cookie", cookie)])
                    await call.send(b"")

            mesh.servers[host].fallback = hostile
            for _ in range(200):
                await ask(session)
            assert len(session._session.cookies.pins) == 50


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
