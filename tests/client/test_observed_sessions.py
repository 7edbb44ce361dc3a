"""Observers get the host of a session, its hits, and the reasons of its moves."""

from types import SimpleNamespace

import pytest
import trio
from support.mesh import METHOD, ask, method
from support.sessions import in_cookie, listen, session_filter, two_cookies
from support.watched_calls import watched
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

from trxds import CookieKey
from trxds.client.call_telemetry import CallTelemetry
from trxds.core.observe import CallStarted
from trxds.core.observers import Observers
from trxds.lb.pick import Complete, Override, PickArgs
from trxds.testing import resources as xds


async def test_an_observer_gets_a_sessions_host_once_and_then_hits(autojump_clock):
    async with watched(1, sessions=True) as (mesh, channel, watcher):
        async with channel.session() as session:
            await ask(session)
            await ask(session)
        assert watcher.of("session", "session-pick", "settled") == [
            "session 1 opened",
            "session-pick fallback no_cookie",
            f"settled on {mesh.hosts[0]} of cart",
            "session-pick hit",
            "session 1 closed",
        ]


async def test_an_observer_gets_the_reason_when_a_session_moves(autojump_clock):
    async with watched(2, sessions=True) as (mesh, channel, watcher):
        async with channel.session() as session:
            first = await ask(session)
            (other,) = set(mesh.hosts) - {first}
            mesh.endpoints("cart", [other])
            await trio.sleep(1)
            watcher.notes.clear()
            await ask(session)
        assert watcher.of("session-pick", "settled") == [
            "session-pick fallback unknown_host",
            f"settled on {other} of cart from {first}: unknown_host",
        ]


async def test_calls_of_a_session_that_move_together_are_one_observed_move(autojump_clock):
    async with watched(2, sessions=True) as (mesh, channel, watcher):
        async with channel.session() as session:
            first = await ask(session)
            mesh.endpoints("cart", [host for host in mesh.hosts if host != first])
            await trio.sleep(1)
            watcher.notes.clear()
            async with trio.open_nursery() as calls:
                for _ in range(3):
                    calls.start_soon(ask, session)
        assert len(watcher.of("session-pick")) == 3 and len(watcher.of("settled")) == 1


async def test_an_observer_gets_each_host_of_a_session_with_two_cookies_once(autojump_clock):
    async with watched(4, sessions=True) as (mesh, channel, watcher):
        two_cookies(mesh, in_cookie("one", path="/"), in_cookie("two", path="/"))
        await trio.sleep(1)
        async with channel.session() as session:
            for _ in range(3):
                await ask(session)
                await method(session, "/shop.Orders/Get")(b"")
            (cart, orders) = (session.hosts[CookieKey(name, "/")].host for name in ("one", "two"))
        assert watcher.of("settled") == [f"settled on {cart} of cart", f"settled on {orders} of orders"]


async def test_an_observer_gets_the_reason_of_the_cookie_that_moves(autojump_clock):
    async with watched(4, sessions=True) as (mesh, channel, watcher):
        two_cookies(mesh, in_cookie("one", path="/"), in_cookie("two", path="/"))
        await trio.sleep(1)
        async with channel.session() as session:
            first = await ask(session)
            await method(session, "/shop.Orders/Get")(b"")
            (other,) = set(mesh.hosts[:2]) - {first}
            mesh.endpoints("cart", [other])
            await trio.sleep(1)
            watcher.notes.clear()
            await ask(session)
        assert watcher.of("session-pick", "settled") == [
            "session-pick fallback unknown_host",
            f"settled on {other} of cart from {first}: unknown_host",
        ]


@pytest.mark.parametrize("cookies", [("one", "two"), ("two", "one")])
async def test_an_observer_gets_the_move_of_a_response_that_also_pins_another_cookie(cookies, autojump_clock):
    async with watched(2, sessions=True) as (mesh, channel, watcher):
        listen(mesh, session_filter("one", in_cookie("one", path="/")))
        await trio.sleep(1)
        async with channel.session() as session:
            first = await ask(session)
            (other,) = set(mesh.hosts) - {first}
            listen(mesh, *(session_filter(each, in_cookie(each, path="/")) for each in cookies))
            mesh.endpoints("cart", [other])
            await trio.sleep(1)
            watcher.notes.clear()
            await ask(session)
            assert len(session.hosts) == 2
        assert watcher.of("settled") == [f"settled on {other} of cart from {first}: unknown_host"]


async def test_an_observer_gets_the_reason_of_a_session_whose_route_has_another_cluster(autojump_clock):
    async with watched(2, sessions=True) as (mesh, channel, watcher), channel.session() as session:
        await ask(session)
        mesh.cluster("orders")
        mesh.endpoints("orders", set(mesh.hosts) - {session.host})
        mesh.route(xds.route("orders"))
        await trio.sleep(1)
        watcher.notes.clear()
        await ask(session)
        assert watcher.of("session-pick") == ["session-pick fallback cluster_mismatch"]


async def test_an_observer_gets_the_reason_of_a_cookie_that_moves_after_the_release_of_another(autojump_clock):
    async with watched(4, sessions=True) as (mesh, channel, watcher):
        two_cookies(mesh, in_cookie("one", path="/shop.Cart"), in_cookie("two", path="/shop.Orders"))
        await trio.sleep(1)
        async with channel.session() as session:
            first = await ask(session)
            await method(session, "/shop.Orders/Get")(b"")
            session.release(CookieKey("two", "/shop.Orders"))
            mesh.endpoints("cart", set(mesh.hosts[:2]) - {first})
            await trio.sleep(1)
            watcher.notes.clear()
            await ask(session)
        assert watcher.of("session-pick") == ["session-pick fallback unknown_host"]


async def test_an_observer_hears_nothing_of_a_released_session_that_comes_to_the_same_host(autojump_clock):
    async with watched(1, sessions=True) as (_, channel, watcher):
        async with channel.session() as session:
            await ask(session)
            session.release()
            watcher.notes.clear()
            await ask(session)
        assert watcher.of("settled") == []


async def test_an_observer_gets_the_wait_of_a_session_for_its_host(monkeypatch, autojump_clock):
    async with watched(2, sessions=True) as (mesh, channel, watcher):
        connect = mesh.network.connect

        async def slowly(address):
            await trio.sleep(1)
            return await connect(address)

        async with channel.session() as session:
            first = await ask(session)
            monkeypatch.setattr(mesh.network, "connect", slowly)
            mesh.servers[first].goaway()
            await wait_all_tasks_blocked()
            watcher.notes.clear()
            assert await ask(session) == first
        assert watcher.of("session-pick", "settled") == ["session-pick wait", "session-pick hit"]


def test_an_attempt_on_the_sessions_host_is_a_hit_after_a_missed_one():
    watcher = Watcher()
    attempt = CallTelemetry(Observers(watcher).call(CallStarted(METHOD)), None, None).new_attempt(1)
    args = PickArgs(METHOD, cluster="cart", override=Override(("10.0.1.1:1",), fallback_reason="not_ready"))
    attempt.record_pick(Complete(SimpleNamespace(address="10.0.1.2:1")), args, None)
    attempt.record_pick(Complete(SimpleNamespace(address="10.0.1.1:1")), args, None)
    assert watcher.of("session-pick") == ["session-pick fallback not_ready", "session-pick hit"]
