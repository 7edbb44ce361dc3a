"""A session by hand: the cookie jar of gRFC A55 as an interceptor, next to `channel.session()`.

A session needs no more than a client that gives back the cookies it was given, and that is what an interceptor can
do. `channel.session()` does the same and a little more: it counts Max-Age, and calls begun before the first cookie
has come wait for it.

    python examples/cookie_jar.py
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from http.cookies import SimpleCookie
from typing import Any

import trio

import trxds
from trxds.testing import Call, Handler, ManagementServer, resources, serve, unary

ADD = "/shop.Cart/Add"


class CookieJar:
    """Keeps what Set-Cookie says, and gives it back in Cookie to the methods that it is for."""

    def __init__(self) -> None:
        self.cookies: SimpleCookie = SimpleCookie()

    @asynccontextmanager
    async def __call__(self, call: trxds.CallDetails, next: trxds.Next) -> AsyncIterator[trxds.CallProtocol[Any, Any]]:
        cookies = "; ".join(
            f"{cookie.key}={cookie.coded_value}"
            for cookie in self.cookies.values()
            if call.method.startswith(cookie["path"] or "/")
        )
        if cookies:
            call = replace(call, metadata=[*call.metadata, ("cookie", cookies)])
        async with next(call) as stream:
            try:
                yield stream
            finally:
                # An answer that is a status and nothing else has its cookie in the trailing metadata.
                for name, value in [*(stream.initial_metadata or ()), *stream.trailing_metadata]:
                    if name == "set-cookie":
                        self.cookies.load(str(value))


async def main() -> None:
    async with own_shop() as bootstrap:
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap, interceptors=[CookieJar()]) as channel:
            print(f"with the interceptor: {await fill_a_cart(channel)}")
        async with trxds.open_channel("xds:///shop", bootstrap=bootstrap) as channel, channel.session() as session:
            print(f"with a session: {await fill_a_cart(session)}")


async def fill_a_cart(caller: trxds.MethodFactory) -> str:
    """The cart after three calls; without a session its items lie at three servers."""
    add = caller.method(ADD)
    for item in ("apples", "bread", "cheese"):
        cart = await add(item.encode(), timeout=10)
    return cart.decode()


@asynccontextmanager
async def own_shop() -> AsyncIterator[dict[str, Any]]:
    """Three servers, each with a cart of its own for every client, and an ADS server that pins sessions by a cookie."""
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
    """A server that remembers a cart for each client; another server knows nothing of them."""
    contents: dict[str, list[str]] = {}

    async def add(request: bytes, call: Call) -> bytes:
        cart = contents.setdefault(call.peer, [])
        cart.append(request.decode())
        return ", ".join(cart).encode()

    return unary(add)


if __name__ == "__main__":
    trio.run(main)
