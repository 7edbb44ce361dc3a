"""The stage of a script: its server on one side, and on the other callers that act as a channel does for a host."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from random import Random
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.core.status import Status, StatusCode
from trxds.testing.network import memory_stream_pair
from trxds.transport.keepalive import Keepalive
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request

from .peer import Peer, Script

ADDRESS = "10.0.0.1:443"
PATIENCE = 60.0
"""The callers' timeout in seconds, beyond any the client has itself."""

_CAPACITY = 16 * 1024  # of what is on its way, so that little of the memory measured is that


@dataclass(frozen=True)
class Outcome:
    """The outcome of a script: the calls' statuses, the servers of all connections, memory in bytes."""

    statuses: tuple[Status, ...]
    peers: tuple[Peer, ...]
    goes_on: bool
    """Whether the first connection still stood a moment after the last call's end."""

    memory: int
    """The most that was allocated at a time, by both ends, from the first call to the last one's end.

    The message that the callers send is not in it.
    """


async def perform(script: Script, options: WireOptions, keepalive: Keepalive | None = None) -> Outcome:
    """Run a script with calls of ours."""
    async with trio.open_nursery() as nursery:
        stage = _Stage(script, nursery)
        pool = SubchannelPool(stage, options, Random(0), keepalive=keepalive)
        nursery.start_soon(pool.run)
        callers = _Callers(script, pool)
        tracemalloc.start()
        try:
            statuses = await callers.call()
            memory = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        await trio.sleep(options.flush_timeout)  # a goodbye that nobody reads takes so long
        await wait_all_tasks_blocked()
        goes_on = not stage.peers[0].gone
        nursery.cancel_scope.cancel()
    return Outcome(tuple(statuses), tuple(stage.peers), goes_on, memory)


class _Stage:
    """A network on which every client meets the script's next server."""

    def __init__(self, script: Script, nursery: trio.Nursery) -> None:
        self.peers: list[Peer] = []
        self._script = script
        self._nursery = nursery

    async def connect(self, address: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        ours, theirs = memory_stream_pair(_CAPACITY)
        peer = Peer(theirs, len(self.peers) + 1)
        self.peers.append(peer)
        self._nursery.start_soon(peer.run, self._script)
        return ours

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        raise OSError("there are no names here")


class _Callers:
    """Callers that share one host."""

    def __init__(self, script: Script, pool: SubchannelPool) -> None:
        self._script = script
        self._queue: ConflatingQueue[Any] = ConflatingQueue()
        self._host = pool.for_policies.lease(ADDRESS, self._queue).subchannel
        self._connecting = trio.Lock()
        self._message = bytes(script.request)  # which all of them send

    async def call(self) -> list[Status]:
        """Make the calls of the script."""
        if not self._script.at_once:
            return [await self._call_once() for _ in range(self._script.calls)]
        statuses: list[Status] = []

        async def call() -> None:
            statuses.append(await self._call_once())

        await self._connect()
        async with trio.open_nursery() as nursery:
            for _ in range(self._script.calls):
                nursery.start_soon(call)
        return statuses

    async def _call_once(self) -> Status:
        status, refused = await self._attempt()
        if refused:  # begun again once, by a connection that takes new streams
            status, _ = await self._attempt()
        return status

    async def _attempt(self) -> tuple[Status, bool]:
        """Return the status, and whether the server has certainly not processed the call."""
        async with self._connecting:
            await self._connect()
        stream = self._host.open_stream(Request("/shop.Cart/Add", "shop", one_reply=self._script.reads))
        if stream is None:
            assert self._host.error is not None
            return self._host.error, False
        with trio.move_on_after(PATIENCE):
            stream.send_nowait(self._message, end=True)
            if not self._script.reads:
                await trio.sleep_forever()
            await stream.receive_unary()
        status, refused = stream.status, stream.refused
        stream.cancel()
        return status or Status(StatusCode.DEADLINE_EXCEEDED), refused

    async def _connect(self) -> None:
        """Connect once; a failed attempt is not repeated."""
        while self._host.state not in (Connectivity.READY, Connectivity.TRANSIENT_FAILURE):
            self._host.request_connection()
            await self._queue.next()
