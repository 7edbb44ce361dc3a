"""trxds for asyncio, through the whole xDS path."""

from __future__ import annotations

import asyncio

from measure import METHOD, PAYLOAD, cookie_in, metered, orders

import trxds.aio

ORDERS = orders()


async def main() -> None:
    async with trxds.aio.open_channel(ORDERS.target) as channel:
        echo = channel.method(METHOD)
        _, first = await echo.with_call(PAYLOAD, wait_for_ready=True)
        metadata = cookie_in(first.initial_metadata) if ORDERS.cookie else []

        async def caller(count: int) -> None:
            for _ in range(count):
                await echo(PAYLOAD, metadata=metadata)

        async def everyone(total: int) -> None:
            await asyncio.gather(*(caller(share) for share in ORDERS.shares(total)))

        await everyone(ORDERS.warmup)
        with metered(ORDERS.count):
            await everyone(ORDERS.count)


asyncio.run(main())
