"""The demo put together: a control plane, six backends, the traffic and the story, in one nursery."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import trio

import trxds
from trxds.testing import ManagementServer, serve, serve_management, unary

from .mesh import HOSTS, METHOD, SERVICE, Host, Mesh
from .screen import Screen, board_of
from .story import Step, choose_cast, steps
from .traffic import Clock, run_traffic
from .verdict import Record, Verdict, judge

REFRESH = 0.25  # seconds between two looks at the table


async def run_demo(seconds: float, sticky: bool, screen: Screen) -> Verdict:
    """Play the whole demo, `seconds` long; without `sticky` there is no session filter."""
    async with _backends() as hosts, serve_management() as plane:
        shop = Shop(plane, Mesh(hosts, sticky=sticky))
        async with trxds.open_channel(f"xds:///{SERVICE}", bootstrap=plane.bootstrap()) as channel:
            await channel.method(METHOD, None, None)(b"warm up", timeout=10, wait_for_ready=True)
            record, clock = Record(), Clock(trio.current_time(), seconds)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_show, shop, record, clock, screen)
                nursery.start_soon(_tell, shop, record, clock, screen)
                await run_traffic(channel, record, clock)
                nursery.cancel_scope.cancel()
    return judge(record)


@asynccontextmanager
async def _backends() -> AsyncIterator[tuple[Host, ...]]:
    """The hosts with their addresses; each answers its own name."""
    async with AsyncExitStack() as stack:
        hosts = []
        for host in HOSTS:
            server = await stack.enter_async_context(serve({METHOD: unary(_answer(host.name))}))
            hosts.append(replace(host, address=server.address))
        yield tuple(hosts)


class Shop:
    """What the control plane serves now; a step of the story replaces it."""

    def __init__(self, plane: ManagementServer, mesh: Mesh) -> None:
        self.plane = plane
        self.mesh = mesh
        plane.put(*mesh.resources())

    def become(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.plane.put(*mesh.resources())


async def _tell(shop: Shop, record: Record, clock: Clock, screen: Screen) -> None:
    """Play the steps at even distances, once every session knows its host."""
    await clock.until(1 / 7)
    story = steps(choose_cast(shop.mesh, record.host_of))
    record.steps_left = [step.title for step in story]
    for number, step in enumerate(story, 1):
        await clock.until(number / 7)
        await _play(step, shop, record, clock)
        record.steps_left.remove(step.title)
        screen.happened(clock.elapsed, step.title)


async def _play(step: Step, shop: Shop, record: Record, clock: Clock) -> None:
    if step.removes is not None:
        record.removed_at[step.removes] = clock.elapsed
    if step.change is not None:
        shop.become(step.change(shop.mesh))
        await shop.plane.settled()
    else:
        await shop.plane.restart()


async def _show(shop: Shop, record: Record, clock: Clock, screen: Screen) -> None:
    before: dict[str, int] = {}
    while True:
        screen.update(board_of(shop.mesh, record, clock.elapsed, before))
        before = dict(record.by_host)
        await trio.sleep(REFRESH)
