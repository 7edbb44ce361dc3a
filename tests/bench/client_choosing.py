"""trxds up to the stream: a route is chosen, the session filter asked, a host picked through the whole tree.

The RPCs are real ones until they would open a stream, so it is a little more than choosing: they are made, and
let go of.
"""

from __future__ import annotations

from typing import Any

import trio
from measure import METHOD, PAYLOAD, cookie_in, metered, orders

import trxds
from trxds.client.channel_state import ChannelState
from trxds.client.rpc import Rpc
from trxds.core.metadata import EMPTY, Metadata, check
from trxds.core.status import OK
from trxds.transport.subchannel import Subchannel

ORDERS = orders()


class Over:
    """A stream that has ended as soon as it was opened."""

    id = 1
    status = OK
    trailing_metadata = EMPTY

    def cancel(self) -> None:
        pass


OVER: Any = Over()


def open_nothing(host: Subchannel, request: object) -> Any:
    return OVER


async def main() -> None:
    async with trxds.open_channel(ORDERS.target) as channel:
        metadata = Metadata(())
        async with channel.method(METHOD, None, None).open(PAYLOAD, wait_for_ready=True) as call:
            await call.receive()
            if ORDERS.cookie:
                metadata = check(cookie_in(call.initial_metadata))
        # Only the choice is measured, so nothing is opened.
        Subchannel.open_stream = open_nothing  # type: ignore[method-assign]
        await choose(channel._state, metadata, ORDERS.warmup)
        with metered(ORDERS.count):
            await choose(channel._state, metadata, ORDERS.count)


async def choose(state: ChannelState, metadata: Metadata, count: int) -> None:
    for _ in range(count):
        rpc = Rpc(state, METHOD, metadata, state.defaults, None, None)
        problem = await rpc.open(PAYLOAD)
        assert problem is None, problem
        rpc.close()


trio.run(main)
