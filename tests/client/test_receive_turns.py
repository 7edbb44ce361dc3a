"""`receive` notices cancellation and deadlines, and lets other tasks run, while messages are waiting."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.plain import hosts_in_memory

from trxds import RpcError, StatusCode

HOST = "10.0.1.1:50051"
COUNT = 1000


async def many(call):
    await call.receive()
    for number in range(COUNT):
        await call.send(b"%d" % number)


@asynccontextmanager
async def buffered(more=(), **options):
    """Open a call whose messages have all arrived."""
    async with hosts_in_memory(1) as mesh, mesh.channel(f"ipv4:{HOST}", **dict(more)) as channel:
        mesh.servers[HOST].fallback = many
        method = channel.method("/shop.Cart/Many", client_streaming=True, server_streaming=True)
        async with method.open(b"x", **options) as call:
            await trio.sleep(0.5)
            yield call


HEDGING_POLICY = {"maxAttempts": 2, "hedgingDelay": "9s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
HEDGING = {"methodConfig": [{"name": [{}], "hedgingPolicy": HEDGING_POLICY}]}


@asynccontextmanager
async def passing(call, next):
    async with next(call) as stream:
        yield stream


@pytest.mark.parametrize("more", [{}, {"interceptors": [passing]}, {"service_config": HEDGING}])
async def test_receive_notices_a_cancelled_scope_before_the_next_message_and_loses_none(more, autojump_clock):
    async with buffered(more) as call:
        with trio.CancelScope() as scope:
            assert await call.receive() == b"0"
            assert await call.receive() == b"1"
            scope.cancel()
            await call.receive()
        assert scope.cancelled_caught
        assert [reply async for reply in call] == [b"%d" % number for number in range(2, COUNT)]


async def test_receive_notices_a_cancel_scopes_deadline_after_a_millisecond(autojump_clock):
    received = 0
    async with buffered() as call:
        with trio.move_on_after(0.01) as scope:
            while await call.receive() is not None:
                autojump_clock.jump(0.0003)  # work that does not wait
                received += 1
        assert scope.cancelled_caught and 0.01 / 0.0003 < received <= 0.011 / 0.0003 + 2


async def test_receive_notices_the_calls_timeout_after_a_millisecond(autojump_clock):
    received = 0
    async with buffered(timeout=0.6) as call:  # of which 0.5 s have passed
        with pytest.raises(RpcError) as failed:
            while await call.receive() is not None:
                autojump_clock.jump(0.0003)
                received += 1
    assert failed.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert 0.1 / 0.0003 < received <= 0.101 / 0.0003 + 2


async def test_receive_notices_a_deadline_after_64_messages(autojump_clock):
    received = 0
    async with buffered() as call:
        with trio.CancelScope() as scope:
            await call.receive()
            scope.deadline = trio.current_time()  # now; no time passes from here on
            while await call.receive() is not None:
                received += 1
        assert scope.cancelled_caught and received <= 64


async def test_receive_lets_other_tasks_run_after_64_messages(autojump_clock):
    turns = 0

    async def other():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with buffered() as call, trio.open_nursery() as others:
        others.start_soon(other)
        await trio.lowlevel.checkpoint()
        between, seen = [0], turns
        for _ in range(COUNT):
            await call.receive()
            between[-1] += 1
            if turns != seen:
                seen = turns
                between.append(0)
        others.cancel_scope.cancel()
    # Trio runs the tasks of one step in any order, so one that runs first and then last waits for twice as many.
    assert sum(between) == COUNT and max(between) <= 2 * 64


async def test_receive_of_a_waiting_message_seldom_costs_a_step_of_the_scheduler(autojump_clock):
    async with buffered() as call:
        task = trio.lowlevel.current_task()
        before = task._schedule_points
        while await call.receive() is not None:
            pass
        assert COUNT / 64 - 1 < task._schedule_points - before <= COUNT / 64 + 3


async def test_receive_with_messages_waiting_raises_when_the_channel_closes(autojump_clock):
    async with buffered() as call:
        await call.receive()
        call._rpc._channel.close()
        with pytest.raises(RpcError, match="channel closed"):
            await call.receive()
