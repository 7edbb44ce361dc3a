"""A viewer of a channel's state, and a mesh that it watches."""

from contextlib import asynccontextmanager

import trio
from support.mesh import Mesh, ask

from trxds.admin import state_stream
from trxds.admin.state_stream.changes import apply


class Eyes:
    """One viewer who keeps the state, as every viewer does."""

    def __init__(self, view, states=None):
        self.view = view
        self.states = states
        self.state = {}
        self.numbers = []
        self.snapshots = 0
        self.events = []

    async def read(self):
        message = await anext(self.view)
        self.numbers.append(message["number"])
        if "snapshot" in message:
            self.state = message["snapshot"]
            self.snapshots += 1
        else:
            self.state = apply(self.state, message["changes"])
            self.events += message["events"]

    async def see(self, condition):
        """Read until it is so; the clock's end is the test's."""
        with trio.fail_after(60):
            while not condition(self.state):
                await self.read()
        return self.state

    def row(self, section, **fields):
        """The one row of the section that has these."""
        [row] = [row for row in self.state[section].values() if fields.items() <= row.items()]
        return row


@asynccontextmanager
async def watched(hosts=2, calls=1, policies=None, **more):
    """A mesh, a channel that has called, and eyes that have seen the snapshot."""
    async with Mesh.run(hosts) as mesh, mesh.channel(policies=policies) as channel:
        for _ in range(calls):
            await ask(channel)
        async with state_stream.open(channel) as opened, opened.subscribe(**more) as view:
            eyes = Eyes(view, opened)
            await eyes.read()
            yield mesh, channel, eyes
