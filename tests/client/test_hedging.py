"""Hedged calls (A6) send several attempts, use the first response, and leave nothing of the others."""

import pytest
import trio
import trio.testing
from support.hedged import HEDGING, PATH, THROTTLE, Host
from support.mesh import bidi, method
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.core.connectivity import Connectivity
from trxds.core.status import Status
from trxds.lb.pick import QUEUE_PICKER, transient_failure_picker
from trxds.testing import resources as xds
from trxds.transport.client_stream import ClientStream


async def test_a_response_within_the_hedging_delay_is_the_only_attempt(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(0.5))
        assert await world.ask() == b"0"
        assert host.came[0][1] is None and len(host.came) == 1


async def test_a_slow_hedged_call_is_sent_again_after_each_delay_and_the_first_response_is_used(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100, 100, 0.5))
        assert await world.ask() == b"2"
        assert (host.times, [before for _, before in host.came]) == ([0, 1, 2], [None, "1", "2"])
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(host.over) == [0, 1, 2]  # the others were cancelled


async def test_a_hedged_call_makes_at_most_max_attempts(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(10))
        assert await world.ask() == b"0"
        assert host.times == [0, 1, 2, 3]


async def test_a_failed_hedged_call_has_the_trailing_metadata_of_its_last_attempt(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host("-1"))
        with pytest.raises(RpcError) as caught:
            await world.ask()
        assert caught.value.trailing_metadata.first("grpc-retry-pushback-ms") == "-1"


async def test_a_hedging_policy_without_delay_sends_all_attempts_at_once(hedged, autojump_clock):
    async with hedged(policy={"maxAttempts": 3}) as world:
        host = world.serve(Host(5, 5, 1))
        assert await world.ask() == b"2"
        assert host.times == [0, 0, 0]


async def test_a_non_fatal_failure_starts_the_next_hedge_at_once(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(StatusCode.UNAVAILABLE, 0.5))
        assert await world.ask() == b"1"
        assert host.times == [0, 0.1]


async def test_hedging_delays_continue_after_a_non_fatal_failure(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(StatusCode.UNAVAILABLE, 100, 0.5))
        assert await world.ask() == b"2"
        assert host.times == [0, 0.1, 1.1]


async def test_a_fatal_failure_ends_a_hedged_call_and_its_other_attempts(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100, StatusCode.NOT_FOUND))
        assert await world.failure() == Status(StatusCode.NOT_FOUND, "attempt 1")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(host.over) == [0, 1]


async def test_a_hedged_call_whose_attempts_all_fail_has_the_last_status(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(StatusCode.UNAVAILABLE))
        assert await world.failure() == Status(StatusCode.UNAVAILABLE, "attempt 3")
        assert len(host.came) == 4


async def test_a_pushback_delays_the_next_hedge(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host("5000", 0.5))
        assert await world.ask() == b"1"
        assert host.times == [0, 5]


async def test_a_pushback_of_never_stops_new_hedges_only(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(5, "-1"))
        assert await world.ask() == b"0"
        assert host.times == [0, 1]


async def test_a_throttled_hedged_call_makes_one_attempt(hedged, autojump_clock):
    async with hedged(throttling=THROTTLE) as world:
        world.channel._state.throttle.tokens = 2
        host = world.serve(Host(5))
        assert await world.ask() == b"0"
        assert host.times == [0]


