"""trxds, through the whole xDS path."""

from __future__ import annotations

from time import perf_counter

import trio
from measure import METHOD, PAYLOAD, cookie_in, metered, orders

import trxds

ORDERS = orders()


def watchers() -> tuple[trxds.Telemetry, ...]:
    if not ORDERS.watch:
        return ()
    from watching import watching  # here, for nobody else is to pay for OpenTelemetry

    return watching(ORDERS.watch)


async def main() -> None:
    async with trxds.open_channel(ORDERS.target, telemetry=watchers()) as channel:
        echo = channel.method(METHOD, None, None)
        metadata: list[tuple[str, str]] = []
        async with echo.open(PAYLOAD, wait_for_ready=True) as call:
            await call.receive()
            if ORDERS.cookie:
                metadata = cookie_in(call.initial_metadata)

        async def caller(count: int, latencies: list[float]) -> None:
            for _ in range(count):
                began = perf_counter()
                await echo(PAYLOAD, metadata=metadata)
                latencies.append(perf_counter() - began)

        async def everyone(total: int, latencies: list[float]) -> None:
            async with trio.open_nursery() as nursery:
                for share in ORDERS.shares(total):
                    nursery.start_soon(caller, share, latencies)

        await everyone(ORDERS.warmup, [])
        with metered(ORDERS.count) as latencies:
            await everyone(ORDERS.count, latencies)


trio.run(main)
