"""A connection whose SETTINGS come just as its time is over: the process stood still meanwhile, say."""

from __future__ import annotations

from random import Random

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.testing import MemoryNetwork, serve
from trxds.transport.options import WireOptions
from trxds.transport.pool import SubchannelPool
from trxds.transport.subchannel import MIN_CONNECT_TIME, Subchannel

ADDRESS = "10.0.0.1:443"


def stand_still_once(network: MemoryNetwork, clock: trio.testing.MockClock) -> None:
    """Let the time of an attempt pass between the arrival of the first bytes and the step that reads them."""
    connect = network.connect

    async def connect_late(address: str) -> trio.abc.Stream:
        network.connect = connect  # type: ignore[method-assign]
        stream = await connect(address)
        receive_some = stream.receive_some

        async def receive_late(max_bytes: int | None = None) -> bytes | bytearray:
            received = await receive_some(max_bytes)
            if clock.current_time() < MIN_CONNECT_TIME:
                clock.jump(MIN_CONNECT_TIME + 1)
                await trio.lowlevel.cancel_shielded_checkpoint()
            return received

        stream.receive_some = receive_late  # type: ignore[method-assign]
        return stream

    network.connect = connect_late  # type: ignore[method-assign]


async def test_settings_that_come_just_as_the_time_is_over_are_too_late_and_the_next_attempt_connects(
    nursery, autojump_clock
) -> None:
    network = MemoryNetwork()
    stand_still_once(network, autojump_clock)
    pool = SubchannelPool(network, WireOptions(), Random(1))
    nursery.start_soon(pool.run)
    queue: ConflatingQueue[Subchannel] = ConflatingQueue()
    host = pool.for_policies.lease(ADDRESS, queue).subchannel
    seen = []
    async with serve({}, network=network, address=ADDRESS):
        host.request_connection()
        while host.state is not Connectivity.READY or Connectivity.TRANSIENT_FAILURE not in seen:
            await queue.next()
            seen.append(host.state)
            host.request_connection()  # as a policy does that wants to stay connected
        error = host.error
    assert error is not None and "no HTTP/2 SETTINGS came in time" in error.message
    assert seen[-1] is Connectivity.READY and network.attempts[ADDRESS] == 2
