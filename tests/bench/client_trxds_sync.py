"""trxds for threads, through the whole xDS path; concurrent callers are threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from time import perf_counter

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

    def caller(count: int, latencies: list[float]) -> None:
        for _ in range(count):
            began = perf_counter()
            echo(PAYLOAD, metadata=metadata)
            latencies.append(perf_counter() - began)

    def everyone(total: int, latencies: list[float]) -> None:
        if ORDERS.concurrency == 1:
            caller(total, latencies)
        else:
            list(threads.map(caller, ORDERS.shares(total), repeat(latencies)))

    everyone(ORDERS.warmup, [])
    with metered(ORDERS.count) as latencies:
        everyone(ORDERS.count, latencies)
