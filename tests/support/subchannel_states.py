"""A pool of subchannels, and the states of one of them."""

from __future__ import annotations

from random import Random

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.testing import Call, unary
from trxds.transport.pool import Lease, SubchannelPool
from trxds.transport.subchannel import Subchannel

ADDRESS = "10.0.0.1:443"


class Middle(Random):
    """A random source without jitter."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


async def echo(request: bytes, call: Call) -> bytes:
    return request


async def hang(call: Call) -> None:
    async for message in call:
        await call.send(message)


HANDLERS = {"/s/Echo": unary(echo), "/s/Hang": hang}


class States:
    """The states that a queue gets from a subchannel, with the time since the beginning."""

    def __init__(self, pool: SubchannelPool, address: str = ADDRESS) -> None:
        self.queue: ConflatingQueue[Subchannel] = ConflatingQueue()
        self.lease: Lease = pool.for_policies.lease(address, self.queue)
        self.host = self.lease.subchannel
        self.seen: list[tuple[Connectivity, float]] = []
        self._began = trio.current_time()

    async def watch(self) -> None:
        while True:
            for sender, host in (await self.queue.next()).items():
                assert sender == ("host", host.address) and host is self.host
                self.seen.append((host.state, round(trio.current_time() - self._began, 3)))

    async def until(self, state: Connectivity) -> None:
        while self.host.state is not state:
            await self.queue.next()


async def ready(states: States) -> None:
    states.host.request_connection()
    await states.until(Connectivity.READY)


IDLE, CONNECTING, READY, FAILURE = (
    Connectivity.IDLE,
    Connectivity.CONNECTING,
    Connectivity.READY,
    Connectivity.TRANSIENT_FAILURE,
)
