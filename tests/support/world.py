"""An xDS client, a watcher that reads, and a control plane in memory that may or may not be there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import trio
from msgspec import structs

from trxds.core.clock import since_1970
from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.lb.load_report.load_store import LoadStore
from trxds.resources.context import ParseContext
from trxds.resources.types import ResourceType
from trxds.testing import MemoryNetwork
from trxds.testing.management import ManagementServer
from trxds.xds.bootstrap import Bootstrap, Node, ServerConfig
from trxds.xds.watch_registry import Watch
from trxds.xds.xds_client import XdsClient

PLANE = "10.0.0.5:18000"
BOOTSTRAP = Bootstrap(servers=(ServerConfig(PLANE),), node=Node("web-1"))
WHERE = f'(server {PLANE}, node "web-1")'


class Watcher:
    """One queue, and what its letters said last."""

    def __init__(self, client: XdsClient) -> None:
        self.client = client
        self.queue: ConflatingQueue[ResourceUpdate] = ConflatingQueue()
        self.states: dict[Any, ResourceUpdate] = {}

    def watch(self, type: ResourceType, name: str) -> Watch:
        return self.client.watch(type, name, self.queue, name)

    async def hears(self) -> dict[Any, ResourceUpdate]:
        letters = await self.queue.next()
        self.states.update(letters)
        return letters

    async def reads(self) -> None:
        while True:
            await self.hears()


class World:
    """A client that runs, a watcher that reads, and a plane that may or may not be there."""

    features: frozenset[str] = frozenset()  # of every server

    def __init__(self, bootstrap: Bootstrap = BOOTSTRAP) -> None:
        bootstrap = structs.replace(bootstrap, servers=tuple(map(self.featured, bootstrap.servers)))
        self.network = MemoryNetwork()
        self.plane = ManagementServer()
        self.client = XdsClient(bootstrap, self.network, Random(1), ParseContext(), LoadStore(), time_of_day=since_1970)
        self.watcher = Watcher(self.client)

    def featured(self, server: ServerConfig) -> ServerConfig:
        return structs.replace(server, features=self.features)

    def says(self) -> list[str]:
        """Every request, without the versions: one protocol has them, the other has not."""
        return [re.sub(r" v=\d+", "", str(request)) for request in self.plane.requests]

    def state(self, name: str) -> ResourceUpdate:
        return self.watcher.states[name]

    def error(self, name: str) -> str:
        status = self.state(name).error
        assert status is not None
        return status.message

    @asynccontextmanager
    async def run(self, *, plane: bool = True) -> AsyncIterator[World]:
        with trio.fail_after(3600):  # on the jumping clock: a test that hangs fails
            async with trio.open_nursery() as nursery:
                if plane:
                    await nursery.start(self.serve)
                nursery.start_soon(self.client.run)
                nursery.start_soon(self.watcher.reads)
                yield self
                nursery.cancel_scope.cancel()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with self.plane.serve(PLANE, self.network):
            task_status.started()
            await trio.sleep_forever()
