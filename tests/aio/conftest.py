"""Tests of asyncio have two hosts and a control plane on loopback."""

from __future__ import annotations

import asyncio

import pytest
from support.shop_on_loopback import ShopOnLoopback

import trxds.aio


class World(ShopOnLoopback):
    """The shop, and channels to it for asyncio."""

    def channel(self, **more):
        return trxds.aio.open_channel("xds:///shop", **self.options(more))

    async def until(self, semaphore):
        """Wait for `began` or `ended` without stopping the event loop."""
        await asyncio.to_thread(self.wait, semaphore)


@pytest.fixture
def world():
    with World.run() as world:
        yield world
