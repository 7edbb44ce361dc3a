"""A resource that nobody wants for a moment while the server sends it: it is there again within a round trip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from support.world import World
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import resources
from trxds.testing.management import ManagementServer

pytestmark = pytest.mark.slow

TYPES = {type.kind: type for type in RESOURCE_TYPES.values()}
MAKE: dict[str, Callable[[str, str], Any]] = {
    "LDS": lambda name, mark: resources.listener(name, routes=mark),
    "RDS": lambda name, mark: resources.routes(name, resources.route(mark)),
    "CDS": lambda name, mark: resources.cluster(name, idle_timeout=float(mark)),
    "EDS": lambda name, mark: resources.endpoints(name, resources.locality(f"10.0.0.2:{mark}")),
}


async def steps(count: int) -> None:
    for _ in range(count):
        await trio.lowlevel.checkpoint()


@pytest.fixture(params=["what is new", "snapshots"])
def world(request: pytest.FixtureRequest) -> World:
    world = World()
    world.plane = ManagementServer(snapshots=request.param == "snapshots")
    return world


@pytest.mark.parametrize("before", [0, 4, 8], ids=lambda steps: f"{steps} steps before")
@pytest.mark.parametrize("kind", MAKE)
async def test_a_resource_dropped_for_a_moment_is_served_for_any_gap(
    world: World, kind: str, before: int, autojump_clock: MockClock
) -> None:
    """The server sends it, some steps later nobody wants it any more, and after the gap somebody does."""
    world.plane.put(MAKE[kind]("x", "1"), MAKE[kind]("y", "1"))
    async with world.run():
        world.watcher.watch(TYPES[kind], "y")
        watch = world.watcher.watch(TYPES[kind], "x")
        await wait_all_tasks_blocked()
        began = trio.current_time()
        for gap in range(61):
            old = world.state("x").value
            world.plane.put(MAKE[kind]("x", str(1000 + gap)))
            await steps(before)
            watch.cancel()
            await steps(gap)
            world.watcher.states.clear()
            watch = world.watcher.watch(TYPES[kind], "x")
            await wait_all_tasks_blocked()
            assert "x" in world.watcher.states, f"after a gap of {gap} steps"
            assert world.state("x").value not in (None, old), f"after a gap of {gap} steps"
        assert trio.current_time() == began


@pytest.mark.parametrize("kind", MAKE)
async def test_a_resource_dropped_for_a_moment_is_served_if_others_change_in_the_gap(
    world: World, kind: str, autojump_clock: MockClock
) -> None:
    """A response without it crosses the request that drops it, so the server does not hear of that."""
    world.plane.put(MAKE[kind]("x", "1"), MAKE[kind]("y", "1"))
    async with world.run():
        world.watcher.watch(TYPES[kind], "y")
        watch = world.watcher.watch(TYPES[kind], "x")
        await wait_all_tasks_blocked()
        began = trio.current_time()
        for gap in range(61):
            watch.cancel()
            await steps(gap // 4)
            world.plane.put(MAKE[kind]("y", str(1000 + gap)))
            await steps(gap % 4 * 2)
            world.watcher.states.clear()
            watch = world.watcher.watch(TYPES[kind], "x")
            await wait_all_tasks_blocked()
            assert "x" in world.watcher.states, f"gap {gap}"
            assert world.state("x").value is not None
        assert trio.current_time() == began
