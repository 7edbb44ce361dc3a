"""A session travels as a token: to another channel, to another process, and over a restart."""

from __future__ import annotations

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, method, spread
from support.sessions import b64, in_cookie, in_header, listen, session_filter, two_cookies
from support.tokens import KEY, NOON, contents, exported, on_wall_clock, token_of
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.testing import resources as xds

OTHER = "/shop.Cart/Remove"


class TestContinue:
    async def test_a_token_continues_the_session_in_another_channel(self, autojump_clock):
        async with Mesh.run(8) as mesh:
            token, host = await exported(mesh)
            for _ in range(5):
                async with mesh.channel() as channel, channel.session(token) as session:
                    assert await spread(session, 3) == {host: 3}

    async def test_a_continued_session_knows_its_host_before_its_first_call(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            token, host = await exported(mesh)
            async with mesh.channel() as channel, channel.session(token) as session:
                assert session.hosts == {trxds.CookieKey("session", "/"): trxds.SessionHost(host, "cart")}
                assert (session.host, session.cluster, session.calls) == (host, "cart", 0)
                assert repr(session) == f"<Session 1 of xds:///shop on {host}, 0 calls>"

    async def test_no_call_of_a_continued_session_waits_for_the_first(self, autojump_clock, nursery):
        async with Mesh.run(2) as mesh:
            token, host = await exported(mesh)
            async with mesh.channel() as channel, channel.session(token) as session:
                kind = session.method(METHOD, client_streaming=True, server_streaming=True)
                async with kind.open():  # a stream to which the host says nothing
                    began = trio.current_time()
                    assert await ask(session) == host
                    assert trio.current_time() == began

    async def test_a_token_is_one_line_that_fits_a_cookie_a_header_and_a_url(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            for key in (None, KEY):
                token, _ = await exported(mesh, key=key)
                assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
                assert len(token) < 300

    async def test_a_continued_session_can_be_exported_again(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            token, host = await exported(mesh)
            for _ in range(3):
                async with mesh.channel() as channel, channel.session(token) as session:
                    assert session.export() == token
            async with mesh.channel() as channel, channel.session(token) as session:
                assert await ask(session) == host

    async def test_a_call_tells_nothing_of_a_cookie_of_another_cluster_with_the_same_host(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            two_cookies(mesh, in_cookie("one", path="/"), in_cookie("two", path="/"))
            mesh.endpoints("orders", mesh.hosts[:1])
            async with mesh.channel() as channel:
                async with channel.session() as session:
                    await ask(session)
                    await method(session, "/shop.Orders/Get")(b"")
                    token, hosts = session.export(), session.hosts
                async with channel.session(token) as session:
                    await ask(session)
                    assert session.hosts == hosts

    async def test_each_cookie_is_completed_by_the_first_call_that_sends_it(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            two_cookies(mesh, in_cookie("one", path="/"), in_cookie("two", path="/"))
            async with mesh.channel() as channel:
                async with channel.session() as session:
                    await ask(session)
                    await method(session, "/shop.Orders/Get")(b"")
                    token = session.export()
                async with channel.session(token) as session:
                    await ask(session)
                    await method(session, "/shop.Orders/Get")(b"")
                    for name, cluster in (("one", "cart"), ("two", "orders")):
                        async with session.moving(trxds.CookieKey(name, "/")) as (old, _):
                            assert old.cluster == cluster

    async def test_a_call_does_not_complete_a_cookie_of_another_host_of_its_cluster(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            two_cookies(mesh, in_cookie("one", path="/"), in_cookie("two", path="/"))
            mesh.endpoints("cart", mesh.hosts)
            named = zip(("one", "two"), mesh.hosts, strict=True)
            token = token_of(cookies=[[name, "/", b64(f"{host};cart"), None] for name, host in named])
            async with mesh.channel() as channel, channel.session(token) as session:
                assert await ask(session) == mesh.hosts[0]
                with pytest.raises(ValueError, match="has not used the cookie since it was imported"):
                    async with session.moving(trxds.CookieKey("two", "/")):
                        pass

    @pytest.mark.parametrize("cluster", ["cluster:cart", '"cart"'])
    async def test_a_call_completes_a_cookie_whatever_form_its_clusters_name_has(self, cluster, autojump_clock):
        async with Mesh.run(2) as mesh:
            host = mesh.hosts[0]
            token = token_of(cookies=[["session", "/", b64(f"{host};{cluster}"), None]])
            async with mesh.channel() as channel, channel.session(token) as session:
                assert await ask(session) == host
                async with session.moving() as (old, _):
                    assert (old.host, old.cluster) == (host, "cart")

    async def test_a_cookie_that_was_not_used_since_the_import_cannot_be_moved(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            cookies = {path: in_cookie(path=path) for path in ("/shop.Cart", "/shop.Orders")}
            listen(mesh, *(session_filter(path, state) for path, state in cookies.items()))
            mesh.endpoints("cart", mesh.hosts[:1])  # one host, which both cookies name
            async with mesh.channel() as channel:
                async with channel.session() as session:
                    await ask(session)
                    await method(session, "/shop.Orders/Get")(b"")
                    token = session.export()
                async with channel.session(token) as session:
                    await ask(session)
                    with pytest.raises(ValueError, match="has not used the cookie since it was imported"):
                        async with session.moving(trxds.CookieKey("session", "/shop.Orders")):
                            pass

    async def test_several_cookies_travel(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            first, second = mesh.hosts
            mesh.listen(path=METHOD)
            mesh.route(xds.route("cart", prefix=METHOD), xds.route("orders"))
            mesh.cluster("orders")
            mesh.endpoints("cart", [first])
            mesh.endpoints("orders", [second])
            await ask(session, wait_for_ready=True)
            mesh.listen(path=OTHER)
            await wait_all_tasks_blocked()
            await method(session, OTHER)(b"", wait_for_ready=True)
            async with channel.session(session.export()) as continued:
                assert continued.hosts == session.hosts and len(session.hosts) == 2

    async def test_a_session_by_header_travels(self, autojump_clock):
        async with Mesh.run(5) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            token, host = await exported(mesh)
            async with mesh.channel() as channel, channel.session(token) as session:
                assert session.host == host
                assert await spread(session, 5) == {host: 5}
                assert (session._session.cookies.moves, session.cluster) == (0, "cart")

    async def test_a_session_without_a_response_exports_a_token_that_begins_anew(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                token = session.export()
            assert contents(token) == {"target": "xds:///shop", "cookies": [], "headers": []}
            async with channel.session(token) as session:
                assert session.host is None
                assert len(await spread(session, 5)) == 1

    async def test_a_session_can_be_exported_after_its_block(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                host = await ask(session)
            async with channel.session(session.export()) as continued:
                assert continued.host == host

    async def test_no_token_begins_a_new_session_also_with_a_key(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session(None, key=KEY) as session:
            assert session.host is None

    async def test_a_continued_session_moves_when_its_host_is_gone_and_says_why(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            token, old = await exported(mesh)
            mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
            async with mesh.channel() as channel, channel.session(token) as session:
                new = await ask(session)
                move = session._session.cookies.last_move
                assert (move.old.host, move.new.host, move.reason) == (old, new, RepinReason.UNKNOWN_HOST)
                assert session.host == new != old

    async def test_a_continued_session_by_header_moves_for_the_right_reason(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, session_filter(state=in_header("x-session")))
            token, old = await exported(mesh)
            mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
            async with mesh.channel() as channel, channel.session(token) as session:
                await ask(session)
                assert session._session.cookies.last_move.reason is RepinReason.UNKNOWN_HOST

    async def test_the_admin_surface_shows_the_host_of_a_continued_session_at_once(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            token, host = await exported(mesh)
            async with mesh.channel() as channel, channel.session(token):
                (cookies,) = channel.admin_view().sessions
                assert (cookies.host, cookies.cluster, cookies.moves) == (host, "cart", 0)


class TestContents:
    async def test_a_token_has_no_cookie_of_the_application(self, autojump_clock):
        async def answer(call):
            names_a_host = b64("10.0.0.9:1;cart")
            own = [("set-cookie", "user=alice"), ("set-cookie", f"peer={names_a_host}"), ("x-own", "1")]
            await call.send_initial_metadata(own)
            async for message in call:
                await call.send(message)

        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            mesh.servers[mesh.hosts[0]].fallback = answer
            await method(session)(b"", metadata=[("authorization", "Bearer x"), ("cookie", "mine=1")])
            assert set(session.hosts) == {("session", "/"), ("peer", "")}
            (cookie,) = contents(session.export())["cookies"]
            assert cookie == ["session", "/", b64(f"{mesh.hosts[0]};cart"), None]
            assert contents(session.export())["headers"] == []

    async def test_the_expiry_travels_in_wall_clock_time(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.listen(ttl=60)
            await trio.sleep(5)
            token, _ = await exported(mesh)
            (cookie,) = contents(token)["cookies"]
            assert cookie[3] == pytest.approx(NOON + trio.current_time() + 60)

    async def test_a_token_outlives_a_restart_until_its_cookie_expires(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            mesh.listen(ttl=3600)
            token, host = await exported(mesh)
            await trio.sleep(3590)
            async with mesh.channel() as channel:
                on_wall_clock(channel)
                async with channel.session(token) as session:
                    assert await ask(session) == host
                    await trio.sleep(20)
                    assert session.host is None

    async def test_a_session_whose_time_is_over_begins_anew(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            mesh.listen(ttl=60)
            token, _ = await exported(mesh)
            await trio.sleep(61)
            async with mesh.channel() as channel:
                on_wall_clock(channel)
                async with channel.session(token) as session:
                    assert session.host is None
                    assert len(await spread(session, 8)) == 1
                    assert session._session.cookies.moves == 0

    @pytest.mark.parametrize(("skew", "left"), [(-30, 90), (0, 60), (30, 30), (90, 0)])
    async def test_a_clock_that_is_ahead_ends_a_continued_session_so_much_earlier(self, skew, left, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.listen(ttl=60)
            token, host = await exported(mesh)
            async with mesh.channel() as channel:
                on_wall_clock(channel, skew)
                async with channel.session(token) as session:
                    for after, at in ((left - 1, host), (2, None)):
                        await trio.sleep(max(after, 0))
                        assert session.host == (at if left else None)


class TestHosts:
    @pytest.mark.parametrize("cluster", ["cart", "", "elsewhere"])
    async def test_only_hosts_of_the_configuration_in_force_can_be_reached(self, cluster, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            foreign = await mesh.add_host()
            token = token_of(cookies=[["session", "/", b64(f"{foreign};{cluster}"), None]])
            async with channel.session(token) as session:
                new = await ask(session)
                assert new in mesh.hosts[:2]
                move = session._session.cookies.last_move
                reason = RepinReason.CLUSTER_MISMATCH if cluster == "elsewhere" else RepinReason.UNKNOWN_HOST
                assert (move.old.host, move.new.host, move.reason) == (foreign, new, reason)
                assert session.host == new
            assert mesh.servers[foreign].calls == []


class TestObserved:
    async def test_observers_hear_of_a_continued_sessions_move_and_not_of_its_host(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            token, old = await exported(mesh)
            async with mesh.channel() as channel, channel.session(token) as session:
                with channel.observed_by(watcher := Watcher()):
                    await ask(session)
                    mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
                    await wait_all_tasks_blocked()
                    new = await ask(session)
                assert watcher.of("session-pick", "settled") == [
                    "session-pick hit",
                    "session-pick fallback unknown_host",
                    f"settled on {new} of cart from {old}: unknown_host",
                ]
