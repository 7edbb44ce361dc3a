"""The measured calls of a client on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter

from measure import Orders, metered


async def make_calls(orders: Orders, call: Callable[[], Awaitable[object]]) -> None:
    """Make the warm-up and the calls that count; each caller makes one after the other."""

    async def caller(count: int, latencies: list[float]) -> None:
        for _ in range(count):
            began = perf_counter()
            await call()
            latencies.append(perf_counter() - began)

    async def everyone(total: int, latencies: list[float]) -> None:
        await asyncio.gather(*(caller(share, latencies) for share in orders.shares(total)))

    await everyone(orders.warmup, [])
    with metered(orders.count) as latencies:
        await everyone(orders.count, latencies)
