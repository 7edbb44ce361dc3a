"""The recipe for asyncio in docs/threads.md works with cancellation and errors."""

import asyncio

import pytest

from trxds import RpcError


def test_a_cancelled_asyncio_task_cancels_its_call(world, channel):
    async def main():
        hang = channel.method("/shop.Cart/Hang").future(b"")
        await asyncio.to_thread(world.wait, world.began)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.wrap_future(hang)

    asyncio.run(main())
    world.wait(world.ended)


def test_an_asyncio_task_gets_the_rpc_error_itself(channel):
    async def main():
        await asyncio.wrap_future(channel.method("/shop.Cart/Fail").future(b""))

    with pytest.raises(RpcError, match="no such cart"):
        asyncio.run(main())
