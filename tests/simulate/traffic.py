"""Tasks that make calls until they are cancelled: outside of sessions, in sessions, and in those of a pool."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random

import trio

import trxds

from . import invariants
from .call_plan import CallPlan
from .calls import CancelAtStep, draw, make
from .world import REBALANCED_AFTER, Client, World

USERS = 6  # of a pool


async def call_outside_of_sessions(world: World, client: Client, name: str, cancel: CancelAtStep) -> None:
    """Make calls until cancelled."""
    random = world.mesh.random(name)
    while True:
        await trio.sleep(random.expovariate(1 / world.gap))
        await make(world, draw(client, random), client.channel, random, cancel)


async def call_in_sessions(world: World, client: Client, name: str, cancel: CancelAtStep) -> None:
    """Make calls in one session after the other, until cancelled."""
    random = world.mesh.random(name)
    token, kept, released = None, [], False
    while True:
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(client.channel.session(token))
            # One that was released, or never had a host, may have none.
            invariants.a_session_keeps_its_hosts(
                world, client, session, kept if token and not released and not client.rebalances else ()
            )
            token, released, began_at = None, False, trio.current_time()
            ended_at = began_at
            pins, pinned_at = list(session.hosts.items()), -math.inf  # the hosts, and when it got them, or before
            for _ in range(random.randint(1, 60)):
                kept = list(session.hosts)
                await trio.sleep(random.expovariate(1 / world.gap))
                # A client that rebalances releases sessions that made no call for a while.
                if not released and not (client.rebalances and trio.current_time() >= ended_at + REBALANCED_AFTER):
                    invariants.a_session_keeps_its_hosts(world, client, session, kept, pinned_at)
                kept = list(session.hosts)
                if kept and list(session.hosts.items()) != pins:
                    pins, pinned_at = list(session.hosts.items()), began_at
                began_at = trio.current_time()
                plan = draw(client, random)
                plan.is_session, plan.session, plan.released = True, session, released
                plan.is_alone, plan.idle_since = True, ended_at
                plan.hosts_before = tuple((each.host, each.cluster) for each in session.hosts.values())
                if random.random() < 0.1:
                    plan.is_alone = False
                    await _make_several(world, plan, session, random, cancel)
                else:
                    status = await make(world, plan, session, random, cancel)
                    released = released and not (status is not None and status.ok)
                if not released:
                    invariants.a_session_keeps_its_hosts(world, client, session, kept, pinned_at)
                ended_at = trio.current_time()
                if random.random() < 0.02:
                    session.release()
                    released = True
                elif random.random() < 0.02:
                    released = await _move(world, client, session, random) or released
            kept = list(session.hosts)
            if random.random() < 0.5:
                token = session.export()


async def _move(world: World, client: Client, session, random: Random) -> bool:
    """Move the session to another host on purpose; return whether it may have left its host."""
    world.counts["moves"] += 1
    with trio.move_on_after(random.choice([0.0, 1.0, 20.0])):
        try:
            async with session.moving() as (_, new):
                await new.method("/shop.Cart/Add")(b"state", timeout=5.0)
        except trxds.RpcError as error:
            world.note(f"{client.name}: a move failed: {error.status}")
        except ValueError:
            return False  # it has no host yet
    return True


async def _make_several(world: World, first: CallPlan, session, random: Random, cancel: CancelAtStep) -> None:
    """Make calls of one session side by side."""
    async with trio.open_nursery() as calls:
        calls.start_soon(make, world, first, session, random, cancel)
        for _ in range(2):
            plan = draw(first.client, random)
            plan.is_session, plan.session, plan.released = True, session, first.released
            calls.start_soon(make, world, plan, session, random, cancel)


# -- a pool of sessions


@dataclass(eq=False)
class Pool:
    """A pool, and what its users did: `kept` are the cookies that a user's session had, and `left_at` when."""

    sessions: trxds.SessionPool
    most: int
    idle: float | None
    blocks: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))  # of a user, also those that wait
    entered_at: dict[int, float] = field(default_factory=dict)
    left_at: dict[int, float] = field(default_factory=dict)
    kept: dict[int, list] = field(default_factory=dict)
    holders: Counter[int] = field(default_factory=Counter)  # the users that have a block, with their blocks
    had_room_at: float = math.inf  # since when somebody waits although there is room

    def note_room(self) -> None:
        """Note whether somebody waits although there is room, for a while."""
        holders = {user for user, blocks in self.holders.items() if blocks}
        if len(holders) >= self.most or set(self.present) <= holders:
            self.had_room_at = math.inf
        else:
            self.had_room_at = min(self.had_room_at, trio.current_time())

    @property
    def present(self) -> list[int]:
        """The users that have a block, or wait for one."""
        return [user for user, blocks in self.blocks.items() if blocks]

    def must_have(self, user: int) -> bool:
        """Whether the pool must still have the session of a user that has left it: nobody needed its room."""
        if user not in self.left_at:
            return False
        left_at = self.left_at[user]
        if self.idle is not None and trio.current_time() >= left_at + self.idle:
            return False
        later = {each for times in (self.entered_at, self.left_at) for each, at in times.items() if at >= left_at}
        return len({*later, *self.present} - {user}) < self.most


async def call_in_a_pool(world: World, client: Client, name: str, cancel: CancelAtStep) -> None:
    """Make calls of some users in a pool of sessions, until cancelled."""
    random = world.mesh.random(name)
    most, idle = random.randint(1, 4), random.choice([None, 20.0])
    async with client.channel.sessions(max=most, idle=idle) as sessions, trio.open_nursery() as users:
        pool = Pool(sessions, most, idle)
        world.pools.append(pool)
        for number in range(3):
            users.start_soon(_use_pool, world, client, pool, f"{name}-{number}", cancel)


async def _use_pool(world: World, client: Client, pool: Pool, name: str, cancel: CancelAtStep) -> None:
    random = world.mesh.random(name)
    while True:
        await trio.sleep(random.expovariate(0.2 / world.gap))
        user, began = random.randrange(USERS), trio.current_time()
        has_room = len({*pool.present, user}) <= pool.most
        must_have = pool.blocks[user] == 0 and pool.must_have(user)
        pool.blocks[user] += 1
        pool.entered_at[user], has_it = began, False
        try:
            with trio.move_on_after(random.choice([0.0, 5.0, 300.0])):
                async with pool.sessions.session(user) as session:
                    has_it = True
                    pool.holders[user] += 1
                    pool.note_room()
                    waited, alone = trio.current_time() - began, pool.blocks[user] == 1
                    is_kept = must_have and alone and not client.rebalances
                    kept = pool.kept.get(user, []) if is_kept else []
                    invariants.a_pool_has_a_session_for_each_user(world, client, pool, has_room, waited)
                    invariants.a_session_keeps_its_hosts(world, client, session, kept)
                    pool.kept[user] = list(session.hosts)
                    for _ in range(random.randint(1, 3)):
                        plan = draw(client, random)
                        plan.is_session, plan.session = True, session
                        await make(world, plan, session, random, cancel)
                        pool.kept[user] = list(session.hosts)
        finally:
            pool.blocks[user] -= 1
            pool.holders[user] -= has_it
            pool.note_room()
            if has_it:
                pool.left_at[user] = trio.current_time()


async def rebalance(client: Client) -> None:
    """Let the client release idle sessions of hosts that have too many."""
    async with client.channel.rebalance_sessions(per_second=1.0, idle_for=REBALANCED_AFTER):
        await trio.sleep_forever()
