"""Sessions that are opened together on a new channel spread over all hosts, and do not all stay on the first one."""

import math

import pytest
import trio
from support.cold_start import delay_connections, stagger, start_sessions
from support.mesh import METHOD, Mesh, ask, method, spread
from support.sessions import b64
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError, StatusCode
from trxds.lb.first_pass import FirstPass
from trxds.testing import resources as xds

SESSIONS = 400


def share(hosts):
    return SESSIONS / len(hosts)


class TestManySessionsAtOnce:
    @pytest.mark.parametrize("hosts", [2, 20])
    async def test_no_host_gets_more_than_one_and_a_half_times_its_share(self, hosts, autojump_clock):
        async with Mesh.run(hosts) as mesh, mesh.channel() as channel:
            stagger(mesh)
            start = await start_sessions(channel, SESSIONS)
            assert start.hosts.total() == SESSIONS and set(start.hosts) == set(mesh.hosts)
            assert max(start.hosts.values()) <= 1.5 * share(mesh.hosts)

    @pytest.mark.parametrize("hosts", [2, 20])
    async def test_their_first_calls_wait_only_until_the_last_host_has_connected(self, hosts, autojump_clock):
        async with Mesh.run(hosts) as mesh, mesh.channel() as channel:
            stagger(mesh, 0.005)
            assert (await start_sessions(channel, SESSIONS)).took == (5 * hosts, 5 * hosts)

    async def test_they_stay_where_their_first_calls_went(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
            stagger(mesh)
            assert len(await spread(session, 10)) == 1

    async def test_with_spread_within_0_all_go_to_the_first_host_at_once(self, autojump_clock):
        async with Mesh.run(20) as mesh, mesh.channel(spread_within=0) as channel:
            stagger(mesh)
            start = await start_sessions(channel, SESSIONS)
            assert start.hosts == {mesh.hosts[0]: SESSIONS}
            assert start.took == (5, 5)

    async def test_a_host_that_is_late_gets_no_session_and_all_others_their_share(self, autojump_clock):
        async with Mesh.run(5) as mesh, mesh.channel(spread_within=0.1) as channel:
            delay_connections(mesh, {mesh.hosts[1]: 0.05, mesh.hosts[4]: 0.3})
            start = await start_sessions(channel, SESSIONS)
            assert sorted(start.hosts.values()) == [100, 100, 100, 100]
            assert start.took == (100, 100)

    async def test_a_channel_that_was_idle_spreads_its_sessions_again(self, autojump_clock):
        async with Mesh.run(4) as mesh, mesh.channel(idle_timeout=10) as channel:
            stagger(mesh)
            await ask(channel)
            await trio.sleep(60)
            assert channel.state is trxds.Connectivity.IDLE
            start = await start_sessions(channel, SESSIONS)
            assert set(start.hosts.values()) == {share(mesh.hosts)}

    async def test_a_lost_host_does_not_prolong_the_wait(self, autojump_clock, nursery):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            delay_connections(mesh, {mesh.hosts[1]: 0.02, mesh.hosts[2]: 0.06})

            async def lose():
                await trio.sleep(0.04)
                mesh.network.refuse(mesh.hosts[0])
                mesh.network.cut(mesh.hosts[0])

            nursery.start_soon(lose)
            start = await start_sessions(channel, SESSIONS)
            assert set(start.hosts) == set(mesh.hosts[1:])
            assert start.took == (60, 60)


class TestHostsThatDoNotConnect:
    async def test_a_host_that_never_answers_costs_spread_within(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            stagger(mesh, 0.01)
            mesh.network.black_hole(mesh.hosts[2])
            start = await start_sessions(channel, SESSIONS)
            assert start.hosts == dict.fromkeys(mesh.hosts[:2], 200)
            assert start.took == (210, 210)  # from the first READY host on

    async def test_it_costs_that_once_and_not_for_each_session(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel(spread_within=0.5) as channel:
            mesh.network.black_hole(mesh.hosts[1])
            assert (await start_sessions(channel, 1)).took == (500, 500)
            assert (await start_sessions(channel, 5)).took == (0, 0)

    async def test_a_session_that_is_opened_later_waits_only_for_the_rest(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            await ask(channel)
            await trio.sleep(0.15)
            assert (await start_sessions(channel, 5)).took == (50, 50)

    async def test_hosts_that_refuse_at_once_make_nobody_wait(self, autojump_clock):
        async with Mesh.run(20) as mesh, mesh.channel() as channel:
            for address in mesh.hosts[1:]:
                mesh.network.refuse(address)
            assert (await start_sessions(channel, 5)).took == (0, 0)

    async def test_the_wait_ends_when_the_last_host_fails(self, autojump_clock):
        async with Mesh.run(20) as mesh, mesh.channel() as channel:
            for address in mesh.hosts[1:]:
                mesh.network.refuse(address)
            delay_connections(mesh, dict.fromkeys(mesh.hosts[1:], 0.03))
            assert (await start_sessions(channel, 5)).took == (30, 30)

    async def test_sessions_that_outwait_a_failure_of_all_hosts_spread_when_new_ones_come(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            mesh.network.refuse(mesh.hosts[0])
            mesh.endpoints("cart", mesh.hosts[:1])
            with pytest.raises(RpcError, match="no host can be reached"):
                await ask(channel)
            delay_connections(mesh, {mesh.hosts[1]: 0.01, mesh.hosts[2]: 0.02})
            mesh.endpoints("cart", mesh.hosts)
            start = await start_sessions(channel, SESSIONS, wait_for_ready=True)
            assert set(start.hosts) == set(mesh.hosts[1:])


class TestWhoDoesNotWait:
    async def test_calls_outside_of_sessions(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            began = trio.current_time()
            assert await ask(channel) == mesh.hosts[0]
            assert trio.current_time() == began

    async def test_later_calls_of_a_session(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            mesh.network.black_hole(mesh.hosts[1])
            await ask(session, timeout=0.1)  # half of its time
            began = trio.current_time()
            assert await spread(session, 10) == {mesh.hosts[0]: 10}
            assert trio.current_time() == began

    async def test_sessions_of_a_channel_whose_hosts_have_connected(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            assert (await start_sessions(channel, 10)).took == (0, 0)

    async def test_sessions_during_a_rollout(self, autojump_clock):
        async with Mesh.run(3) as mesh, mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            late = await mesh.add_host()
            mesh.network.black_hole(late)
            mesh.endpoints("cart", [*mesh.hosts[1:3], late])
            await wait_all_tasks_blocked()
            assert mesh.network.attempts[late] == 1
            assert (await start_sessions(channel, 10)).took == (0, 0)

    async def test_a_session_without_a_session_filter(self, autojump_clock):
        async with Mesh.run(2, sessions=False) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            assert (await start_sessions(channel, 1)).took == (0, 0)


class TestOneCall:
    async def test_a_call_waits_for_half_of_its_time_at_most(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            assert (await start_sessions(channel, 5, timeout=0.1)).took == (50, 50)

    async def test_the_time_that_a_cancel_scope_leaves_counts_too(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            with trio.fail_after(0.1):
                assert (await start_sessions(channel, 5)).took == (50, 50)

    async def test_a_first_call_whose_host_cannot_be_used_waits_too(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            cookie = ("cookie", f"session={b64('10.9.9.9:1;cart')}")
            assert (await start_sessions(channel, 1, metadata=[cookie])).took == (200, 200)

    async def test_the_first_call_of_an_imported_session_whose_host_cannot_be_used_waits_too(self, autojump_clock):
        async with Mesh.run(3) as mesh:
            async with mesh.channel() as channel, channel.session() as session:
                host = await ask(session)
                token = session.export()
            others = [other for other in mesh.hosts if other != host]
            mesh.endpoints("cart", others)
            mesh.network.black_hole(others[1])
            async with mesh.channel() as channel, channel.session(token) as session:
                await ask(channel)
                await trio.sleep(0.1)
                began = trio.current_time()
                await ask(session)
                assert trio.current_time() - began == pytest.approx(0.1)

    async def test_a_continued_session_whose_host_is_usable_does_not_wait(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            cookie = ("cookie", f"session={b64(f'{mesh.hosts[0]};cart')}")
            start = await start_sessions(channel, 1, metadata=[cookie])
            assert (start.hosts, start.took) == ({mesh.hosts[0]: 1}, (0, 0))

    async def test_the_other_calls_of_its_session_wait_for_its_response(self, autojump_clock, nursery):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            mesh.network.black_hole(mesh.hosts[1])
            began = trio.current_time()
            nursery.start_soon(ask, session)
            await wait_all_tasks_blocked()
            await ask(session)
            assert trio.current_time() - began == pytest.approx(0.2)

    async def test_without_wait_for_first_every_call_before_a_host_is_known_waits(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            async with channel.session(wait_for_first=False) as session, trio.open_nursery() as nursery:
                began, times = trio.current_time(), []

                async def call():
                    await ask(session)
                    times.append(trio.current_time() - began)

                for _ in range(3):
                    nursery.start_soon(call)
            assert times == pytest.approx([0.2, 0.2, 0.2])

    async def test_a_call_that_waits_ends_with_its_session(self, autojump_clock, nursery):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            ended = trio.Event()

            async def call(session):
                with pytest.raises(RpcError, match="session closed"):
                    await ask(session)
                ended.set()

            async with channel.session() as session:
                nursery.start_soon(call, session)
                await wait_all_tasks_blocked()
            with trio.fail_after(0.01):
                await ended.wait()

    async def test_it_says_what_it_waits_for(self, autojump_clock, nursery):
        async with Mesh.run(2) as mesh, mesh.channel() as channel, channel.session() as session:
            mesh.network.black_hole(mesh.hosts[1])
            nursery.start_soon(ask, session)
            await wait_all_tasks_blocked()
            (call,) = channel._state.calls.open
            assert repr(call) == f"<Rpc {METHOD}: all hosts to connect or fail, so that sessions spread>"
            await trio.sleep(1)

    async def test_observers_hear_what_it_waits_for(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            await ask(channel)
            watcher = Watcher()
            with channel.observed_by(watcher):
                await start_sessions(channel, 1)
            assert watcher.of("delayed", "picked") == [
                "delayed cluster cart begins; the call waits for all hosts to connect or fail, so that sessions spread",
                f"picked {mesh.hosts[0]} of cart late",
            ]

    async def test_it_goes_on_after_spread_within_even_if_nothing_ends_the_first_pass(
        self, autojump_clock, monkeypatch
    ):
        update = FirstPass.update

        def never_end(self, state, in_first_pass, now):
            return update(self, state, True, min(now, self.ends_at - 0.001))

        monkeypatch.setattr(FirstPass, "update", never_end)
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            assert (await start_sessions(channel, 5)).took == (200, 200)

    async def test_drops_are_not_drawn_again_after_the_wait(self, autojump_clock):
        async with Mesh.run(20) as mesh, mesh.channel() as channel:
            stagger(mesh)
            tenth = {"category": "overload", "drop_percentage": {"numerator": 10, "denominator": "HUNDRED"}}
            mesh.plane.put(xds.endpoints("cart", xds.locality(*mesh.hosts)) | {"policy": {"drop_overloads": [tenth]}})
            dropped = 0

            async def call():
                nonlocal dropped
                async with channel.session() as session:
                    try:
                        await method(session)(b"")
                    except RpcError as error:
                        assert error.status.code is StatusCode.UNAVAILABLE
                        dropped += 1

            async with trio.open_nursery() as nursery:
                for _ in range(SESSIONS):
                    nursery.start_soon(call)
            # With one draw for each host it would be 0.88.
            assert 0 < dropped / SESSIONS < 0.19


async def test_calls_that_wait_for_hosts_that_are_down_are_dropped_by_the_share_of_eds(autojump_clock):
    async with Mesh.run(2, sessions=False) as mesh:
        tenth = {"category": "overload", "drop_percentage": {"numerator": 10, "denominator": "HUNDRED"}}
        mesh.plane.put(xds.endpoints("cart", xds.locality(*mesh.hosts)) | {"policy": {"drop_overloads": [tenth]}})
        for host in mesh.hosts:
            mesh.network.refuse(host)
        async with mesh.channel() as channel:
            dropped = 0

            async def call():
                nonlocal dropped
                try:
                    await method(channel)(b"", wait_for_ready=True)
                except RpcError:
                    dropped += 1

            async with trio.open_nursery() as calls:
                for _ in range(400):
                    calls.start_soon(call)
                await trio.sleep(60)
                for host in mesh.hosts:
                    mesh.network.restore(host)
            assert 0 < dropped / 400 < 0.19


class TestExplained:
    async def test_an_explanation_names_the_wait_and_changes_nothing(self, autojump_clock):
        async with Mesh.run(2) as mesh, mesh.channel() as channel:
            mesh.network.black_hole(mesh.hosts[1])
            await ask(channel)
            await trio.sleep(0.05)
            explanation = await channel.explain(METHOD)
            assert "the first call of a session waits for all hosts to connect or fail" in str(explanation)
            assert "at most 150 ms more" in str(explanation)
            assert explanation.host == mesh.hosts[0]  # of a call outside of sessions
            assert (await start_sessions(channel, 5)).took == (150, 150)
            assert "first call of a session" not in str(await channel.explain(METHOD))


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf, "0.2", None])
async def test_a_time_that_is_none_is_refused(seconds, autojump_clock):
    async with Mesh.run(1) as mesh:
        with pytest.raises(ValueError, match=r"spread_within is .*; it must be a finite number of seconds from 0"):
            async with mesh.channel(spread_within=seconds):
                pass
