"""A Trio service that calls another service: one channel for its whole life, used from many tasks.

The service is a task that ends when it is cancelled. Its channel opens and closes with it; jobs come
by a memory channel and are done by workers, all of which call through that one channel.

    python examples/trio_service.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio

import trxds
from trxds.testing import Call, ManagementServer, resources, serve, unary

PRICE_OF = "/shop.Prices/Of"
WORKERS = 8


@dataclass
class Job:
    """`price` is there when `done` is set; None if it could not be had."""

    item: str
    done: trio.Event
    price: str | None = None


async def price_service(
    jobs: trio.MemoryReceiveChannel[Job],
    bootstrap: dict[str, Any],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve jobs until there are no more, or until cancelled."""
    async with (
        trxds.open_channel("xds:///prices", bootstrap=bootstrap) as channel,
        trio.open_nursery() as nursery,
    ):
        task_status.started()
        for _ in range(WORKERS):
            nursery.start_soon(work, channel, jobs)


async def work(channel: trxds.Channel, jobs: trio.MemoryReceiveChannel[Job]) -> None:
    price_of = channel.method(PRICE_OF)
    async for job in jobs:
        try:
            job.price = (await price_of(job.item.encode(), timeout=5)).decode()
        except trxds.RpcError as error:
            if error.status.code is not trxds.StatusCode.NOT_FOUND:
                raise
        job.done.set()


async def main() -> None:
    async with own_control_plane() as bootstrap, trio.open_nursery() as nursery:
        send_job, jobs = trio.open_memory_channel[Job](0)
        await nursery.start(price_service, jobs, bootstrap)
        async with send_job:
            for item in ("apples", "bread", "unicorns"):
                job = Job(item, trio.Event())
                await send_job.send(job)
                await job.done.wait()
                print(f"{item}: {job.price or 'no price'}")


@asynccontextmanager
async def own_control_plane() -> AsyncIterator[dict[str, Any]]:
    """Two servers that know prices, and the ADS server that knows them."""
    prices = {b"apples": b"2.50", b"bread": b"3.10"}

    async def price_of(request: bytes, call: Call) -> bytes:
        if request not in prices:
            call.abort(trxds.StatusCode.NOT_FOUND, f"no price for {request.decode()}")
        return prices[request]

    plane = ManagementServer()
    handlers = {PRICE_OF: unary(price_of)}
    async with serve(handlers) as first, serve(handlers) as second, plane.serve() as address:
        plane.put(
            resources.listener("prices", routes="prices-routes"),
            resources.routes("prices-routes", resources.route("prices-cluster")),
            resources.cluster("prices-cluster"),
            resources.endpoints("prices-cluster", resources.locality(first.address, second.address)),
        )
        yield resources.bootstrap(address)


if __name__ == "__main__":
    trio.run(main)
