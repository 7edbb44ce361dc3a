"""Blocks of calls in asyncio: their exceptions, interceptors, and steps that run in Trio."""

import asyncio
import contextvars
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import trio
from support.asyncio_tests import in_asyncio

from trxds import RpcError, Status, StatusCode

CALLER = contextvars.ContextVar("caller")


@in_asyncio
async def test_an_exception_in_a_block_leaves_it_unchanged(world):
    async with world.channel() as channel:
        with pytest.raises(LookupError, match="my own"):
            async with channel.session(), channel.method("/shop.Cart/Hang").open(b""):
                raise LookupError("my own")


@in_asyncio
async def test_an_interceptor_is_around_the_block(world):
    seen = []

    @asynccontextmanager
    async def note(call, next):
        try:
            async with next(replace(call, metadata=[("user", "7")])) as stream:
                yield stream
        except LookupError as error:
            seen.append(str(error))
            raise RpcError(Status(StatusCode.ABORTED, "in other words")) from error

    async with world.channel(interceptors=[note]) as channel:
        said = channel.method("/shop.Cart/Metadata")
        assert await said(b"") == b"7"
        with pytest.raises(RpcError, match="in other words"):
            async with said.open(b"") as call:
                assert await call.receive() == b"7"
                raise LookupError("my own")
    assert seen == ["my own"]


@in_asyncio
async def test_an_interceptor_sees_the_cancellation_of_a_task_as_trio_s(world):
    seen, entered = [], asyncio.Event()

    @asynccontextmanager
    async def note(call, next):
        try:
            async with next(call) as stream:
                yield stream
        except trio.Cancelled:
            seen.append("cancelled")
            raise

    async with world.channel(interceptors=[note]) as channel:

        async def stay():
            async with channel.method("/shop.Cart/Hang").open(b""):
                entered.set()
                await asyncio.sleep(20)

        staying = asyncio.create_task(stay())
        await entered.wait()
        staying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await staying
        assert seen == ["cancelled"]


@in_asyncio
async def test_a_task_that_is_cancelled_while_a_block_is_left_waits_for_its_end(world):
    leaving, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def slow(call, next):
        async with next(call) as stream:
            yield stream
        loop.call_soon_threadsafe(leaving.set)
        try:
            await trio.sleep_forever()
        finally:
            ended.append("ended")

    async with world.channel(interceptors=[slow]) as channel:

        async def leave():
            async with channel.method("/shop.Cart/Echo").open(b""):
                pass

        task = asyncio.create_task(leave())
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["ended"]


@in_asyncio
async def test_an_interceptor_may_swallow_the_exception_of_a_block(world):
    @asynccontextmanager
    async def swallow(call, next):
        with suppress(LookupError):
            async with next(call) as stream:
                yield stream

    async with world.channel(interceptors=[swallow]) as channel:
        async with channel.method("/shop.Cart/Hang").open(b""):
            raise LookupError("never mind")
        assert await channel.method("/shop.Cart/Echo")(b"a") == b"a"


@in_asyncio
async def test_a_function_is_submitted_to_trio_with_the_task_s_context(world):
    async def read(channel, payload):
        return await channel.method("/shop.Cart/Echo")(payload), CALLER.get()

    CALLER.set("this test")
    async with world.channel() as channel:
        assert await channel.submit(read, b"a") == (b"a", "this test")


async def last(iterator):
    async for each in iterator:
        value = each
    return value


@in_asyncio
async def test_a_step_of_states_or_hosts_that_is_cancelled_ends_in_trio_too(world):
    async with world.channel() as channel:
        assert await world.workers_after(channel, lambda: last(channel.states()), 20) < 10
        assert await world.workers_after(channel, lambda: last(channel.hosts(watch=True)), 20) < 10
