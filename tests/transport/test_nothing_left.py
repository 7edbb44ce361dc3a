"""A transport that is cancelled at any step of any task leaves no open socket and no unanswered caller."""

from __future__ import annotations

from random import Random

import pytest
import trio
from msgspec import structs
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.testing import Call, MemoryNetwork, bidi_streaming, serve
from trxds.testing.network import MemoryStream
from trxds.transport.client_stream import ClientStream
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.request import Request
from trxds.transport.subchannel import Subchannel

pytestmark = pytest.mark.slow

SMALL = WireOptions(stream_window=10_000, unsent_bound=5_000)


class CancelAtStep(trio.abc.Instrument):
    """Cancels `scope` before the given step of the scheduler."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self.left = step
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if not self.left:
            self._scope.cancel()


class WatchedNetwork(MemoryNetwork):
    """A network that remembers the client's ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[MemoryStream] = []

    async def connect(self, address: str) -> trio.abc.Stream:
        stream = await super().connect(address)
        assert isinstance(stream, MemoryStream)
        self.ends.append(stream)
        return stream


async def echo(requests, call: Call):
    async for message in requests:
        yield message


async def client(network: MemoryNetwork, streams: list[ClientStream], lean: bool) -> None:
    """Connect, exchange two messages larger than the window, and close."""
    pool = SubchannelPool(network, structs.replace(SMALL, lean=lean), Random(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run)
        queue: ConflatingQueue[Subchannel] = ConflatingQueue()
        lease = pool.for_policies.lease("s:1", queue)
        lease.subchannel.request_connection()
        while lease.subchannel.state is not Connectivity.READY:
            await queue.next()
        stream = lease.subchannel.open_stream(Request("/s/All", "s"))
        assert stream is not None
        streams.append(stream)
        nursery.start_soon(send, stream)
        for _ in range(2):
            assert len(await stream.receive() or b"") == 30_000
        lease.release()
        await stream.receive()
        pool.close()


async def send(stream: ClientStream) -> None:
    for _ in range(2):
        await stream.send(bytes(30_000))
    stream.end()


async def cancelled_at(step: int, lean: bool) -> bool:
    """Cancel at that step; return whether the client had ended before."""
    network, streams = WatchedNetwork(), []
    handlers = {"/s/All": bidi_streaming(echo)}
    async with serve(handlers, network=network, address="s:1", options=SMALL) as server:
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(step, scope)
            trio.lowlevel.add_instrument(instrument)
            await client(network, streams, lean)
        trio.lowlevel.remove_instrument(instrument)
        assert all(end.closed for end in network.ends)
        assert all(stream.status is not None for stream in streams)
        await wait_all_tasks_blocked()
        assert server.connections == []
    return instrument.left > 0


@pytest.mark.parametrize("lean", [True, False])
def test_a_call_that_is_cancelled_at_any_step_leaves_nothing_behind(lean: bool) -> None:
    step = 1
    while not trio.run(cancelled_at, step, lean, clock=MockClock(autojump_threshold=0)):
        step += 1
    assert step > 50
