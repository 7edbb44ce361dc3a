"""A resolver between a fake control plane and a fake root of the tree."""

from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import trio
from support.picture import has, listens, routed
from support.tasks import task_names
from trio.testing import wait_all_tasks_blocked

from trxds.core.metadata import EMPTY
from trxds.resolver.config_log import ConfigLog
from trxds.resolver.config_selector import Selection
from trxds.resolver.resolver_result_handler import ResolverResultHandler
from trxds.resolver.xds_resolver import XdsResolver


class FakeSource:
    """Resources as the test puts them; a watch is told at once what is known."""

    def __init__(self):
        self.states = {}
        self.watching = {}

    def watch(self, kind, name, queue, sender):
        key = (kind.kind, name)
        assert key not in self.watching, "watched twice"
        self.watching[key] = (queue, sender)
        if key in self.states:
            queue.put(sender, self.states[key])
        return FakeWatch(self, key)

    def describe_pending(self, kind, name):
        return f"{kind.kind} {name} is awaited"

    def put(self, states):
        for key, state in states.items():
            self.states[key] = state
            if key in self.watching:
                queue, sender = self.watching[key]
                queue.put(sender, state)


@dataclass
class FakeWatch:
    source: FakeSource
    key: tuple

    def cancel(self):
        queue, sender = self.source.watching.pop(self.key)
        queue.discard(sender)


@dataclass(frozen=True)
class Root:
    """A root's report; its picker is a text."""

    picker: str
    generation: int


async def nowhere(host, port):
    raise AssertionError("no name is looked up here")


class FakePool:
    def __init__(self):
        self.changes = 0

    def begin_update(self):
        self.changes += 1

    def end_update(self):
        self.changes -= 1


class Rig:
    """`sent` are the root configurations with their generations, `published` what RPCs came to see."""

    def __init__(self, look_up=nowhere):
        self.source = FakeSource()
        self.pool = FakePool()
        self.sent = []
        self.answered = 0
        self.published = []
        downstream = ResolverResultHandler(
            lambda entries, generation: self.sent.append((generation, entries)),
            lambda selector, report: self.published.append((selector, report.picker)),
            tuple,
            self.pool,
            ConfigLog("xds:///shop", trio.current_time),
            bind_mirrors=None,
            apply_config=lambda config: None,
        )
        self.resolver = XdsResolver(self.source, look_up, "shop", "shop", downstream, Random(1))

    @asynccontextmanager
    async def running(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.resolver.run, name="resolver")
            yield self
            nursery.cancel_scope.cancel()

    # -- the world moves

    async def put(self, *states):
        for each in states:
            self.source.put(each)
        await wait_all_tasks_blocked()

    async def answer(self, picker="picker"):
        """The root has decided about the newest configuration it was sent."""
        await self.report(picker, self.generation)

    async def report(self, picker, generation):
        self.answered = generation
        self.resolver.queue.put("root", Root(picker, generation))
        await wait_all_tasks_blocked()

    async def settle(self, *states):
        """Put and answer, until the resolver wants nothing more."""
        await self.put(*states)
        while self.answered < self.generation:
            await self.answer(f"picker {self.generation}")

    # -- what came of it

    @property
    def generation(self):
        return self.sent[-1][0] if self.sent else 0

    @property
    def clusters(self):
        """Those that the root was told of last."""
        return set(self.sent[-1][1])

    @property
    def given_up(self):
        """Those of them whose RPCs are dropped."""
        return {name for name, entry in self.sent[-1][1].items() if entry.deleted}

    def chosen(self):
        """Where an RPC goes now: its Selection, or the refusal's message."""
        found = self.published[-1][0].choose("/s/m", EMPTY)
        return found if isinstance(found, Selection) else found.status.message

    def tables(self):
        return sorted(name for name in task_names() if name.startswith("route table/"))


def shop(*clusters):
    """Listener, routes and those clusters, complete."""
    states = listens() | routed(*clusters)
    for name in clusters:
        states |= has(name, "1.1.1.1:1")
    return states