async def test_a_hedge_that_waits_for_a_pushback_is_throttled_too_and_the_failure_stands(hedged, autojump_clock):
    async with hedged(throttling=THROTTLE) as world:
        host = world.serve(Host("5000", 0.5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain_tokens, world, 2)
            status = await world.failure()
        assert (status, host.times) == (Status(StatusCode.UNAVAILABLE, "pushed back"), [0])


async def drain_tokens(world, delay):
    """Have other calls of the channel fail, after a while."""
    await trio.sleep(delay)
    world.channel._state.throttle.tokens = 0


async def test_a_dropped_hedged_call_fails_at_once_and_takes_no_token(hedged, autojump_clock):
    async with hedged(throttling=THROTTLE) as world:
        host = world.serve(Host(0))
        drops = {"drop_overloads": [{"category": "load", "drop_percentage": {"numerator": 100}}]}
        world.mesh.plane.put({**xds.endpoints("cart", xds.locality(*world.mesh.hosts)), "policy": drops})
        await trio.sleep(1)
        assert (await world.failure()).message.endswith("EDS-configured drop: load")
        assert (host.came, world.channel._state.throttle.tokens) == ([], 4)


async def test_failed_hedges_take_tokens_of_the_retry_throttle(hedged, autojump_clock):
    async with hedged(throttling=THROTTLE) as world:
        host = world.serve(Host(StatusCode.UNAVAILABLE))
        assert (await world.failure()).code is StatusCode.UNAVAILABLE
        assert (len(host.came), world.channel._state.throttle.tokens) == (2, 2)


async def test_a_hedged_call_without_a_host_fails_after_its_attempts(hedged, autojump_clock):
    async with hedged() as world:
        world.mesh.endpoints("cart", [])
        await trio.sleep(1)
        assert (await world.failure()).code is StatusCode.UNAVAILABLE


async def test_the_deadline_of_a_hedged_call_covers_all_attempts(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100))
        status = await world.failure(timeout=2.5)
        assert status.code is StatusCode.DEADLINE_EXCEEDED and "one of its attempts" in status.message
        assert host.times == [0, 1, 2]


async def test_a_hedged_unary_call_ends_with_its_channel(hedged, nursery, autojump_clock):
    ended = []

    async def call(world):
        ended.append(await world.failure())

    async with hedged() as world:
        world.serve(Host(100))
        nursery.start_soon(call, world)
        await trio.sleep(1.5)
        world.channel._state.close()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [Status(StatusCode.CANCELLED, "channel closed")]


async def test_a_hedged_call_holds_its_cluster_until_an_attempt_is_chosen(hedged, nursery, autojump_clock):
    answers = []

    async def call(world):
        answers.append(await world.ask())

    async with hedged() as world:
        world.serve(Host(10))
        nursery.start_soon(call, world)
        await trio.sleep(0.5)
        world.mesh.cluster("other")
        world.mesh.endpoints("other", world.mesh.hosts)
        world.mesh.route("other")
        await trio.sleep(5)
        assert "cluster/cart" in task_names()
        await trio.sleep(10)
        assert answers == [b"0"] and "cluster/cart" not in task_names()


async def test_every_hedge_of_a_session_goes_to_its_host(hedged, autojump_clock):
    async with hedged(hosts=3) as world, world.channel.session() as session:
        host = (await method(session)(b"")).decode()
        scripts = {}
        for address, server in world.mesh.servers.items():
            scripts[address] = server.handlers[PATH] = Host(10)
        assert await method(session, PATH)(b"x") == b"0"
        assert {address: len(script.came) for address, script in scripts.items()} == {
            address: 4 * (address == host) for address in world.mesh.hosts
        }


@pytest.mark.parametrize("seconds", [[100, 0], [1.5, 100]])
async def test_a_hedged_first_call_of_a_session_keeps_the_cookie_of_the_chosen_attempt(seconds, hedged, autojump_clock):
    async with hedged(hosts=3) as world, world.channel.session() as session:
        slow = list(seconds)

        def answering(address):
            async def answer(call):
                await trio.sleep(slow.pop(0) if slow else 0)
                await call.send(address.encode())

            return answer

        for address, server in world.mesh.servers.items():
            server.handlers[PATH] = answering(address)
        host = await method(session, PATH)(b"x")
        assert [await method(session)(b"") for _ in range(6)] == [host] * 6


async def test_a_hedged_call_is_counted_once(hedged, autojump_clock):
    async with hedged() as world:
        before = world.channel._state.calls.counts
        world.serve(Host(2.5))
        await world.ask()
        after = world.channel._state.calls.counts
        assert (after.started - before.started, after.succeeded - before.succeeded, after.failed) == (1, 1, 0)


async def test_cancelling_a_hedged_call_cancels_all_attempts(hedged, autojump_clock):
    async with hedged() as world:
        host = world.serve(Host(100))
        with trio.move_on_after(2.5):
            await world.ask()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(host.over) == [0, 1, 2]


