"""A program's own resolver runs in the Trio thread of a channel for threads or for asyncio."""

import asyncio
import threading

import trio

import trxds.aio
import trxds.sync
from trxds.resolvers import ResolverUpdate


class Resolver:
    """It knows the hosts, and notes the thread in which it runs."""

    def __init__(self, *hosts):
        self._hosts = hosts
        self.threads = []

    async def resolve(self, args):
        self.threads.append(threading.current_thread())
        await trio.lowlevel.checkpoint()
        yield ResolverUpdate(self._hosts)
        await trio.sleep_forever()


def test_a_channel_for_threads_takes_resolvers(world):
    resolver = Resolver(*world.hosts)
    with trxds.sync.open_channel("my:///cart", resolvers={"my": resolver.resolve}) as channel:
        assert channel.method("/shop.Cart/Echo")(b"a book") == b"a book"
    assert resolver.threads != [threading.current_thread()]


def test_a_channel_for_asyncio_takes_resolvers(world):
    resolver = Resolver(*world.hosts)

    async def main():
        async with trxds.aio.open_channel("my:///cart", resolvers={"my": resolver.resolve}) as channel:
            return await channel.method("/shop.Cart/Echo")(b"a book")

    assert asyncio.run(main()) == b"a book"
    assert resolver.threads != [threading.current_thread()]
