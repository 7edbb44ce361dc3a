"""An asyncio task watches states, hosts and events of a channel until it is cancelled or the channel closes."""

import asyncio

import pytest
import trio
from support.asyncio_tests import in_asyncio

from trxds import Connectivity
from trxds.testing import resources as xds


@in_asyncio
async def test_a_cancelled_step_of_states_or_hosts_goes_on_with_the_next(world):
    async with world.channel() as channel:
        states, hosts = channel.states(), channel.hosts(watch=True)
        assert {(await anext(hosts)).address, (await anext(hosts)).address} == world.hosts
        await channel.method("/shop.Cart/Echo")(b"")
        assert await anext(states) is Connectivity.READY
        for watch in (states, hosts):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(watch)
        world.put(xds.endpoints("cart"))
        assert {(await anext(hosts)).has_left, (await anext(hosts)).has_left} == {True}
        assert await anext(states) is Connectivity.TRANSIENT_FAILURE


@in_asyncio
async def test_what_watches_a_channel_ends_with_it(world):
    async def watch(iterator):
        return [each async for each in iterator]

    async with world.channel() as channel:
        await channel.method("/shop.Cart/Echo")(b"")
        block = channel.session()
        session = await block.__aenter__()
        watching = [
            asyncio.create_task(watch(channel.states())),
            asyncio.create_task(watch(session.events())),
            asyncio.create_task(channel.wait_for_state_change(Connectivity.READY)),
        ]
        draining = asyncio.create_task(session.wait_draining())
        await session.method("/shop.Cart/Echo")(b"")
    states, events, state = await asyncio.gather(*watching)
    assert (states, len(events), state) == ([Connectivity.READY], 1, None)
    with pytest.raises(trio.ClosedResourceError):
        await draining
