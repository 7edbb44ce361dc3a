"""A gateway keeps a session for each of its users, and gives each a signed token, as a web gateway sets a cookie.

Three carts live in the memory of three servers. The gateway keeps two sessions, so one of them makes room; and then it
is started anew. Each user's next request brings the token back, and so meets the server that has the cart.

    python examples/gateway.py
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio

import trxds
from trxds.testing import Call, Handler, ManagementServer, resources, serve, unary

ADD = "/shop.Cart/Add"
KEY = secrets.token_bytes(32)  # all gateways need the same one, so a real one reads it from a file


class Browser:
    """A user's browser keeps the cookie that the gateway sets. The user can read and change it."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.cookie: str | None = None


async def request(sessions: trxds.SessionPool, browser: Browser, item: str) -> str:
    """Handle one request: the user's session is in the pool, or in the cookie, or begins."""
    try:
        return await add(sessions, browser, item)
    except trxds.SessionTokenError as error:
        # The user has changed the cookie, or the key has. The message shows nothing of it.
        print(f"{browser.user}: {error}")
        browser.cookie = None
        return await add(sessions, browser, item)


async def add(sessions: trxds.SessionPool, browser: Browser, item: str) -> str:
    async with sessions.session(browser.user, browser.cookie, key=KEY) as session:
        cart = await session.method(ADD)(f"{browser.user}:{item}".encode(), timeout=10)
        browser.cookie = session.export(key=KEY)
    return cart.decode()


async def main() -> None:
    users = [Browser("anna"), Browser("ben"), Browser("carl")]
    async with own_shop() as bootstrap:
        for items in (["apples", "bread"], ["cheese"]):  # the second time is after a restart
            async with (
                trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel,
                channel.sessions(max=2, idle=1800) as sessions,
            ):
                for item in items:
                    carts = {browser.user: await request(sessions, browser, item) for browser in users}
        for user, cart in carts.items():
            print(f"{user}: {cart}")
        users[0].cookie = "forged"
        async with (
            trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel,
            channel.sessions(max=2, idle=1800) as sessions,
        ):
            await request(sessions, users[0], "tea")


@asynccontextmanager
async def own_shop() -> AsyncIterator[dict[str, Any]]:
    """Three servers, each with carts of its own, and an ADS server that pins sessions by a cookie."""
    plane = ManagementServer()
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serve({ADD: carts()})) for _ in range(3)]
        address = await stack.enter_async_context(plane.serve())
        plane.put(
            resources.listener("shop", routes="shop-routes", filters=[resources.stateful_session("cart", ttl=3600)]),
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
