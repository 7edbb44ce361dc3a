"""A mesh with a channel, and an observer of its calls."""

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh, ask
from support.watching import Watcher


@asynccontextmanager
async def watched(hosts=1, *, sessions=False, connected=True, **how):
    """Run a mesh, a channel, and an observer that is added when the channel is connected."""
    async with Mesh.run(hosts, sessions=sessions) as mesh, mesh.channel(**how) as channel:
        if connected:
            await ask(channel)
            await trio.sleep(1)
        watcher = Watcher()
        with channel.observed_by(watcher):
            yield mesh, channel, watcher
