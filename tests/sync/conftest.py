"""Tests of threads have two hosts and a control plane on loopback."""

from __future__ import annotations

import pytest
from support.shop_on_loopback import ShopOnLoopback

import trxds.sync


class World(ShopOnLoopback):
    """The shop, and channels to it for threads."""

    def channel(self, **more):
        return trxds.sync.open_channel("xds:///shop", **self.options(more))


@pytest.fixture
def world():
    with World.run() as world:
        yield world


@pytest.fixture
def channel(world):
    with world.channel() as channel:
        yield channel
