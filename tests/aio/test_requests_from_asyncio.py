"""Requests of a call from asyncio come from an iterable or an async one, which is closed when the call ends."""

import asyncio

import pytest
from support.asyncio_tests import in_asyncio

from trxds import RpcError, StatusCode


@in_asyncio
async def test_requests_come_from_an_iterable_or_an_async_one(world):
    async def numbers():
        for number in range(4):
            await asyncio.sleep(0)
            yield b"%d" % number

    async with world.channel() as channel:
        total = channel.method("/shop.Cart/Sum", client_streaming=True)
        assert await total(numbers()) == await total([b"1", b"5"]) == b"6"


@in_asyncio
async def test_an_exception_of_an_iterable_is_raised_where_it_is_iterated(world):
    def numbers():
        yield b"1"
        raise LookupError("no more numbers")

    async with world.channel() as channel:
        with pytest.raises(LookupError, match="no more numbers"):
            await channel.method("/shop.Cart/Sum", client_streaming=True)(numbers())


class WaitingRequests:
    """One request, and then a wait without end."""

    def __init__(self):
        self.waits = asyncio.Event()
        self.is_iterated = False

    async def __call__(self):
        self.is_iterated = True
        try:
            yield b"1"
            self.waits.set()
            await asyncio.sleep(600)
        finally:
            self.is_iterated = False


@in_asyncio
async def test_the_timeout_ends_a_call_whose_requests_wait(world):
    requests = WaitingRequests()
    async with world.channel() as channel:
        with pytest.raises(RpcError) as caught:
            await asyncio.wait_for(
                channel.method("/shop.Cart/Sum", client_streaming=True)(requests(), timeout=0.05), 20
            )
    assert (caught.value.status.code, requests.is_iterated) == (StatusCode.DEADLINE_EXCEEDED, False)


@in_asyncio
async def test_the_servers_failure_ends_a_call_whose_requests_wait(world):
    requests = WaitingRequests()
    async with world.channel() as channel:
        with pytest.raises(RpcError, match="NOT_FOUND: no such cart"):
            await asyncio.wait_for(channel.method("/shop.Cart/Fail", client_streaming=True)(requests()), 20)
    assert not requests.is_iterated


@in_asyncio
async def test_an_early_reply_is_returned_though_requests_wait(world):
    requests = WaitingRequests()
    async with world.channel() as channel:
        first = channel.method("/shop.Cart/First", client_streaming=True)
        reply, _ = await asyncio.wait_for(first.with_call(requests()), 20)
    assert (reply, requests.is_iterated) == (b"1", False)


@in_asyncio
async def test_a_cancelled_task_closes_its_waiting_requests(world):
    requests = WaitingRequests()
    async with world.channel() as channel:
        task = asyncio.create_task(channel.method("/shop.Cart/Hang", client_streaming=True)(requests()))
        await requests.waits.wait()
        await world.until(world.began)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not requests.is_iterated
        await world.until(world.ended)


@in_asyncio
async def test_an_exception_of_an_async_iterable_is_raised_from_its_call(world):
    async def numbers():
        yield b"1"
        raise LookupError("no more numbers")

    async with world.channel() as channel:
        with pytest.raises(LookupError, match="no more numbers"):
            await channel.method("/shop.Cart/Sum", client_streaming=True)(numbers())


@in_asyncio
async def test_an_exception_of_an_async_iterable_that_is_closed_is_raised_from_its_call(world):
    async def numbers():
        try:
            yield b"1"
            await asyncio.sleep(600)
        finally:
            raise LookupError("cannot clean up")

    async with world.channel() as channel:
        with pytest.raises(LookupError, match="cannot clean up"):
            await channel.method("/shop.Cart/First", client_streaming=True)(numbers())
