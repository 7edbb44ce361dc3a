"""A program sees what becomes of its session: pinned, moved, draining, host lost."""

import pytest
import trio
from support.mesh import Mesh, ask, method, spread
from support.sessions import drain, in_cookie, listen, remove, session_filter, two_cookies
from trio.testing import wait_all_tasks_blocked

from trxds import (
    Connectivity,
    CookieKey,
    Observer,
    RepinReason,
    SessionDraining,
    SessionEventsLost,
    SessionHost,
    SessionHostLost,
    SessionMoved,
    SessionPinned,
)
from trxds.client.session_event_stream import MAX_UNREAD, SessionEvents
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

COOKIE = CookieKey("session", "/")


def cart(host):
    return SessionHost(host, "cart")


async def news(events):
    """The events that have come, without waiting for more."""
    found = []
    await wait_all_tasks_blocked()
    with trio.move_on_after(0.001):
        async for event in events:
            found.append(event)
    return found


class TestEvents:
    async def test_the_first_response_pins_the_session(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            events = session.events()
            host = await ask(session)
            await spread(session, 3)
            (pinned,) = await news(events)
            assert pinned == SessionPinned(pinned.at, COOKIE, cart(host))

    async def test_a_move_says_from_where_to_where_why_and_by_which_version(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            events = session.events()
            remove(mesh, old)
            await wait_all_tasks_blocked()
            new = await ask(session)
            lost, moved = await news(events)
            change = 'EDS resource "cart" version 2'
            assert lost == SessionHostLost(lost.at, COOKIE, cart(old), RepinReason.UNKNOWN_HOST, change)
            assert moved == SessionMoved(moved.at, COOKIE, cart(old), cart(new), RepinReason.UNKNOWN_HOST, change)

    async def test_a_draining_host_is_an_event_without_a_call(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                events = session.events()
                drain(mesh, host)
                (draining,) = await news(events)
                assert isinstance(draining, SessionDraining)
                assert (draining.cookie, draining.host) == (COOKIE, cart(host))
                assert draining.change.startswith('EDS resource "cart" version ')
                assert await ask(session) == host

    async def test_the_events_begin_with_the_next_one_and_not_with_what_is(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            drain(mesh, await ask(session))
            await wait_all_tasks_blocked()
            assert await news(session.events()) == []

    async def test_a_draining_host_is_lost_where_draining_is_not_allowed(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            events = session.events()
            drain(mesh, host)
            draining, lost = await news(events)
            assert isinstance(draining, SessionDraining)
            assert isinstance(lost, SessionHostLost) and lost.reason is RepinReason.UNKNOWN_HOST

    async def test_a_health_that_the_cluster_does_not_allow_any_more_loses_the_host(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            events = session.events()
            mesh.cluster("cart", override_statuses=["UNKNOWN", "DRAINING"])
            (lost,) = await news(events)
            assert lost.reason is RepinReason.STATUS_NOT_ALLOWED
            assert lost.change.startswith('CDS resource "cart" version ')
            await ask(session)
            moved, *_ = await news(events)
            assert (moved.old.host, moved.reason, moved.change) == (old, lost.reason, lost.change)

    async def test_a_cluster_that_forbids_draining_is_named_as_the_cause(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
            async with mesh.channel() as channel, channel.session() as session:
                drain(mesh, await ask(session))
                await wait_all_tasks_blocked()
                events = session.events()
                mesh.cluster("cart")
                (lost,) = await news(events)
                assert isinstance(lost, SessionHostLost) and lost.reason is RepinReason.UNKNOWN_HOST
                assert lost.change.startswith('CDS resource "cart" version ')

    async def test_of_a_host_whose_cookie_is_too_old_nothing_is_said(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            listen(mesh, session_filter(state=in_cookie(ttl="10s")))
            async with mesh.channel() as channel, channel.session() as session:
                events, host = session.events(), await ask(session)
                await trio.sleep(20)
                drain(mesh, host)
                assert [type(event) for event in await news(events)] == [SessionPinned]

    async def test_a_host_that_cannot_be_reached_is_lost(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            events = session.events()
            mesh.network.refuse(host)
            mesh.network.cut(host)
            await wait_all_tasks_blocked()
            other = await ask(session)
            lost, moved = await news(events)
            assert lost == SessionHostLost(lost.at, COOKIE, cart(host), RepinReason.NOT_READY)
            assert (moved.new, moved.reason, moved.change) == (cart(other), RepinReason.NOT_READY, "")

    async def test_a_route_to_another_cluster_names_the_routes_version(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            mesh.cluster("cart2")
            mesh.endpoints("cart2", [mesh.hosts[-1]])
            await wait_all_tasks_blocked()
            events = session.events()
            mesh.route("cart2")
            await wait_all_tasks_blocked()
            await ask(session)
            moved = (await news(events))[-1]
            assert (moved.reason, moved.new) == (RepinReason.CLUSTER_MISMATCH, SessionHost(mesh.hosts[-1], "cart2"))
            assert moved.change.startswith('RDS resource "routes" version ')

    async def test_a_host_that_is_lost_in_two_versions_is_one_event(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            events = session.events()
            remove(mesh, old)
            await wait_all_tasks_blocked()
            first = (await news(events))[0].change
            mesh.endpoints("cart", [next(host for host in mesh.hosts if host != old)])
            await wait_all_tasks_blocked()
            await ask(session)
            (moved,) = await news(events)
            assert moved.change == first

    async def test_events_that_a_slow_reader_misses_are_counted_in_their_place(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            events = session.events()
            for _ in range(75):
                remove(mesh, session.host)
                await wait_all_tasks_blocked()
                await ask(session)
            found = await news(events)
            assert len(found) == 101
            assert found[-1] == SessionEventsLost(50)

    async def test_what_was_missed_is_counted_before_the_events_that_there_is_room_for_again(self, autojump_clock):
        events = SessionEvents()
        for number in range(MAX_UNREAD + 2):
            events.put(number)
        assert await anext(events) == 0
        events.put("the next")
        events.end()
        assert [event async for event in events][-2:] == [SessionEventsLost(2), "the next"]

    async def test_the_events_end_with_the_session(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                events = session.events()
                await ask(session)
            assert [type(event) async for event in events] == [SessionPinned]
            with pytest.raises(trio.ClosedResourceError):
                session.events()

    async def test_the_same_host_after_the_end_of_its_cookie_is_no_move(self, autojump_clock):
        async with Mesh.run(1) as mesh:
            mesh.listen(ttl=60)
            async with mesh.channel() as channel, channel.session() as session:
                events = session.events()
                await ask(session)
                await trio.sleep(61)
                await ask(session)
                assert [(type(event), event.at) for event in await news(events)] == [
                    (SessionPinned, 0),
                    (SessionPinned, 61),
                ]

    async def test_a_session_of_two_cookies_names_the_cookie_in_its_events(self, autojump_clock):
        async with Mesh.run(2) as mesh:
            listen(
                mesh,
                session_filter("a", in_cookie("a", path="/shop.Cart")),
                session_filter("b", in_cookie("b", path="/shop.Orders")),
            )
            async with mesh.channel() as channel, channel.session() as session:
                events = session.events()
                await ask(session)
                await method(session, "/shop.Orders/Get")(b"")
                assert [event.cookie.name for event in await news(events)] == ["a", "b"]

    async def test_a_move_has_the_reason_of_its_own_cookie(self, autojump_clock):
        async with Mesh.run(4) as mesh:
            two_cookies(mesh, in_cookie("a", path="/"), in_cookie("b", path="/"))
            async with mesh.channel() as channel, channel.session() as session:
                old = await ask(session)
                await method(session, "/shop.Orders/Get")(b"")  # the last host of the session is of another cluster
                mesh.endpoints("cart", [host for host in mesh.hosts[:2] if host != old])
                await wait_all_tasks_blocked()
                events = session.events()
                await ask(session)
                (moved,) = await news(events)
                assert (moved.cookie.name, moved.old, moved.reason) == ("a", cart(old), RepinReason.UNKNOWN_HOST)
                assert moved.change.startswith('EDS resource "cart" version ')

    async def test_nothing_is_kept_of_an_ended_session(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                events = session.events()
                await ask(session)
            pinned = channel.admin_view().state.sessions.pinned
            assert pinned.by_host == {} and events is not None
            assert (pinned._statuses, pinned._streams) == ({}, {})

    async def test_of_a_host_that_an_observer_gives_up_at_once_nothing_is_kept(self, autojump_clock):
        class Released(Observer):
            def session_changed(self, changed):
                session.release()

        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            with channel.observed_by(Released()):
                await ask(session)
            pinned = channel.admin_view().state.sessions.pinned
            assert (pinned.by_host, pinned._statuses) == ({}, {})

    async def test_a_session_learns_that_its_host_drains_while_the_channel_is_idle(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel(idle_timeout=5) as channel, channel.session() as session:
            host = await ask(session)
            events = session.events()
            await trio.sleep(10)
            assert channel.state is Connectivity.IDLE
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
            with trio.fail_after(1):
                assert isinstance(await anext(events), SessionDraining)
            assert channel.state is Connectivity.IDLE

    async def test_of_a_host_that_is_given_up_for_the_news_of_another_nothing_is_kept(self, autojump_clock):
        class Released(Observer):
            def session_changed(self, changed):
                if changed.kind == "draining":
                    for each in sessions:
                        each.release()

        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
            async with channel.session() as one, channel.session() as two:
                sessions = [one, two]
                while one.host == two.host:
                    two.release()
                    await ask(one)
                    await ask(two)
                with channel.observed_by(Released()):
                    mesh.endpoints("cart", xds.locality(*mesh.hosts, health=dict.fromkeys(mesh.hosts, "DRAINING")))
                    await wait_all_tasks_blocked()
                pinned = channel.admin_view().state.sessions.pinned
                assert (pinned.by_host, pinned._statuses) == ({}, {})


class TestWaitDraining:
    async def test_it_returns_when_the_host_drains(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            async with trio.open_nursery() as nursery:

                async def wait():
                    assert (await session.wait_draining()).host == cart(host)

                nursery.start_soon(wait)
                await wait_all_tasks_blocked()
                drain(mesh, host)

    async def test_it_returns_at_once_if_the_host_drains_already(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            drain(mesh, await ask(session))
            await wait_all_tasks_blocked()
            assert (await session.wait_draining()).cookie == COOKIE

    async def test_other_events_of_the_session_do_not_end_the_wait(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            async with trio.open_nursery() as nursery:

                async def wait():
                    assert isinstance(await session.wait_draining(), SessionDraining)

                nursery.start_soon(wait)
                await wait_all_tasks_blocked()
                remove(mesh, old)
                await wait_all_tasks_blocked()
                drain(mesh, await ask(session))

    async def test_it_raises_when_the_session_ends(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:

            async def wait(session):
                with pytest.raises(trio.ClosedResourceError):
                    await session.wait_draining()

            async with channel.session() as session:
                await ask(session)
                nursery.start_soon(wait, session)
                await wait_all_tasks_blocked()

    async def test_a_wait_that_is_given_up_leaves_the_events_to_others(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            events = session.events()
            with trio.move_on_after(1):
                await session.wait_draining()
            host = await ask(session)
            assert [event.host for event in await news(events)] == [cart(host)]

    async def test_waits_that_are_given_up_leave_nothing(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            for _ in range(5):
                with trio.move_on_after(1):
                    await session.wait_draining()
            streams = channel.admin_view().state.sessions.pinned._streams
            assert streams == {}


async def test_an_event_shows_no_cookie_value(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
        events = session.events()
        host = await ask(session)
        [event] = await news(events)
        assert host in repr(event) and encode(host, "cart") not in repr(event)
