"""The network in memory: names, connections that are refused or held, and streams."""

from __future__ import annotations

import pytest
import trio
from trio.testing import check_half_closeable_stream

from trxds.testing import MemoryNetwork, serve
from trxds.testing.network import memory_stream_pair


@pytest.fixture
async def server(network: MemoryNetwork):
    async with serve(network=network, address="s:1") as server:
        yield server


@pytest.mark.parametrize("ips", ["2001:db8::1", ["2001:db8::1"]])
async def test_a_name_in_a_test_network_has_one_address_or_several(network, ips, autojump_clock) -> None:
    network.names["cart"] = ips
    assert await network.resolve("cart", 443) == ("[2001:db8::1]:443",)


async def test_a_test_network_refuses_holds_and_restores_connections(network, server, autojump_clock) -> None:
    network.refuse("s:1")
    with pytest.raises(ConnectionRefusedError):
        await network.connect("s:1")
    network.restore("s:1")
    await network.connect("s:1")
    network.black_hole("s:1")
    with trio.move_on_after(1000) as scope:
        await network.connect("s:1")
    assert scope.cancelled_caught and network.attempts["s:1"] == 3


async def test_two_servers_cannot_listen_at_one_address(network, server, autojump_clock) -> None:
    with pytest.raises(OSError, match="s:1"):
        network.listen("s:1")


async def test_a_memory_stream_keeps_trios_rules() -> None:
    async def make() -> tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]:
        return memory_stream_pair()

    async def make_clogged() -> tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]:
        ours, theirs = memory_stream_pair(capacity=1)
        for stream in (ours, theirs):
            await stream.send_all(b"x")
        return ours, theirs

    await check_half_closeable_stream(make, make_clogged)


async def test_a_full_memory_stream_blocks_the_sender(autojump_clock) -> None:
    ours, theirs = memory_stream_pair(capacity=10)
    with trio.move_on_after(1) as scope:
        await ours.send_all(bytes(11))
    assert scope.cancelled_caught and await theirs.receive_some() == bytes(10)
