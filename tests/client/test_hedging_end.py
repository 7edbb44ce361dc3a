"""What becomes of hedges that fail, or that a throttle or the channel's end stops (A6)."""

import pytest
import trio
import trio.testing
from support.hedged import THROTTLE, Hedged, Host
from support.watching import Watcher

from trxds import StatusCode
from trxds.core.status import Status


@pytest.fixture
def hedged(monkeypatch):
    return lambda **more: Hedged(monkeypatch, **more)


async def test_the_trackers_of_a_hedge_that_failed_are_told_of_its_end(hedged, monkeypatch, autojump_clock):
    ended = []
    async with hedged() as world:
        world.serve(Host(StatusCode.UNAVAILABLE, 0.5))
        monkeypatch.setattr("trxds.client.attempt.notify_ended", lambda _, path, status, *__: ended.append(status.code))
        assert await world.ask() == b"1"
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
