"""Calls of asyncio whose messages are streams, and calls that are open."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest
import trio
from support.asyncio_tests import in_asyncio

from trxds import RpcError


@in_asyncio
async def test_a_server_stream_is_iterated(world):
    async with world.channel() as channel:
        two = channel.method("/shop.Cart/Two", server_streaming=True)
        async with two.open(b"a") as call:
            assert [message async for message in call] == [b"a", b"a"]
            assert call.peer in world.hosts and call.status.ok


@in_asyncio
async def test_a_stream_raises_after_the_messages_before_the_failure(world):
    came = []
    async with world.channel() as channel:
        fail = channel.method("/shop.Cart/FailLater", server_streaming=True)
        with pytest.raises(RpcError, match="the rest is gone"):
            async with fail.open(b"") as call:
                async for message in call:
                    came.append(message)
    assert came == [b"one"]


def not_four(payload):
    if payload == b"4":
        raise ValueError("no four, please")
    return payload


@in_asyncio
async def test_messages_that_arrive_together_come_in_order_and_before_the_failure(world):
    came = []
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", bytes, not_four, client_streaming=True, server_streaming=True)
        with pytest.raises(RpcError, match="cannot be parsed: no four, please"):
            async with double.open() as call:
                for number in range(6):
                    await call.send(b"%d" % number)
                async for message in call:
                    came.append(int(message))
                    assert call.status is None  # though the failure has been handed over already
    assert came == [0, 0, 1, 1, 2, 2, 3, 3]


@in_asyncio
async def test_a_stream_has_the_status_of_a_message_that_cannot_be_parsed_once_it_is_raised(world):
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", bytes, not_four, client_streaming=True, server_streaming=True)
        async with double.open() as call:
            for number in range(6):
                await call.send(b"%d" % number)
            with pytest.raises(RpcError) as caught:
                async for _ in call:
                    pass
            assert (call.status, call.cancel()) == (caught.value.status, False)


@in_asyncio
async def test_cancelling_drops_messages_that_have_arrived(world):
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", client_streaming=True, server_streaming=True)
        async with double.open() as call:
            for _ in range(10):
                await call.send(b"a")
            assert await call.receive() == b"a"
            assert call.cancel()
            with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
                await call.receive()


@in_asyncio
async def test_a_bidi_stream_sends_and_receives(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call:
            assert await call.send(b"one")
            assert await call.receive() == b"one"
            assert await call.send(b"two")
            call.done_sending()
            assert [message async for message in call] == [b"two"]


@in_asyncio
async def test_one_task_sends_while_another_receives(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call, asyncio.TaskGroup() as tasks:

            async def send():
                for number in range(50):
                    await call.send(b"%d" % number)
                call.done_sending()

            tasks.create_task(send())
            assert [message async for message in call] == [b"%d" % number for number in range(50)]


@in_asyncio
async def test_a_cancelled_receive_loses_no_message(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call:
            for number in range(20):
                receiving = asyncio.create_task(call.receive())
                await asyncio.sleep(0)
                await call.send(b"%d" % number)
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    assert await receiving == b"%d" % number
                    continue
                assert await call.receive() == b"%d" % number


def joined(names):
    return ",".join(names).encode()


def bidi(channel, name, *types):
    return channel.method(f"/shop.Cart/{name}", *types, client_streaming=True, server_streaming=True)


@in_asyncio
async def test_a_message_is_sent_as_it_was_when_a_task_sent_it(world):
    async with world.channel() as channel, bidi(channel, "Echo", joined, bytes).open() as call:
        names = ["anna", "ben"]
        for _ in range(2):
            await call.send(names)
            names.append("carla")
        call.done_sending()
        assert [each async for each in call] == [b"anna,ben", b"anna,ben,carla"]


async def turns_while(step):
    """Return the turns of another task in each run of 65 steps."""
    turns, counts = 0, []

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    for _ in range(5):
        before = turns
        for _ in range(65):
            await step()
        counts.append(turns - before)
    task.cancel()
    return counts


@in_asyncio
async def test_sending_many_messages_lets_other_tasks_run(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        assert all(await turns_while(lambda: call.send(b"x")))


@in_asyncio
async def test_receiving_many_messages_lets_other_tasks_run(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        for _ in range(5 * 65):
            await call.send(b"x")
        assert all(await turns_while(call.receive))


@in_asyncio
async def test_a_server_that_does_not_read_stops_a_sending_task_until_its_timeout(world):
    sent = 0
    async with world.channel() as channel:
        await channel.method("/shop.Cart/Echo")(b"")  # the time-out is not for connecting
        async with bidi(channel, "Hang").open(timeout=0.3) as call:
            with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
                while await call.send(bytes(1000)):
                    sent += 1
    assert sent < 2000


@in_asyncio
async def test_a_task_sends_nothing_after_done_sending(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        call.done_sending()
        with pytest.raises(trio.ClosedResourceError, match="done_sending was called"):
            await call.send(b"x")


@in_asyncio
async def test_the_one_request_of_a_method_closes_this_side_of_the_call(world):
    async with world.channel() as channel, channel.method("/shop.Cart/Echo").open(timeout=20) as call:
        await call.send(b"one")
        with pytest.raises(trio.ClosedResourceError, match="the method takes one request only"):
            await call.send(b"two")
        assert await call.receive() == b"one"


@in_asyncio
async def test_a_sending_task_learns_that_the_server_has_ended_the_call(world):
    async with world.channel() as channel, bidi(channel, "Metadata").open() as call:
        assert (await call.receive(), await call.receive()) == (b"None", None)
        assert not await call.send(b"x")


@in_asyncio
async def test_an_open_call_of_a_closed_channel_raises_closed_resource_error(world):
    async with world.channel() as channel:
        block = bidi(channel, "Echo").open()
        call = await block.__aenter__()
    for step in (call.receive, call.receive, partial(call.send, b"x")):
        with pytest.raises(trio.ClosedResourceError):
            await step()
    await block.__aexit__(None, None, None)


@in_asyncio
async def test_a_task_sends_nothing_after_it_cancelled_the_call(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        assert call.cancel()
        with pytest.raises(RpcError, match="cancelled by the client"):
            await call.send(b"x")


@in_asyncio
async def test_a_method_with_streamed_replies_is_not_called_like_a_function(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", server_streaming=True)
        for way in (echo, echo.with_call):
            with pytest.raises(TypeError, match=r"use `async with method\.open"):
                await way(b"a")
