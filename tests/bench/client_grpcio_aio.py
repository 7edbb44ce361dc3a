"""grpcio's asyncio API over the C++ client."""

from __future__ import annotations

import asyncio

import grpc
from measure import METHOD, PAYLOAD, cookie_in, metered, orders

ORDERS = orders()


async def main() -> None:
    async with grpc.aio.insecure_channel(ORDERS.target) as channel:
        echo = channel.unary_unary(METHOD)
        first = echo(PAYLOAD, wait_for_ready=True)
        await first
        metadata = cookie_in(await first.initial_metadata()) if ORDERS.cookie else []

        async def caller(count: int) -> None:
            for _ in range(count):
                await echo(PAYLOAD, metadata=metadata)

        async def everyone(total: int) -> None:
            await asyncio.gather(*(caller(share) for share in ORDERS.shares(total)))

        await everyone(ORDERS.warmup)
        with metered(ORDERS.count):
            await everyone(ORDERS.count)


asyncio.run(main())
