"""trxds for asyncio, through the whole xDS path."""

from __future__ import annotations

import asyncio
from functools import partial

from asyncio_calls import make_calls
from measure import METHOD, PAYLOAD, cookie_in, orders

import trxds.aio

ORDERS = orders()


async def main() -> None:
    async with trxds.aio.open_channel(ORDERS.target) as channel:
        echo = channel.method(METHOD)
        _, first = await echo.with_call(PAYLOAD, wait_for_ready=True)
        metadata = cookie_in(first.initial_metadata) if ORDERS.cookie else []
        await make_calls(ORDERS, partial(echo, PAYLOAD, metadata=metadata))


asyncio.run(main())
