"""A state stream that says what a test wants, in place of one that looks at channels."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager

import trio

from trxds.admin.access import AccessPolicy
from trxds.admin.http_service import HttpService
from trxds.admin.server import AdminConnections


class FakeStateStream:
    """`say` a message, and every viewer gets it; `taken` counts what viewers took."""

    shows_metadata = False

    def __init__(self, **sections):
        self.snapshot = {name: sections.get(name, {}) for name in NAMES}
        self.taken = 0
        self.viewers = []
        self._changed = trio.Event()

    @asynccontextmanager
    async def subscribe(self, metadata=False):
        send, receive = trio.open_memory_channel(math.inf)
        send.send_nowait({"number": 1, "snapshot": self.snapshot})
        self.viewers.append(send)
        try:
            yield Counted(self, receive)
        finally:
            self.viewers.remove(send)
            self.tell()

    def say(self, *changes, events=()):
        for viewer in self.viewers:
            viewer.send_nowait({"number": 2, "changes": list(changes), "events": list(events)})

    def tell(self):
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, holds):
        while not holds():
            await self._changed.wait()


class Counted:
    """What one viewer iterates over."""

    def __init__(self, feed, receive):
        self._feed = feed
        self._receive = receive

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = await anext(self._receive)
        self._feed.taken += 1
        self._feed.tell()
        return message


NAMES = ("channels", "nodes", "endpoints", "connections", "resources", "sessions")


def admin_connections(states, admin):
    """The connections of an admin surface whose page shows these states."""
    access = AccessPolicy(admin)
    return AdminConnections(access, {}, HttpService(access, states, {}))
