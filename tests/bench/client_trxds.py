"""trxds, through the whole xDS path."""

from __future__ import annotations

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

        async def caller(count: int) -> None:
            for _ in range(count):
                await echo(PAYLOAD, metadata=metadata)

        async def everyone(total: int) -> None:
            async with trio.open_nursery() as nursery:
                for share in ORDERS.shares(total):
                    nursery.start_soon(caller, share)

        await everyone(ORDERS.warmup)
        with metered(ORDERS.count):
            await everyone(ORDERS.count)


trio.run(main)
