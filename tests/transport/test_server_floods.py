"""A flood of resets ends its connection, and a good client is answered during it."""

from __future__ import annotations

import gc
import math
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest
import trio
from support.attacked_server import CANCEL, ENHANCE_YOUR_CALM, Stage, on_stage
from support.hostile.peer import RST_STREAM, WINDOW_UPDATE, frame, message
from support.raw_client import data, headers
from trio.testing import wait_all_tasks_blocked

from trxds.server.server_limits import ResetBudget
from trxds.testing import Call, ServerLimits
from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow


# -- floods


def rapid_reset() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait") + frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4))


def data_behind_the_end() -> Iterator[bytes]:
    """MadeYouReset: data behind END_STREAM makes the server reset the stream."""
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait", end=True) + data(stream, b"more")


def window_too_far() -> Iterator[bytes]:
    """MadeYouReset by a window above the largest size."""
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait") + 2 * frame(WINDOW_UPDATE, 0, stream, (2**31 - 1).to_bytes(4))


def malformed_requests() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, connection="close")


def content_lengths_too_short() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait", content_length="0") + data(stream, b"more")


def headers_too_large() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, x="a" * 800, y="b" * 800)


def many_streams() -> Iterator[bytes]:
    for stream in count(1, 2):
        yield headers(stream, pseudo_path="/s/Wait")


FLOODS = {
    each.__name__: each
    for each in (
        rapid_reset,
        data_behind_the_end,
        window_too_far,
        malformed_requests,
        content_lengths_too_short,
        headers_too_large,
        many_streams,
    )
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_flood_of_resets_ends_the_connection_with_enhance_your_calm(
    flood: Callable[[], Iterator[bytes]], nursery: trio.Nursery, autojump_clock
) -> None:
    options = WireOptions(max_header_list=1000)
    async with on_stage(options=options) as stage:
        client = await stage.hostile()
        nursery.start_soon(client.read)
        with pytest.raises(trio.BrokenResourceError):
            for said in islice(flood(), 5000):
                await client.send(said)
        await wait_all_tasks_blocked()
        assert client.goaway in ((ENHANCE_YOUR_CALM,) if flood is not window_too_far else (ENHANCE_YOUR_CALM, 3))
        assert stage.begun <= 1000 + 100 + 1 and stage.most_running <= 100
        assert stage.server.connections == [] and stage.running == 0
        assert await stage.good_call() < 1


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_a_well_behaved_client_is_answered_during_a_flood_of_resets(
    flood: Callable[[], Iterator[bytes]], nursery: trio.Nursery, autojump_clock
) -> None:
    async with on_stage(limits=ServerLimits(max_resets=math.inf)) as stage:
        client = await stage.hostile()
        nursery.start_soon(client.read)
        before: list[int] = []

        async def attack() -> None:
            for said in flood():
                try:
                    await client.send(said)
                except trio.BrokenResourceError:
                    return
                before.append(len(said))

        nursery.start_soon(attack)
        for _ in range(3):
            sent = len(before)
            assert await stage.good_call() < 1
            assert len(before) - sent < 2000, "the good client had its turns"
        nursery.cancel_scope.cancel()


async def test_a_flood_of_resets_leaves_no_memory_behind(autojump_clock) -> None:
    async def attack(stage: Stage) -> None:
        client = await stage.hostile()
        async with trio.open_nursery() as reading:
            reading.start_soon(client.read)
            with pytest.raises(trio.BrokenResourceError):
                flood = rapid_reset()
                while True:
                    await client.send(*islice(flood, 50))
            reading.cancel_scope.cancel()
        await client.transport.aclose()  # what it sent and nobody read belongs to its own end
        await wait_all_tasks_blocked()

    async with on_stage() as stage:
        await attack(stage)  # what is made once
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(2):
                await attack(stage)
            gc.collect()
            left = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert left < 100_000


# -- the budget for resets


def test_the_reset_budget_refills_with_time_and_with_served_calls() -> None:
    budget = ResetBudget(burst=2, rate=0.5, now=10)
    assert [budget.spend(10) for _ in range(3)] == [True, True, False]
    budget = ResetBudget(burst=2, rate=0.5, now=10)
    assert [budget.spend(now) for now in (10, 10, 12, 13)] == [True, True, True, False]
    budget = ResetBudget(burst=2, rate=0, now=0)
    for _ in range(5):
        budget.earn()
    assert [budget.spend(0) for _ in range(2)] == [True, True]
    budget.earn()
    assert [budget.spend(100) for _ in range(2)] == [True, False]


async def test_a_client_that_hedges_may_go_on_for_ever(nursery: trio.Nursery, autojump_clock) -> None:
    """One of two calls is cancelled, hundreds of times without a pause."""
    async with on_stage(limits=ServerLimits(max_resets=50)) as stage:
        client = await stage.hostile()
        for stream in range(1, 1201, 4):
            hedge = stream + 2
            await client.send(headers(stream, pseudo_path="/s/Echo"), data(stream, message(b"x"), end=True))
            await client.send(headers(hedge, pseudo_path="/s/Wait"))
            assert (await client.answer(stream))["grpc-status"] == "0"
            await client.send(frame(RST_STREAM, 0, hedge, CANCEL.to_bytes(4)))
        assert client.goaway is None and stage.server.connections != []


async def test_a_server_that_resets_its_own_calls_is_not_counted(nursery: trio.Nursery, autojump_clock) -> None:
    async def refuse(call: Call) -> None:
        call.reset(ENHANCE_YOUR_CALM)

    async with on_stage(limits=ServerLimits(max_resets=3)) as stage:
        stage.server.fallback = refuse
        client = await stage.hostile()
        for stream in range(1, 41, 2):
            await client.send(headers(stream))
            assert (await client.answer(stream))["reset"] == "11"
        assert client.goaway is None
