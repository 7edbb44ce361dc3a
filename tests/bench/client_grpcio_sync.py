"""grpcio's blocking API over the C++ client; concurrent callers are threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
from measure import METHOD, PAYLOAD, cookie_in, metered, orders

ORDERS = orders()

with grpc.insecure_channel(ORDERS.target) as channel, ThreadPoolExecutor(ORDERS.concurrency) as threads:
    echo = channel.unary_unary(METHOD)
    _, first = echo.with_call(PAYLOAD, wait_for_ready=True)
    metadata = cookie_in(first.initial_metadata()) if ORDERS.cookie else []

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
