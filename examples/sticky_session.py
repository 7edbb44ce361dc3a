"""Sessions stay on their backend while RPCs without a session go round all of them.

Two carts live in the memory of three servers. Each cart's calls must meet the server that has it.

    python examples/sticky_session.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

import trxds
from trxds.testing import Call, Handler, ManagementServer, resources, serve, unary

ADD = "/shop.Cart/Add"


async def main() -> None:
    async with (
        own_shop() as bootstrap,
        trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(fill_a_cart, channel, "anna", ["apples", "bread", "cheese"])
        nursery.start_soon(fill_a_cart, channel, "ben", ["tea", "milk"])


async def fill_a_cart(channel: trxds.Channel, owner: str, items: list[str]) -> None:
    """One scope, one cookie jar, one backend."""
    async with channel.session() as session:
        add = session.method(ADD)
        for item in items:
            cart = await add(f"{owner}:{item}".encode(), timeout=10)
        print(f"{owner}: {cart.decode()}")


@asynccontextmanager
async def own_shop() -> AsyncIterator[dict[str, Any]]:
    """Three servers, each with carts of its own, and an ADS server that pins sessions by a cookie."""
    plane = ManagementServer()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serve({ADD: carts()})) for _ in range(3)]
        address = await stack.enter_async_context(plane.serve())
        plane.put(
            resources.listener("shop", routes="shop-routes", filters=[resources.stateful_session("cart")]),
            resources.routes("shop-routes", resources.route("shop-cluster")),
            resources.cluster("shop-cluster"),
            resources.endpoints("shop-cluster", resources.locality(*(server.address for server in servers))),
        )
        yield resources.bootstrap(address)


def carts() -> Handler:
    """A server that remembers carts; another server knows nothing of them."""
    contents: dict[str, list[str]] = {}

    async def add(request: bytes, call: Call) -> bytes:
        owner, _, item = request.decode().partition(":")
        contents.setdefault(owner, []).append(item)
        return ", ".join(contents[owner]).encode()

    return unary(add)


if __name__ == "__main__":
    trio.run(main)
