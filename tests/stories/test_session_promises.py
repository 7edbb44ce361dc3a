"""What a session promises: it is never silently not sticky, it ends with its block, and it never waits for itself."""

import logging
import math
from contextlib import AsyncExitStack

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, method, spread
from support.sessions import STATES, in_cookie, listen, session_filter
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError, StatusCode
from trxds.testing import MemoryNetwork, serve
from trxds.testing import resources as xds

OTHER = "/shop.Cart/Remove"


def warned(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


class TestNeverSilentlyNotSticky:
    async def test_a_session_without_a_filter_is_logged_once_for_each_method(self, caplog, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            for _ in range(2):
                async with channel.session() as session:
                    await spread(session, 3)
                    await method(session, OTHER)(b"")
        remedy = "add envoy.filters.http.stateful_session to the http_filters of the Listener"
        first, second = warned(caplog)
        assert first.startswith(f"xds:///shop: calls of sessions to {METHOD} are not sticky: ") and remedy in first
        assert second.startswith(f"xds:///shop: calls of sessions to {OTHER} are not sticky: ")

    async def test_calls_outside_of_sessions_need_no_filter(self, caplog, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            await ask(channel)
            assert channel.admin_view().warnings == ()
        assert warned(caplog) == []

    async def test_a_cookie_path_that_does_not_cover_the_method_is_named(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            mesh.listen(path="/shop.Orders")
            await ask(session, wait_for_ready=True)
        (warning,) = warned(caplog)
        assert warning.endswith(
            "the session filter's cookie has the path /shop.Orders, which does not cover the method; set it to /"
        )

    @pytest.mark.parametrize("name", ["a=b", "a;b", " a", "a\nb", "caf\u00e9", "a" * 4097])
    async def test_a_cookie_name_that_no_client_sends_back_is_named(self, name, caplog, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.listen(cookie=name)
            async with mesh.channel() as channel, channel.session() as session:
                await spread(session, 2)
        (warning,) = warned(caplog)
        why = f"the session filter's cookie has the name {name[:50]!r}, which no client sends back"
        assert warning.endswith(f"are not sticky: {why}; use a few letters and digits")

    async def test_a_ttl_that_ends_the_cookie_at_once_is_named(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.listen(ttl=0.5)
            async with mesh.channel() as channel, channel.session() as session:
                await spread(session, 2)
        (warning,) = warned(caplog)
        assert warning.endswith("the session filter's cookie has the ttl 0.5 s, which ends it at once; set 1s or more")

    async def test_a_session_that_must_be_sticky_fails_if_its_cookie_would_not_come_back(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.listen(cookie="a=b")
            async with mesh.channel() as channel, channel.session(require=True) as session:
                with pytest.raises(RpcError, match="the session cannot be sticky: the session filter's cookie has the"):
                    await ask(session, wait_for_ready=True)

    async def test_one_of_two_cookies_that_comes_back_is_enough(self, caplog, autojump_clock):
        async with Mesh.run(3) as mesh:
            listen(mesh, *(session_filter(name, in_cookie(name)) for name in ("a=b", "good")))
            async with mesh.channel() as channel, channel.session(require=True) as session:
                assert len(await spread(session, 6)) == 1
        assert warned(caplog) == []

    async def test_a_variable_that_switches_sessions_off_is_named(self, caplog, monkeypatch, autojump_clock):
        monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_ENABLE_OVERRIDE_HOST", "false")
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
        (warning,) = warned(caplog)
        assert warning.endswith("is false in the environment, which switches sessions off; unset it")

    async def test_a_target_without_a_control_plane_cannot_be_sticky(self, caplog, autojump_clock):
        async def echo(call):
            async for message in call:
                await call.send(message)

        network = MemoryNetwork()
        async with (
            serve(fallback=echo, address="10.0.0.1:1", network=network),
            trxds.open_channel("ipv4:10.0.0.1:1", network=network) as channel,
            channel.session() as session,
        ):
            await method(session)(b"")
        (warning,) = warned(caplog)
        assert "are not sticky: the target has no control plane" in warning

    async def test_the_log_names_at_most_a_hundred_methods(self, caplog, autojump_clock):
        async with (
            Mesh.run(1, sessions=False) as mesh,
            mesh.channel() as channel,
            channel.session() as session,
        ):
            for number in range(120):
                await method(session, f"/shop.Cart/M{number}")(b"")
            assert len(channel.admin_view().warnings) == 100
        assert len(warned(caplog)) == 100

    async def test_the_admin_surface_warns_until_the_calls_are_sticky(self, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            (warning,) = channel.admin_view().warnings
            assert warning.startswith(f"calls of sessions to {METHOD} are not sticky: ")
            mesh.listen()
            await wait_all_tasks_blocked()
            await ask(session)
            assert channel.admin_view().warnings == ()

    async def test_the_reason_follows_the_configuration(self, autojump_clock):
        async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            mesh.listen(path="/shop.Orders")
            await wait_all_tasks_blocked()
            await ask(session)
            (warning,) = channel.admin_view().warnings
            assert "has the path /shop.Orders, which does not cover the method" in warning

    async def test_a_session_that_must_be_sticky_fails_without_a_filter_and_sends_nothing(self, autojump_clock):
        async with (
            Mesh.run(2, sessions=False) as mesh,
            mesh.channel() as channel,
            channel.session(require=True) as session,
        ):
            with pytest.raises(RpcError) as raised:
                await ask(session, wait_for_ready=True)
            assert raised.value.status.code is StatusCode.UNAVAILABLE
            assert raised.value.status.message.startswith(f"{METHOD}: the session cannot be sticky: the route has no")
            assert [server.calls for server in mesh.servers.values()] == [[], []]

    async def test_a_session_that_must_be_sticky_works_with_a_filter(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session(require=True) as session:
            assert len(await spread(session, 10)) == 1

    async def test_a_session_is_sticky_whatever_cookies_its_backend_sets(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            for address, server in mesh.servers.items():

                async def own(call, address=address):
                    await call.send_initial_metadata([("set-cookie", f"id{n}={'x' * 400}") for n in range(60)])
                    async for _ in call:
                        await call.send(address.encode())

                server.fallback = own
            async with mesh.channel() as channel, channel.session(require=True) as session:
                assert len(await spread(session, 6)) == 1


class TestSeen:
    async def test_a_session_has_no_host_before_its_first_response(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            assert (session.hosts, session.host, session.cluster, session.calls) == ({}, None, None, 0)
            assert repr(session) == "<Session 1 of xds:///shop on no host yet, 0 calls>"

    async def test_a_session_knows_its_host_and_cluster_after_the_first_response(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await trio.sleep(3)
            async with channel.session() as session:
                host = await ask(session)
                assert session.hosts == {trxds.CookieKey("session", "/"): trxds.SessionHost(host, "cart")}
                assert (session.host, session.cluster, session.calls) == (host, "cart", 1)
                assert session.since == trio.current_time()
                assert repr(session) == f"<Session 1 of xds:///shop on {host}, 1 call>"
            assert repr(session) == "<Session 1 of xds:///shop closed, 1 call>"

    async def test_a_session_by_header_has_a_host_and_a_cluster(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            state = {"@type": f"{STATES}.header.v3.HeaderBasedSessionState", "name": "x-session"}
            mesh.plane.put(xds.listener("shop", routes="routes", filters=[session_filter(state=state)]))
            await ask(session, wait_for_ready=True)
            assert session.hosts == {trxds.CookieKey("x-session", ""): trxds.SessionHost(mesh.hosts[0], "cart")}
            assert (session.host, session.cluster) == (mesh.hosts[0], "cart")

    async def test_a_session_with_two_cookies_has_two_hosts_and_not_one(self, autojump_clock):
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
            cart, orders = trxds.CookieKey("session", METHOD), trxds.CookieKey("session", OTHER)
            assert session.hosts == {
                cart: trxds.SessionHost(first, "cart"),
                orders: trxds.SessionHost(second, "orders"),
            }
            with pytest.raises(ValueError, match=r"the session has several hosts, so ask session\.hosts: session "):
                _ = session.host

    async def test_an_applications_own_cookie_is_no_host(self, autojump_clock):
        async def answer(call):
            await call.send_initial_metadata([("set-cookie", "user=alice; Path=/")])
            async for message in call:
                await call.send(message)

        network = MemoryNetwork()
        async with (
            serve(fallback=answer, address="10.0.0.1:1", network=network),
            trxds.open_channel("ipv4:10.0.0.1:1", network=network) as channel,
            channel.session() as session,
        ):
            await method(session)(b"")
            assert (session.hosts, session.host) == ({}, None)
            assert "alice" not in repr(session)


class TestEnd:
    async def test_a_call_after_the_block_raises_closed_resource_error(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                await ask(session)
            with pytest.raises(trio.ClosedResourceError, match="the session's block is over"):
                await ask(session)
            await ask(channel)

    async def test_a_stream_that_is_open_when_the_block_ends_is_cancelled(self, autojump_clock, nursery):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            ended = trio.Event()

            async def talk(session, task_status):
                with pytest.raises(RpcError) as raised:
                    async with bidi(session).open() as call:
                        await call.send(b"")
                        await call.receive()
                        task_status.started()
                        await call.receive()
                assert raised.value.status == trxds.Status(StatusCode.CANCELLED, "session closed")
                ended.set()

            async with channel.session() as session:
                await nursery.start(talk, session)
            with trio.fail_after(1):
                await ended.wait()

    async def test_a_unary_call_that_waits_when_the_block_ends_is_cancelled(self, autojump_clock, nursery):
        async with Mesh.run(0) as mesh, mesh.channel() as channel:
            ended = trio.Event()

            async def wait(session):
                with pytest.raises(RpcError, match="session closed"):
                    await ask(session, wait_for_ready=True)
                ended.set()

            async with channel.session() as session:
                nursery.start_soon(wait, session)
                await wait_all_tasks_blocked()
            with trio.fail_after(1):
                await ended.wait()

    async def test_a_stream_of_an_ended_session_is_in_flight_no_more_while_its_own_block_goes_on(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, AsyncExitStack() as later:
            mesh.plane.put({**xds.cluster("cart"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
            async with channel.session() as session:
                await later.enter_async_context(bidi(session).open(b"a"))
                with pytest.raises(RpcError, match="max_requests"):
                    await ask(channel)
            await ask(channel)

    async def test_calls_outside_of_the_session_go_on_when_it_ends(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open() as call:
            async with channel.session() as session:
                await ask(session)
            await call.send(b"still here")
            assert await call.receive() == f"{mesh.hosts[0]} still here".encode()


class TestNoSessionWaitsForItself:
    async def silent_first_call(self, session, task_status=trio.TASK_STATUS_IGNORED):
        """A stream to which the server says nothing, not even headers."""
        async with bidi(session).open() as call:
            task_status.started()
            await call.receive()

    async def test_calls_go_on_five_seconds_after_a_silent_first_one(self, caplog, autojump_clock, nursery):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            async with channel.session() as session:
                await nursery.start(self.silent_first_call, session)
                began = trio.current_time()
                await ask(session)
                assert trio.current_time() - began == pytest.approx(5)
                (warning,) = warned(caplog)
                assert "no response headers for 1 s. They go on 5 s after they began." in warning
                assert "wait_for_first=False" in warning
                nursery.cancel_scope.cancel()

    async def test_a_session_whose_calls_wait_warns_once(self, caplog, autojump_clock, nursery):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            await nursery.start(self.silent_first_call, session)
            async with trio.open_nursery() as calls:
                for _ in range(3):
                    calls.start_soon(ask, session)
            assert len(warned(caplog)) == 1
            nursery.cancel_scope.cancel()

    async def test_calls_that_wait_less_than_a_second_are_no_warning(self, caplog, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            async with trio.open_nursery() as calls:
                for _ in range(3):
                    calls.start_soon(ask, session)
            assert warned(caplog) == []

    async def test_after_that_nobody_waits_and_the_session_is_sticky(self, autojump_clock, nursery):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            await ask(channel)
            async with channel.session(first_within=0.5) as session:
                await nursery.start(self.silent_first_call, session)
                await ask(session)
                began = trio.current_time()
                assert len(await spread(session, 10)) == 1
                assert trio.current_time() == began
                nursery.cancel_scope.cancel()

    async def test_a_bound_below_the_time_of_the_warning_is_kept(self, autojump_clock, nursery):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            await ask(channel)
            async with channel.session(first_within=0.5) as session:
                await nursery.start(self.silent_first_call, session)
                began = trio.current_time()
                await ask(session)
                assert trio.current_time() - began == pytest.approx(0.5)
                nursery.cancel_scope.cancel()

    async def test_calls_go_on_with_the_headers_of_a_first_call_that_stays_open(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            await ask(channel)
            async with channel.session() as session, bidi(session).open(b"") as call:
                await call.wait_initial_metadata()
                began = trio.current_time()
                assert await ask(session) == call.peer
                assert trio.current_time() == began

    async def test_a_session_may_be_told_to_wait_for_ever(self, autojump_clock, nursery):
        async with (
            Mesh.run(1) as mesh,
            mesh.channel() as channel,
            channel.session(first_within=math.inf) as session,
        ):
            await nursery.start(self.silent_first_call, session)
            with pytest.raises(RpcError, match="waiting for the session's first call"):
                await ask(session, timeout=1000)
            nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("first_within", [-1, math.nan, "5"])
    async def test_a_bound_that_is_no_time_is_refused(self, first_within, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel:
            with pytest.raises(ValueError, match=r"first_within is .*; it must be a number of seconds"):
                async with channel.session(first_within=first_within):
                    pass
