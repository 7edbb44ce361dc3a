"""grpcio's asyncio API over the C++ client."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
from asyncio_calls import make_calls
from measure import METHOD, PAYLOAD, cookie_in, orders

ORDERS = orders()


async def main() -> None:
    async with grpc.aio.insecure_channel(ORDERS.target) as channel:
        echo = channel.unary_unary(METHOD)
        first = echo(PAYLOAD, wait_for_ready=True)
        await first
        metadata = cookie_in(await first.initial_metadata()) if ORDERS.cookie else []
        await make_calls(ORDERS, partial(echo, PAYLOAD, metadata=metadata))


asyncio.run(main())
