"""trxds for threads, through the whole xDS path; concurrent callers are threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from measure import METHOD, PAYLOAD, cookie_in, metered, orders

import trxds.sync

ORDERS = orders()

with trxds.sync.open_channel(ORDERS.target) as channel, ThreadPoolExecutor(ORDERS.concurrency) as threads:
    echo = channel.method(METHOD)
    metadata: list[tuple[str, str]] = []
    with echo.open(PAYLOAD, wait_for_ready=True) as call:
        call.receive()
        if ORDERS.cookie:
            metadata = cookie_in(call.initial_metadata)

    def caller(count: int) -> None:
        for _ in range(count):
            echo(PAYLOAD, metadata=metadata)

    def everyone(total: int) -> None:
        if ORDERS.concurrency == 1:
            caller(total)
        else:
            list(threads.map(caller, ORDERS.shares(total)))

    everyone(ORDERS.warmup)
    with metered(ORDERS.count):
        everyone(ORDERS.count)
