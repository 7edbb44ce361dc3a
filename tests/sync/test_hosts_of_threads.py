"""Threads and asyncio list the hosts of a channel, and pin calls to one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import trxds.aio
import trxds.sync


def test_threads_list_the_hosts_and_call_each(world):
    with world.channel() as channel:
        hosts = list(channel.hosts())
        met = [channel.method("/shop.Cart/Echo").on(host).with_call(b"")[1].peer for host in hosts]
    assert {host.address for host in hosts} == world.hosts
    assert met == [host.address for host in hosts]


def test_asyncio_lists_the_hosts_and_calls_each(world):
    async def main():
        async with trxds.aio.open_channel("xds:///shop", **world.options({})) as channel:
            hosts = [host async for host in channel.hosts()]
            method = channel.method("/shop.Cart/Echo")
            return hosts, [(await method.on(host).with_call(b""))[1].peer for host in hosts]

    hosts, met = asyncio.run(main())
    assert {host.address for host in hosts} == world.hosts
    assert met == [host.address for host in hosts]


def test_a_watch_of_threads_goes_on_with_news(world):
    with world.channel() as channel:
        hosts = channel.hosts(watch=True)
        assert {next(hosts).address, next(hosts).address} == world.hosts


def test_a_watch_of_a_thread_ends_with_the_channel(world):
    with ThreadPoolExecutor(1) as threads:
        with world.channel() as channel:
            hosts = channel.hosts(watch=True)
            seen = [next(hosts), next(hosts)]
            rest = threads.submit(list, hosts)
        assert [host.address for host in rest.result(5) if host not in seen] == []


def test_a_watch_of_asyncio_ends_with_the_channel(world):
    async def main():
        async with trxds.aio.open_channel("xds:///shop", **world.options({})) as channel:
            hosts = channel.hosts(watch=True)
            seen = [await anext(hosts), await anext(hosts)]
            rest = asyncio.create_task(anext(hosts, None))
            await asyncio.sleep(0)
        return seen, await asyncio.wait_for(rest, 5)

    seen, last = asyncio.run(main())
    assert {host.address for host in seen} == world.hosts
    assert last is None
