"""Whatever users do, a pool has no more sessions than it may, one for each user, and nobody waits beside free room."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.client.dataplane import LiveDataPlane
from trxds.client.lifecycle import ChannelLifecycle
from trxds.client.session_pool import SessionTable, checked_pool_options, run_table
from trxds.client.session_registry import SessionRegistry
from trxds.core.observers import Observers

USERS, MAX = 7, 3


def check(table: SessionTable, registry: SessionRegistry, inside: dict[int, int]) -> None:
    in_use, unused, waiting = table._in_use, table._unused, table._waiting
    assert len(table) == len(registry.open) <= MAX
    assert not in_use.keys() & unused.keys() and not waiting.keys() & (in_use.keys() | unused.keys())
    assert {user: pooled.blocks for user, pooled in in_use.items()} == {user: n for user, n in inside.items() if n}
    assert not waiting or len(in_use) == MAX, "nobody waits beside free room"
    assert all(each.blocks > 0 for each in waiting.values())
    assert [each.last_used for each in unused.values()] == sorted(each.last_used for each in unused.values())


@pytest.mark.parametrize("seed", range(40))
async def test_users_that_come_wait_leave_and_give_up_leave_the_pool_in_order(
    seed: int, autojump_clock: MockClock
) -> None:
    random = Random(seed)
    lifecycle = ChannelLifecycle("xds:///shop")
    registry = SessionRegistry(Observers(), lifecycle, LiveDataPlane(lifecycle), trio.current_time)
    options = checked_pool_options(MAX, random.choice([None, 3.0]), "wait", True, 5.0, False)
    inside = dict.fromkeys(range(USERS), 0)
    entered = 0

    async def visit(table: SessionTable, user: int, patience: float, stay: float) -> None:
        nonlocal entered
        with trio.move_on_after(patience):
            async with table.session(user) as session:
                inside[user] += 1
                entered += 1
                assert session.cookies in registry.open, "a session in use has not ended"
                try:
                    await trio.sleep(stay)
                finally:
                    inside[user] -= 1

    async with run_table(SessionTable(registry, options)) as table:
        async with trio.open_nursery() as nursery:
            for _ in range(80):
                for _ in range(random.randrange(4)):
                    # Whole seconds, so that much happens in one step: a turn comes as its task gives up, for example.
                    patience, stay = random.randrange(1, 9), random.randrange(5)
                    nursery.start_soon(visit, table, random.randrange(USERS), patience, stay)
                await trio.sleep(random.randrange(3))
                await wait_all_tasks_blocked()
                check(table, registry, inside)
        check(table, registry, inside)
        assert entered > 50 and table._waiting == {}
    assert registry.open == {}
