"""Tests of asyncio have two hosts and a control plane on loopback."""

from __future__ import annotations

import asyncio

import pytest
from support.shop_on_loopback import ShopOnLoopback
from support.tasks import task_names

import trxds.aio


class World(ShopOnLoopback):
    """The shop, and channels to it for asyncio."""

    def channel(self, **more):
        return trxds.aio.open_channel("xds:///shop", **self.options(more))

    async def until(self, semaphore):
        """Wait for `began` or `ended` without stopping the event loop."""
        await asyncio.to_thread(self.wait, semaphore)

    async def workers_after(self, channel, step, count):
        """Cancel `count` steps, and return how many tasks there are in Trio for functions of asyncio."""
        for _ in range(count):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await step()

        async def workers(_):
            return task_names().count("portal/call")

        return await channel.submit(workers)


@pytest.fixture
def world():
    with World.run() as world:
        yield world
