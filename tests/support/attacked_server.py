"""A server in memory, with good clients and hostile ones."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio
from support.raw_client import RawClient

from trxds.core.status import OK
from trxds.testing import Call, MemoryNetwork, Server, serve, unary
from trxds.transport.connection import Connection
from trxds.transport.request import Request

ENHANCE_YOUR_CALM, NO_ERROR = 11, 0
REFUSED_STREAM, CANCEL = 7, 8
ADDRESS = "s:1"


class Stage:
    """A server in memory; `cancelled` counts the handlers that were cancelled."""

    def __init__(self, network: MemoryNetwork, server: Server) -> None:
        self.network, self.server = network, server
        self.begun = self.running = self.most_running = self.cancelled = 0

    async def wait(self, call: Call) -> None:
        self.begun += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def linger(self, call: Call) -> None:
        """A handler that has to clean up when it is cancelled."""
        try:
            await self.wait(call)
        finally:
            with trio.CancelScope(shield=True):
                self.running += 1
                await trio.sleep(10)
                self.running -= 1

    async def hostile(self) -> RawClient:
        client = RawClient(await self.network.connect(ADDRESS))
        await client.greet()
        return client

    async def good_call(self) -> float:
        """Return the time that a good client's call takes, with connecting, on the test's clock."""
        began = trio.current_time()
        connection = Connection(await self.network.connect(ADDRESS), peer=ADDRESS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            assert await connection.wait_ready()
            stream = connection.open_stream(Request("/s/Echo", "shop", one_reply=True))
            assert stream is not None
            stream.send_nowait(b"x", end=True)
            assert await stream.receive_unary() == b"x" and stream.status == OK
            nursery.cancel_scope.cancel()
        return trio.current_time() - began


@asynccontextmanager
async def on_stage(**how):
    async def echo(request: bytes, call: Call) -> bytes:
        return request

    network = MemoryNetwork()
    async with serve(network=network, address=ADDRESS, remember_calls=False, **how) as server:
        stage = Stage(network, server)
        server.handlers.update({"/s/Echo": unary(echo), "/s/Wait": stage.wait, "/s/Linger": stage.linger})
        yield stage
