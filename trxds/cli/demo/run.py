"""The demo put together: the shop, its customers and the story, in one nursery."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

import trxds
from trxds import admin
from trxds.testing.resources import bootstrap

from .mesh import METHOD, SERVICE, Mesh
from .screen import Screen, board_of
from .shop import Shop, open_backends
from .story import Step, choose_cast, steps
from .traffic import Clock, run_traffic
from .verdict import Record, Verdict, judge

ROUND = 60.0  # seconds: the length of the demo in a browser
REFRESH = 0.25  # seconds between two looks at the table
# Of five: the last one, the restart, is over when the client has reconnected, after a backoff of about a second.
STEP = 1 / 8
RECONNECTING = 5.0  # seconds at most; a demo of three is over before the client is back, and waits for it


async def run_demo(seconds: float, sticky: bool, screen: Screen) -> Verdict:
    """Run the demo for `seconds`; without `sticky` there is no session filter."""
    async with _opened(sticky) as (shop, channel):
        return await _play(channel, shop, seconds, screen)


async def run_live(
    seconds: float | None, sticky: bool, screen: Screen, port: int, served: Callable[[str], None]
) -> Verdict:
    """Run the demo with its live page, and call `served` with the page's address.

    The demo runs once in `seconds`. Without `seconds` it repeats, a minute each, and ends only when a promise is
    broken.
    """
    async with _opened(sticky) as (shop, channel), admin.serve(channel, address=f"127.0.0.1:{port}") as address:
        served(admin.page_url(address))
        whole = shop.mesh
        while True:
            verdict = await _play(channel, shop, seconds or ROUND, screen)
            if seconds is not None or not verdict.holds:
                return verdict
            await shop.become(whole)


@asynccontextmanager
async def _opened(sticky: bool) -> AsyncIterator[tuple[Shop, trxds.Channel]]:
    async with open_backends() as hosts, trio.open_nursery() as nursery:
        shop = Shop(Mesh(hosts, sticky=sticky))
        address = await nursery.start(shop.serve)
        async with trxds.open_channel(f"xds:///{SERVICE}", bootstrap=bootstrap(address, node="demo")) as channel:
            yield shop, channel
        nursery.cancel_scope.cancel()


async def _play(channel: trxds.Channel, shop: Shop, seconds: float, screen: Screen) -> Verdict:
    record = Record()
    await channel.method(METHOD, None, None)(b"are you there?", timeout=10, wait_for_ready=True)
    clock = Clock(trio.current_time(), seconds)
    async with trio.open_nursery() as nursery:
        finished = trio.Event()
        nursery.start_soon(_tell, shop, record, clock, screen, finished)
        nursery.start_soon(_show, shop, record, clock, screen)
        await run_traffic(channel, record, clock)
        with trio.move_on_after(RECONNECTING):
            await finished.wait()
        nursery.cancel_scope.cancel()
    screen.update(board_of(shop.mesh, record, clock.elapsed, {}))
    return judge(record)


async def _tell(shop: Shop, record: Record, clock: Clock, screen: Screen, finished: trio.Event) -> None:
    """Take the steps at even intervals, after every session has reached its first host."""
    await clock.until(STEP)
    story = steps(choose_cast(shop.mesh, record.host_of))
    record.steps_left = [step.title for step in story]
    for number, step in enumerate(story, 1):
        await clock.until(number * STEP)
        await _take(step, shop, record, clock)
        record.steps_left.remove(step.title)
        screen.happened(clock.elapsed, step.title)
    finished.set()


async def _take(step: Step, shop: Shop, record: Record, clock: Clock) -> None:
    if step.removes is not None:
        record.removed_at[step.removes] = clock.elapsed
    if step.change is not None:
        await shop.become(step.change(shop.mesh))
    else:
        await shop.restart()


async def _show(shop: Shop, record: Record, clock: Clock, screen: Screen) -> None:
    before: dict[str, int] = {}
    while True:
        screen.update(board_of(shop.mesh, record, clock.elapsed, before))
        before = dict(record.by_host)
        await trio.sleep(REFRESH)
