"""A channel for asyncio ends with its block, and leaves nothing, whatever becomes of tasks, event loops and forks."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio
from support.asyncio_tests import in_asyncio
from support.threads import PATIENCE

import trxds.aio
from trxds import BootstrapError, RpcError
from trxds.aio import hand_over
from trxds.testing import resources


def trio_threads():
    return {each for each in threading.enumerate() if each.name == "trxds-trio"}


@in_asyncio
async def test_a_closed_channel_leaves_no_thread(world):
    async with world.channel() as channel:
        async with channel.session() as session:
            await session.method("/shop.Cart/Echo")(b"a")
        assert len(trio_threads()) == 1
    assert trio_threads() == set()


@in_asyncio
async def test_leaving_the_block_ends_the_calls_of_other_tasks(world):
    async with world.channel() as channel:
        hang = channel.method("/shop.Cart/Hang")
        hanging = asyncio.create_task(hang(b""))
        await world.until(world.began)
    with pytest.raises(RpcError, match="CANCELLED: channel closed"):
        await hanging
    with pytest.raises(trio.ClosedResourceError, match="the channel to xds:///shop is closed"):
        await hang(b"")


class TakenSinceTheLook(deque):
    """The other thread takes everything out when this one has seen that there is something."""

    def __bool__(self):
        there_was = len(self) > 0
        self.clear()
        return there_was


@pytest.mark.parametrize("is_closed", [False, True])
def test_two_threads_may_take_what_goes_to_a_channel_that_closes(is_closed, monkeypatch):
    monkeypatch.setattr(hand_over, "deque", TakenSinceTheLook)
    begun = []

    class Channel:
        def call_soon(self, function):
            if is_closed:
                raise trio.ClosedResourceError
            begun.append(function)

    class Loop:
        def call_soon(self, function):
            function()

    bridge = hand_over.LoopBridge(Channel(), Loop())
    bridge.send(lambda: pytest.fail("the other thread has it"))
    for function in begun:
        function()


@in_asyncio
async def test_leaving_the_block_ends_blocks_of_other_tasks_silently(world):
    entered, closed = asyncio.Event(), asyncio.Event()

    async def stay(channel):
        async with channel.session(), channel.method("/shop.Cart/Hang").open(b""):
            entered.set()
            await closed.wait()

    async with world.channel() as channel:
        staying = asyncio.create_task(stay(channel))
        await entered.wait()
    closed.set()
    await staying


@in_asyncio
async def test_a_task_that_is_cancelled_in_the_channel_s_block_closes_the_channel(world):
    async def stay():
        async with world.channel() as channel:
            await channel.method("/shop.Cart/Hang")(b"")

    staying = asyncio.create_task(stay())
    await world.until(world.began)
    staying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await staying
    assert trio_threads() == set()
    await world.until(world.ended)


@in_asyncio
async def test_a_task_that_is_cancelled_while_it_opens_a_channel_leaves_no_thread(world):
    async def open_one():
        async with world.channel():
            raise AssertionError

    opening = asyncio.create_task(open_one())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert trio_threads() == set()


def wait_for_no_thread():
    for each in trio_threads():
        each.join(PATIENCE)
    assert trio_threads() == set()


@in_asyncio
async def test_a_bad_bootstrap_or_target_raises_at_once(world):
    with pytest.raises(BootstrapError):
        async with world.channel(bootstrap={}):
            raise AssertionError
    with pytest.raises(ValueError, match="grcp"):
        async with trxds.aio.open_channel("grcp:shop"):
            raise AssertionError
    with pytest.raises(ValueError, match="this channel has its own"):
        async with trxds.aio.open_channel("xds:///shop", xds=object()):
            raise AssertionError
    assert trio_threads() == set()


def test_a_channel_is_used_from_several_loops(world):
    """One after the other, of which the first is closed, and at the same time."""

    async def open_one():
        block = world.channel()
        return block, await block.__aenter__()

    async def echo(channel, text):
        return await channel.method("/shop.Cart/Echo")(text)

    with asyncio.Runner() as first:
        block, channel = first.run(open_one())
        with ThreadPoolExecutor(3) as threads:
            replies = threads.map(lambda text: asyncio.run(echo(channel, text)), [b"1", b"2", b"3"])
            assert list(replies) == [b"1", b"2", b"3"]
        first.run(block.__aexit__(None, None, None))
    assert trio_threads() == set()


def test_a_channel_outlives_its_loop_and_ends_when_nobody_has_it(world):
    async def open_one():
        block = world.channel()
        blocks.append(block)
        channel = await block.__aenter__()
        waiting.append(asyncio.create_task(channel.method("/shop.Cart/Hang")(b"")))
        await world.until(world.began)
        return channel

    async def echo(channel):
        return await channel.method("/shop.Cart/Echo")(b"a")

    blocks, waiting = [], []
    loop = asyncio.new_event_loop()
    channel = loop.run_until_complete(open_one())
    waiting.pop().cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert asyncio.run(echo(channel)) == b"a"
    assert len(trio_threads()) == 1
    del channel
    blocks.clear()
    gc.collect()
    wait_for_no_thread()


def test_a_result_for_a_closed_loop_harms_nobody(world):
    async def receive(channel):
        await channel.method("/shop.Cart/Echo")(b"")  # so that the next is quick
        blocks.append(channel.method("/shop.Cart/Hang").open(b"", timeout=1))
        call = await blocks[0].__aenter__()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await call.receive()  # it goes on in Trio, for the next `receive`

    def leave_behind(channel):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(receive(channel))
        loop.close()

    async def main():
        async with world.channel() as channel:
            await asyncio.to_thread(leave_behind, channel)
            await world.until(world.ended)
            assert await channel.method("/shop.Cart/Echo")(b"a") == b"a"

    blocks = []
    asyncio.run(main())


def test_a_trio_task_that_uses_a_channel_of_asyncio_is_told_so(world):
    async def call(method):
        with pytest.raises(
            RuntimeError, match=r"one of trxds\.aio, and no asyncio runs here; in Trio use trxds\.open_"
        ):
            await method(b"")

    async def main():
        async with world.channel() as channel:
            await asyncio.to_thread(trio.run, call, channel.method("/shop.Cart/Echo"))

    asyncio.run(main())


# -- the end of the process

PREAMBLE = """
import asyncio, json, os, sys, warnings, trxds.aio
options = {"bootstrap": json.loads(sys.argv[1])}
"""


def run(program):
    """What a program printed, and how it ended; nobody answers its calls."""
    bootstrap = json.dumps(resources.bootstrap("127.0.0.1:1"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PREAMBLE + program, bootstrap],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return done.stdout, done.stderr, done.returncode


def test_a_process_ends_whose_loop_closed_before_its_channel():
    program = """
async def main():
    global block
    block = trxds.aio.open_channel("xds:///shop", **options)
    channel = await block.__aenter__()
    asyncio.create_task(channel.method("/shop.Cart/Echo")(b"", wait_for_ready=True))
    await asyncio.sleep(0.05)

asyncio.run(main())
print("the loop is closed")
"""
    assert run(program) == ("the loop is closed\n", "", 0)


def test_a_fork_is_told_that_its_channel_stayed_in_the_parent():
    program = """
async def echo(channel):
    return await channel.method("/shop.Cart/Echo")(b"")

async def main():
    async with trxds.aio.open_channel("xds:///shop", **options) as channel:
        child = await asyncio.to_thread(fork, channel)
        assert os.waitpid(child, 0)[1] == 0

def fork(channel):
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside other threads; Python 3.15 would not fork
    child = os.fork()
    if child:
        return child
    try:
        asyncio.run(echo(channel))
    except RuntimeError as error:
        print(str(error).partition(";")[0].partition("process ")[2].lstrip("0123456789, "), flush=True)
        os._exit(0)

asyncio.run(main())
"""
    out, err, code = run(program)
    assert (err, code) == ("", 0)
    assert "this process is a fork of it: its thread and its connections stayed there\n" in out