async def test_a_refused_hedge_is_retried_transparently_without_being_counted(hedged, autojump_clock):
    async with hedged() as world:
        script = Host(0)
        refused = []

        async def refuse_once(call):
            if not refused:
                refused.append(call.metadata.first("grpc-previous-rpc-attempts"))
                call.reset(7)
                return
            await script(call)

        for server in world.mesh.servers.values():
            server.handlers[PATH] = refuse_once
        assert await world.ask() == b"0"
        assert (refused, [before for _, before in script.came]) == ([None], [None])


async def test_a_hedge_that_is_refused_twice_fails_as_other_attempts_do(hedged, autojump_clock):
    came = []

    async def refuse(call):
        came.append(call.metadata.first("grpc-previous-rpc-attempts"))
        call.reset(7)

    async with hedged(policy=HEDGING | {"maxAttempts": 2}) as world:
        world.serve(refuse)
        assert (await world.failure()).code is StatusCode.UNAVAILABLE
        assert came == [None, None, "1", "1"]


async def test_a_bug_in_a_hedge_ends_the_call_with_an_internal_error(hedged, monkeypatch, caplog, autojump_clock):
    from trxds import TrxdsInternalError

    async def broken(self):
        raise KeyError("bug")

    async with hedged() as world:
        monkeypatch.setattr(ClientStream, "wait_headers", broken)
        with pytest.raises(TrxdsInternalError, match="please report it"):
            async with bidi(world.channel, PATH).open() as call:
                await call.receive()


async def test_the_first_of_two_hedges_that_fail_in_one_step_sets_the_status(hedged, autojump_clock):
    policy = {"maxAttempts": 2, "hedgingDelay": "0s"}
    async with hedged(policy=policy) as world:
        host = world.serve(Host(StatusCode.NOT_FOUND))
        assert (await world.failure()).code is StatusCode.NOT_FOUND
        assert host.times == [0, 0]


async def test_a_hedge_that_fails_in_the_step_in_which_another_is_chosen_takes_no_token(hedged, autojump_clock):
    policy = HEDGING | {"maxAttempts": 2, "hedgingDelay": "0s", "nonFatalStatusCodes": ["NOT_FOUND"]}
    async with hedged(policy=policy, throttling=THROTTLE) as world:
        throttle = world.channel._state.throttle
        throttle.tokens = 3

        async def answer_and_refuse(call):
            if call.metadata.first("grpc-previous-rpc-attempts") is None:
                await trio.sleep(1)
                await call.send(b"0")
            else:
                await trio.sleep(1)
                call.abort(StatusCode.NOT_FOUND, "too late")

        world.serve(answer_and_refuse)
        assert await world.ask() == b"0"
        assert throttle.tokens == 3.5


async def test_a_hedge_that_finds_its_host_after_another_was_chosen_sends_nothing(
    hedged, monkeypatch, nursery, autojump_clock
):
    answers, begun, ended = [], [], []

    async def call(world):
        answers.append(await world.ask())

    async with hedged() as world:
        monkeypatch.setattr("trxds.client.attempt.notify_began", lambda *told: begun.append(told))
        monkeypatch.setattr("trxds.client.attempt.notify_ended", lambda *told: ended.append(told))
        host, state = world.serve(Host(3, 100)), world.channel._state
        live = state.data_plane
        nursery.start_soon(call, world)
        await trio.sleep(0.5)
        selector, picker = live.current.selector, live.current.picker
        live.publish(selector, QUEUE_PICKER, Connectivity.CONNECTING)
        await trio.sleep(1)  # the second attempt waits for a host
        (rpc,) = state.calls.open
        live.publish(selector, picker, Connectivity.READY)
        rpc.hedging._choose(rpc.hedging._running[0])
        await trio.sleep(5)
        assert answers == [b"0"]
        assert host.over == [0]
        assert len(begun) == 1 and len(ended) == 1  # nor were its trackers told


async def test_a_refused_hedge_without_another_host_fails_with_that_reason(hedged, autojump_clock):
    async with hedged(policy={"maxAttempts": 2, "hedgingDelay": "10s"}) as world:
        live = world.channel._state.data_plane

        async def refuse(call):
            failing = transient_failure_picker(Status(StatusCode.UNAVAILABLE, "no host is left"))
            live.publish(live.current.selector, failing, Connectivity.TRANSIENT_FAILURE)
            call.reset(7)

        for server in world.mesh.servers.values():
            server.handlers[PATH] = refuse
        assert await world.failure() == Status(StatusCode.UNAVAILABLE, "no host is left")
