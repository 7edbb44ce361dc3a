"""A task of asyncio that is cancelled, or leaves a block early, cancels its call."""

import asyncio

import pytest
from support.asyncio_tests import in_asyncio

from trxds import RpcError, StatusCode


@in_asyncio
async def test_a_cancelled_task_cancels_its_call_at_the_server(world):
    async with world.channel() as channel:
        hanging = asyncio.create_task(channel.method("/shop.Cart/Hang")(b""))
        await world.until(world.began)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await world.until(world.ended)


@in_asyncio
async def test_asyncio_s_own_timeout_cancels_a_call(world):
    async def expire():
        await world.until(world.began)
        limit.reschedule(0)

    async with world.channel() as channel:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                expiring = asyncio.create_task(expire())
                await channel.method("/shop.Cart/Hang")(b"")
        await expiring
        await world.until(world.ended)


@in_asyncio
async def test_a_call_that_is_cancelled_before_it_is_handed_over_sends_nothing(world):
    async with world.channel() as channel:
        hang = channel.method("/shop.Cart/Hang")
        await channel.method("/shop.Cart/Echo")(b"")
        tasks = [asyncio.create_task(hang(b"")) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert {type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)} == {
            asyncio.CancelledError
        }
        assert await channel.method("/shop.Cart/Echo")(b"a") == b"a"


@in_asyncio
async def test_a_block_that_is_left_early_cancels_its_call(world):
    async with world.channel() as channel:
        async with channel.method("/shop.Cart/Hang").open(b""):
            await world.until(world.began)
        await world.until(world.ended)


@in_asyncio
async def test_a_task_that_is_cancelled_in_a_block_cancels_its_call(world):
    async with world.channel() as channel:

        async def read():
            async with channel.method("/shop.Cart/Hang", server_streaming=True).open(b"") as call:
                await call.receive()

        reading = asyncio.create_task(read())
        await world.until(world.began)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await world.until(world.ended)


@in_asyncio
async def test_a_task_cancels_a_call_that_another_waits_for(world):
    async with (
        world.channel() as channel,
        channel.method("/shop.Cart/Hang", server_streaming=True).open(b"") as call,
    ):
        receiving = asyncio.create_task(call.receive())
        await world.until(world.began)
        assert [call.cancel(), call.cancel()] == [True, False]
        assert call.status.code is StatusCode.CANCELLED
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            await receiving
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            await call.receive()
        await world.until(world.ended)
