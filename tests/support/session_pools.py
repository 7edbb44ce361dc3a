"""A pool of sessions in front of a mesh, and tasks that stay in its sessions."""

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh, ask
from trio.testing import wait_all_tasks_blocked


@asynccontextmanager
async def pool_of(hosts=4, **options):
    async with (
        Mesh.run(hosts) as mesh,
        mesh.channel() as channel,
        channel.sessions(**{"max": 3} | options) as pool,
    ):
        yield mesh, channel, pool


async def visit(pool, user):
    """One block with one call; its host, and the number of the session's calls."""
    async with pool.session(user) as session:
        return await ask(session), session.calls


def users(pool):
    """In the order in which they would make room."""
    return [*pool._sessions._unused]


class Visitor:
    """A task that stays in the session of a user until it is told to leave."""

    def __init__(self, pool, user):
        self.pool, self.user = pool, user
        self.entered, self.left = trio.Event(), trio.Event()
        self.scope = trio.CancelScope()
        self._leave = trio.Event()

    async def run(self):
        with self.scope:
            async with self.pool.session(self.user) as self.session:
                self.entered.set()
                await self._leave.wait()
        self.left.set()

    async def leave(self):
        self._leave.set()
        await self.left.wait()
        await wait_all_tasks_blocked()


async def visitors(nursery, pool, *names):
    each = []
    for name in names:
        each.append(Visitor(pool, name))
        nursery.start_soon(each[-1].run)
        await wait_all_tasks_blocked()  # in the order of their names
    return each
