"""Sessions by hand: what a cookie says, what an RPC with it comes to."""

import base64
from dataclasses import dataclass

from support.mesh import METHOD

from trxds.testing import resources as xds

TYPES = "type.googleapis.com/envoy"
HTTP = f"{TYPES}.extensions.filters.http.stateful_session.v3"
STATES = f"{TYPES}.extensions.http.stateful_session"


@dataclass(frozen=True)
class Answer:
    """Who answered one RPC, and what came with it."""

    host: str
    headers: list
    name: str

    @property
    def cookies(self):
        return [value for key, value in self.headers if key == "set-cookie"]

    @property
    def said(self):
        """What the one new cookie says; "" if there is none."""
        if not self.cookies:
            return ""
        (header,) = self.cookies
        return base64.b64decode(header.split(";")[0].partition("=")[2]).decode()


async def answer(caller, cookie=None, *, path=METHOD, name="session", metadata=(), **more):
    """One RPC; `cookie` is what the session's cookie says before it is encoded."""
    pairs = [*metadata, *([("cookie", f"{name}={b64(cookie)}")] if cookie is not None else [])]
    kind = caller.method(path, client_streaming=True, server_streaming=True)
    async with kind.open(b"", metadata=pairs, **more) as call:
        call.done_sending()
        headers = list(await call.wait_initial_metadata())
        reply = await call.receive()
        return Answer(reply.decode(), headers, name)


async def hosts(caller, cookie=None, times=10, **more):
    return {(await answer(caller, cookie, **more)).host for _ in range(times)}


def b64(text):
    return base64.b64encode(text.encode()).decode()


def session_filter(name="stateful_session", state=None, **fields):
    """The filter as Envoy's documents write it; without a state it is off."""
    config = {"@type": f"{HTTP}.StatefulSession", **fields}
    if state is not None:
        config["session_state"] = {"name": "x", "typed_config": state}
    return {"name": name, "typed_config": config}


def override(state=None, **fields):
    """A StatefulSessionPerRoute, by filter name."""
    config = {"@type": f"{HTTP}.StatefulSessionPerRoute", **fields}
    if state is not None:
        config["stateful_session"] = {"session_state": {"name": "x", "typed_config": state}}
    return {"stateful_session": config}


def in_cookie(name="session", **fields):
    return {"@type": f"{STATES}.cookie.v3.CookieBasedSessionState", "cookie": {"name": name, **fields}}


def in_header(name):
    return {"@type": f"{STATES}.header.v3.HeaderBasedSessionState", "name": name}


def listen(mesh, *filters):
    mesh.plane.put(xds.listener("shop", routes="routes", filters=filters))


def two_cookies(mesh, cart, orders):
    """Give the route of /shop.Cart/ the cookie `cart` and half of the hosts, and all others `orders` and the rest."""
    half = len(mesh.hosts) // 2
    mesh.cluster("orders")
    mesh.endpoints("cart", mesh.hosts[:half])
    mesh.endpoints("orders", mesh.hosts[half:])
    listen(mesh, session_filter(state=orders))
    cart_route = {**xds.route("cart", prefix="/shop.Cart/"), "typed_per_filter_config": override(cart)}
    mesh.route(cart_route, xds.route("orders"))


def drain(mesh, host):
    mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))


def remove(mesh, *hosts):
    mesh.endpoints("cart", [host for host in mesh.hosts if host not in hosts])
