"""Sessions stay on their backend without a control plane: the program itself configures the cookie.

Two carts live in the memory of three servers, which the client knows by a list of addresses. A DNS name does as well.

    python examples/sticky_without_xds.py
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio

import trxds
from trxds.testing import Call, Handler, serve, unary

ADD = "/shop.Cart/Add"

# Without it pick_first has one connection, and all sessions go to that host.
ROUND_ROBIN = {"loadBalancingConfig": [{"round_robin": {}}]}


async def main() -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serve({ADD: carts()})) for _ in range(3)]
        target = "ipv4:" + ",".join(server.address for server in servers)
        affinity = trxds.CookieAffinity("cart")
        async with (
            trxds.open_channel(target, affinity=affinity, service_config=ROUND_ROBIN) as channel,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(fill_a_cart, channel, "anna", ["apples", "bread", "cheese"])
            nursery.start_soon(fill_a_cart, channel, "ben", ["tea", "milk"])


async def fill_a_cart(channel: trxds.Channel, owner: str, items: list[str]) -> None:
    """One scope, one cookie jar, one backend; `require` makes a call fail that no cookie could keep there."""
    async with channel.session(require=True) as session:
        add = session.method(ADD)
        for item in items:
            cart = await add(f"{owner}:{item}".encode(), timeout=10)
        print(f"{owner}: {cart.decode()}")


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
