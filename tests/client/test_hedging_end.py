"""What becomes of hedges that fail, or that a throttle or the channel's end stops (A6)."""

from functools import partial

import pytest
import trio
import trio.testing
from support.hedged import HEDGING, PATH, THROTTLE, Host, queued_hedge
from support.mesh import Mesh, bidi
from support.method_config import configured, for_all
from support.watching import Watcher

from trxds import RpcError, StatusCode
from trxds.core.status import Status


async def test_the_trackers_of_a_hedge_that_failed_are_told_of_its_end(hedged, monkeypatch, autojump_clock):
    ended = []
    async with hedged() as world:
        world.serve(Host(StatusCode.UNAVAILABLE, 0.5))
        monkeypatch.setattr("trxds.client.attempt.notify_ended", lambda _, path, status, *__: ended.append(status.code))
        assert await world.ask() == b"1"
        assert ended == [StatusCode.UNAVAILABLE, StatusCode.OK]


async def test_the_trackers_of_a_refused_hedge_are_told_of_its_end(hedged, monkeypatch, autojump_clock):
    ended, answer = [], Host(0)

    async def refuse_once(call):
        if ended or not refusals:
            return await answer(call)
        call.reset(refusals.pop())

    refusals = [7]
    async with hedged() as world:
        world.serve(refuse_once)
        monkeypatch.setattr("trxds.client.attempt.notify_ended", lambda _, path, status, *__: ended.append(status.code))
        assert await world.ask() == b"0"
        assert ended == [StatusCode.UNAVAILABLE, StatusCode.OK]


async def test_the_throttle_stops_new_hedges_and_not_the_one_that_runs(hedged, autojump_clock):
    async with hedged(throttling=THROTTLE) as world:
        world.channel._state.throttle.tokens = 3.5
        host = world.serve(Host(StatusCode.UNAVAILABLE, 5))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain_tokens, world)
            assert await world.ask() == b"1"
        assert host.times == [0, 0.1]


async def drain_tokens(world):
    await trio.sleep(0.5)
    world.channel._state.throttle.tokens = 0


async def test_a_hedge_that_fails_in_the_step_in_which_the_channel_closes_leaves_the_channels_error(
    hedged, nursery, autojump_clock
):
    ended = []

    async def call(world):
        ended.append(await world.failure())

    async with hedged() as world:
        world.serve(Host(100))
        nursery.start_soon(call, world)
        await trio.sleep(0.5)
        (rpc,) = world.channel._state.calls.open
        rpc.hedging._running[0].attempt.stream.fail(Status(StatusCode.UNAVAILABLE, "lost"))
        world.channel._state.close()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [Status(StatusCode.CANCELLED, "channel closed")]


async def test_an_observer_gets_the_status_of_each_hedge_without_a_host(hedged, autojump_clock):
    async with hedged() as world:
        world.mesh.endpoints("cart", [])
        await trio.sleep(1)
        watcher = Watcher()
        with world.channel.observed_by(watcher):
            await world.failure()
        assert watcher.of("ended") == ["ended UNAVAILABLE"] * 4


async def test_hedges_that_the_callers_own_deadline_ends_are_past_it_for_observers(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host(100))
        watcher = Watcher()
        with world.channel.observed_by(watcher), trio.move_on_after(1.5):
            await world.ask()
        assert watcher.of("ended") == ["ended DEADLINE_EXCEEDED"] * 2


@pytest.mark.parametrize("method", ["receive", "wait_initial_metadata"])
async def test_a_hedged_stream_without_a_host_fails_after_its_attempts(method, hedged, autojump_clock):
    async with hedged() as world:
        world.mesh.endpoints("cart", [])
        await trio.sleep(1)
        async with bidi(world.channel, PATH).open() as call:
            with pytest.raises(RpcError) as caught:
                await getattr(call, method)()
            assert call.status == caught.value.status
        assert caught.value.status.code is StatusCode.UNAVAILABLE


async def test_sending_on_a_hedged_stream_that_has_failed_without_a_host_raises(hedged, autojump_clock):
    async with hedged() as world:
        world.mesh.endpoints("cart", [])
        await trio.sleep(1)
        async with bidi(world.channel, PATH).open() as call:
            await trio.sleep(10)
            with pytest.raises(RpcError, match="UNAVAILABLE"):
                await call.send(b"x")


async def test_the_end_of_a_request_in_the_step_in_which_a_queued_hedge_opens_follows_its_messages(
    monkeypatch, autojump_clock
):
    async with queued_hedge(monkeypatch, lambda call: call.done_sending()) as (call, host):
        assert await call.receive() == b"1"
        assert await call.receive() is None
        assert host.said[1] == [b"one"]


async def test_a_hedged_stream_over_the_replay_buffer_does_not_commit_to_an_attempt_in_its_hosts_queue(
    monkeypatch, autojump_clock
):
    answer, refused, holding = Host(0), [], trio.CancelScope()

    async def refuse_once(call):
        if refused:
            return await answer(call)
        refused.append(call)
        await trio.sleep(0.2)
        call.reset(7)

    async def hold_the_stream(channel):
        with holding:
            async with bidi(channel).open(b"") as other:
                await other.receive()
                await trio.sleep_forever()

    async def send_much(call):
        for _ in range(5):
            await call.send(bytes(100_000))

    async with Mesh.run(1, max_concurrent_streams=1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers[PATH] = refuse_once
        document = for_all(hedgingPolicy=HEDGING | {"hedgingDelay": "100s"})
        async with configured(monkeypatch, mesh, document) as channel, bidi(channel, PATH).open() as call:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold_the_stream, channel)
                await trio.sleep(1)  # the refused attempt is repeated, and waits behind the other call
                nursery.start_soon(send_much, call)
                await trio.sleep(1)
                assert refused and not call._rpc.hedging.decided.is_set()
                holding.cancel()
            assert await call.receive() == b"0"
        assert answer.said[0][0] == bytes(100_000)


async def test_of_a_hedged_stream_nothing_is_kept_once_an_attempt_is_chosen(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host(0.5))
        async with bidi(world.channel, PATH).open(b"one") as call:
            await call.receive()
            assert repr(call._replay) == "<ReplayBuffer 0 messages, dropped>"


async def test_a_hedged_stream_past_its_deadline_sends_nothing_and_says_what_it_waited_for(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host(100))
        async with bidi(world.channel, PATH).open(timeout=2) as call:
            for step in (call.receive, partial(call.send, b"x")):
                with pytest.raises(RpcError, match="not done after 2 s, waiting for one of its attempts"):
                    await step()


async def test_the_status_of_a_hedged_stream_past_its_deadline_stays(hedged, autojump_clock):
    async with hedged() as world:
        world.serve(Host(10))
        async with bidi(world.channel, PATH).open(b"x", timeout=2) as call:
            for _ in range(2):
                with pytest.raises(RpcError, match="waiting for one of its attempts"):
                    await call.receive()
                await trio.sleep(20)
