"""A session with two cookies, each for the methods of one service."""

from contextlib import asynccontextmanager

from support.mesh import Mesh, ask, method
from support.sessions import in_cookie, listen, session_filter

from trxds import CookieKey

A, B = CookieKey("a", "/shop.Cart"), CookieKey("b", "/shop.Orders")


@asynccontextmanager
async def session_of_two_cookies():
    async with Mesh.run(3) as mesh:
        listen(mesh, *(session_filter(key.name, in_cookie(key.name, path=key.path)) for key in (A, B)))
        async with mesh.channel() as channel, channel.session() as session:
            await ask(session)
            await ask_orders(session)
            yield mesh, session


async def ask_orders(caller):
    return (await method(caller, "/shop.Orders/Get")(b"")).decode()
