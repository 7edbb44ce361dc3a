"""An asyncio program meets Trio: futures of `trxds.sync`, guest mode, and errors that name `trxds.aio`."""

import asyncio

import pytest
import trio

import trxds
import trxds.aio
import trxds.sync
from trxds import RpcError
from trxds.testing import serve


def for_threads(world):
    return trxds.sync.open_channel("xds:///shop", **world.options({}))


def test_a_cancelled_asyncio_task_cancels_its_call(world):
    async def main(channel):
        hang = channel.method("/shop.Cart/Hang").future(b"")
        await asyncio.to_thread(world.wait, world.began)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.wrap_future(hang)

    with for_threads(world) as channel:
        asyncio.run(main(channel))
    world.wait(world.ended)


def test_an_asyncio_task_gets_the_rpc_error_itself(world):
    async def main(channel):
        await asyncio.wrap_future(channel.method("/shop.Cart/Fail").future(b""))

    with for_threads(world) as channel, pytest.raises(RpcError, match="no such cart"):
        asyncio.run(main(channel))


async def enter(block):
    async with block:
        pass


OPENINGS = {
    "open_channel": lambda: trxds.open_channel("dns:///shop"),
    "open_xds_client": lambda: trxds.open_xds_client(bootstrap={}),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_an_asyncio_task_that_opens_a_trio_channel_is_told_of_trxds_aio(name):
    with pytest.raises(
        RuntimeError, match=rf"trxds\.{name} runs on Trio, and this task runs on asyncio; use trxds\.aio"
    ):
        asyncio.run(enter(OPENINGS[name]()))


def test_an_asyncio_task_that_serves_for_tests_is_told_of_a_thread():
    with pytest.raises(
        RuntimeError, match=r"trxds\.testing\.serve runs on Trio, .* asyncio; call trio\.run in a thread"
    ):
        asyncio.run(enter(serve({})))


def test_a_channel_that_is_opened_without_any_event_loop_names_trio_run():
    with pytest.raises(RuntimeError, match=r"no Trio runs here; begin with trio\.run\(main\), or use trxds\.sync"):
        enter(trxds.open_channel("dns:///shop")).send(None)


def test_a_trio_task_beside_asyncio_in_guest_mode_opens_channels():
    ended = []

    async def main():
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        trio.lowlevel.start_guest_run(
            enter,
            trxds.open_channel("dns:///shop"),
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=lambda outcome: (ended.append(outcome), done.set()),
        )
        await done.wait()

    asyncio.run(main())
    assert ended[0].unwrap() is None


def test_a_trio_task_that_opens_a_channel_for_asyncio_is_told_of_trios():
    with pytest.raises(RuntimeError, match=r"trxds\.aio opens channels for asyncio, .*; in Trio use trxds\.open_ch"):
        trio.run(enter, trxds.aio.open_channel("dns:///shop"))
