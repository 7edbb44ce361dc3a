"""A resolver of a program for tests: the test says what it yields, and when it raises or ends."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import ask
from support.plain import hosts_in_memory

from trxds import RpcError
from trxds.resolvers import ResolverArgs, ResolverUpdate

TARGET = "my:///cart"
ROUND_ROBIN = {"loadBalancingConfig": [{"round_robin": {}}]}


class Feed:
    """`resolve` is the resolver. What was fed before it began is not lost."""

    def __init__(self, *updates):
        self.steps, self._receive = trio.open_memory_channel(100)
        self.args: list[ResolverArgs] = []  # of each start
        self.started_at: list[float] = []
        self.seen: Counter[str] = Counter()
        for update in updates:
            self.push(update)

    def push(self, *endpoints, **more):
        """Yield these endpoints next; also a whole ResolverUpdate, or an exception to raise."""
        if len(endpoints) == 1 and not isinstance(endpoints[0], str) and not hasattr(endpoints[0], "addresses"):
            self.steps.send_nowait(endpoints[0])
        else:
            self.steps.send_nowait(ResolverUpdate(endpoints, **more))

    def end(self):
        """End the iterator after what was fed."""
        self.steps.send_nowait(None)

    async def resolve(self, args: ResolverArgs) -> AsyncIterator[ResolverUpdate]:
        self.args.append(args)
        self.started_at.append(trio.current_time())
        self.seen["begun"] += 1
        try:
            async for step in self._receive:
                if step is None:
                    return
                if isinstance(step, BaseException):
                    raise step
                yield step
        finally:
            self.seen["ended"] += 1

    @property
    def running(self):
        return self.seen["begun"] - self.seen["ended"]


async def settled():
    """Sleep long enough for any change to arrive, on a clock that jumps."""
    await trio.sleep(0.5)


@asynccontextmanager
async def resolved(feed, count=3, *, target=TARGET, **options):
    options = {"service_config": ROUND_ROBIN} | options
    resolvers = {"my": getattr(feed, "resolve", feed)}
    async with hosts_in_memory(count) as mesh, mesh.channel(target, resolvers=resolvers, **options) as channel:
        yield mesh, channel


async def failure(channel, **more):
    with pytest.raises(RpcError) as failed:
        await ask(channel, **more)
    return failed.value.status


def warnings_of(channel):
    return channel.admin_view().warnings
