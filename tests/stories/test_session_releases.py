"""A program releases its session: the next call chooses its host anew."""

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, bidi, spread
from support.two_cookies import A, B, session_of_two_cookies

from trxds import CookieKey, RepinReason, SessionPinned


class TestRelease:
    async def test_the_next_call_chooses_anew(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            seen = set()
            for _ in range(20):
                seen.add(await ask(session))
                session.release()
                assert session.host is None
            assert len(seen) == 3

    async def test_later_calls_stay_on_the_new_host(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            session.release()
            assert len(await spread(session, 10)) == 1

    async def test_calls_at_once_after_a_release_meet_one_host(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            session.release()
            hosts = set()

            async def call():
                hosts.add(await ask(session))

            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(call)
            assert hosts == {session.host}

    async def test_the_move_has_the_reason_released(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            old = await ask(session)
            events = session.events()
            while await ask(session) == old:
                session.release()
            event = [await anext(events)]
            while isinstance(event[-1], SessionPinned):
                event.append(await anext(events))
            assert (event[-1].old.host, event[-1].new.host) == (old, session.host)
            assert event[-1].reason is RepinReason.RELEASED

    async def test_the_same_host_again_is_no_move(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            await ask(session)
            events = session.events()
            session.release()
            await ask(session)
            assert isinstance(await anext(events), SessionPinned)

    async def test_calls_under_way_stay_and_their_late_cookies_do_not_count(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            async with bidi(session).open() as call:
                session.release()
                await call.send(b"1")
                assert await call.receive() == f"{host} 1".encode()
            new = await ask(session)
            assert session.host == new

    async def test_in_the_block_of_a_move_it_makes_no_later_call_wait(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session(first_within=60) as session:
            await ask(session)
            async with session.moving() as (_, new):
                session.release()
            async with bidi(session).open():
                assert await ask(session, timeout=1) == new.host

    async def test_a_session_without_a_host_is_left_as_it_is(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            session.release()
            assert len(await spread(session, 5)) == 1

    async def test_a_session_without_a_host_has_none_by_a_named_cookie(self, autojump_clock):
        async with Mesh.run(1) as mesh, mesh.channel() as channel, channel.session() as session:
            with pytest.raises(ValueError, match="no host by the cookie"):
                session.release(A)

    async def test_only_the_named_cookie_is_given_up(self, autojump_clock):
        async with session_of_two_cookies() as (_, session):
            session.release(B)
            assert list(session.hosts) == [A]

    async def test_after_the_block_nothing_is_given_up(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            async with channel.session() as session:
                host = await ask(session)
            with pytest.raises(trio.ClosedResourceError):
                session.release()
            assert session.host == host

    async def test_an_unknown_cookie_is_refused(self, autojump_clock):
        async with session_of_two_cookies() as (_, session):
            with pytest.raises(ValueError, match="no host by the cookie"):
                session.release(CookieKey("c", "/"))


def test_the_methods_of_two_cookies_differ():
    assert METHOD.startswith(A.path) and not METHOD.startswith(B.path)
