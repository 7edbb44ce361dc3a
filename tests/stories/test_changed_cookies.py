"""The cookie of a session changes while calls are under way."""

import pytest
import trio
from support.mesh import Mesh, ask, method, spread
from support.sessions import b64, in_cookie, in_header, listen, session_filter, two_cookies
from support.slow_hosts import slow
from trio.testing import wait_all_tasks_blocked

from trxds import CookieKey, RepinReason, RpcError, SessionHost
from trxds.testing import resources as xds


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
