"""grpcio's blocking API over the C++ client; concurrent callers are threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from time import perf_counter

import grpc
from measure import METHOD, PAYLOAD, cookie_in, metered, orders

ORDERS = orders()

with grpc.insecure_channel(ORDERS.target) as channel, ThreadPoolExecutor(ORDERS.concurrency) as threads:
    echo = channel.unary_unary(METHOD)
    _, first = echo.with_call(PAYLOAD, wait_for_ready=True)
    metadata = cookie_in(first.initial_metadata()) if ORDERS.cookie else []

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
