"""What the feed costs an RPC: nothing while nobody watches, counted in calls of functions; and no waiting ever."""

import sys

import pytest
import trio
from support.mesh import Mesh, ask
from trio.testing import wait_all_tasks_blocked

import trxds.feed

CALLS = 10


async def functions_called(channel):
    """How many Python functions run for an RPC, its server's and Trio's included: the fewest of some."""
    counts = []
    for _ in range(CALLS):
        await wait_all_tasks_blocked()
        count = 0

        def seen(frame, event, argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(seen)
        try:
            await ask(channel)
        finally:
            sys.setprofile(None)
        counts.append(count)
    return min(counts)


@pytest.fixture
async def mesh():
    async with Mesh.run(1) as mesh:
        yield mesh


async def test_a_channel_that_nobody_watches_runs_the_same_functions_with_a_feed_and_without(mesh, autojump_clock):
    async with mesh.channel() as plain, mesh.channel() as told, trxds.feed.open(told) as feed:
        without = await functions_called(plain)
        assert await functions_called(told) == without
        async with feed.view() as view:
            await anext(view)
            assert await functions_called(told) > without  # so the count would show it
        await wait_all_tasks_blocked()
        assert await functions_called(told) == without


async def test_an_rpc_takes_no_time_for_viewers_that_never_read(mesh, autojump_clock):
    async with mesh.channel() as channel, trxds.feed.open(channel) as feed:
        await ask(channel)
        async with feed.view(), feed.view():
            begun = trio.current_time()
            for _ in range(100):
                await ask(channel)
            assert trio.current_time() == begun
