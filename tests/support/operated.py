"""The program of docs/operating.md, and what happens to it: real sockets, for the commands come from outside.

`cd tests && python -m support.operated` writes the outputs in the document anew.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
import yaml
from support.transcript import Example, Names, comparable, printed, rewritten

import trxds
from trxds.testing import Call, ManagementServer, Server, resources, serve

DOCUMENT = Path(__file__).parents[2] / "docs/operating.md"

# As long as 127.0.0.1 with a free port, so that columns stay straight.
PLANE = "10.0.0.10:18000"
HOSTS = ("10.0.1.11:50051", "10.0.1.12:50051", "10.0.1.13:50051")
METHOD = "/shop.Cart/Add"
KEEPS = ("UNKNOWN", "HEALTHY", "DRAINING")


@dataclass
class Shop:
    """A control plane and three hosts, and what is known of them in the document."""

    folder: Path
    plane: ManagementServer
    plane_server: Server
    servers: tuple[Server, ...]

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Shop]:
        async with AsyncExitStack() as stack:
            # Not pytest's, whose paths are too long for a socket.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            plane = ManagementServer()
            plane_server = await stack.enter_async_context(serve(plane.handlers, remember_calls=False))
            servers = [await stack.enter_async_context(serve(fallback=echo)) for _ in HOSTS]
            shop = cls(Path(folder), plane, plane_server, tuple(servers))
            shop.configure()
            yield shop

    def configure(self) -> None:
        canary = {"match": {"prefix": "", "headers": [{"name": "canary", "exact_match": "yes"}]}}
        self.plane.put(
            resources.listener("shop", routes="shop-routes", filters=[resources.stateful_session()]),
            resources.routes(
                "shop-routes",
                canary | {"route": {"cluster": "cart-v2"}},
                resources.route("cart", prefix="/shop.Cart/"),
            ),
            resources.cluster("cart", override_statuses=KEEPS),
            resources.cluster("cart-v2"),
            resources.endpoints("cart-v2", resources.locality(self.hosts[2])),
        )
        self.drain(None)

    def drain(self, host: str | None) -> None:
        """That one of the two hosts of cart and no other, or none."""
        health = {host: "DRAINING"} if host else {}
        self.plane.put(resources.endpoints("cart", resources.locality(*self.hosts[:2], health=health)))

    @property
    def at(self) -> str:
        return self.plane_server.address

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(server.address for server in self.servers)

    @property
    def bootstrap(self) -> dict[str, Any]:
        # Delta, for there a server says at once what does not exist; the other protocol takes 15 s to tell.
        return resources.bootstrap(self.at, node="web-1", features=["xds_v3", "trxds.delta"])

    @property
    def socket(self) -> str:
        return str(self.folder / "shop.sock")

    @property
    def environ(self) -> Mapping[str, str]:
        return {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(self.bootstrap)}

    @property
    def names(self) -> Names:
        pairs = list(zip(HOSTS, self.hosts, strict=True))
        clusters = ("cart", "cart-v2")
        cookies = {said(named, cluster): said(real, cluster) for named, real in pairs for cluster in clusters}
        files = {name: str(self.folder / name) for name in ("bootstrap.json", "mesh.yaml")}
        return Names({PLANE: self.at, **dict(pairs), **cookies, **files, "/run/shop.sock": self.socket})

    # -- the program

    @asynccontextmanager
    async def program(self) -> AsyncIterator[Program]:
        """It runs, and has two sessions: the first on the first host, the second on the second."""
        async with AsyncExitStack() as stack:
            self.drain(self.hosts[1])
            admin = f"unix:{self.socket}"
            channel = await stack.enter_async_context(
                trxds.open_channel("xds:///shop", bootstrap=self.bootstrap, admin=admin)
            )
            sessions = [await stack.enter_async_context(channel.session()) for _ in range(2)]
            program = Program(channel, sessions[0], ("cookie", f"session={said(self.hosts[0], 'cart')}"))
            await program.until("is HEALTHY", program.cookie)
            await call(sessions[0])
            self.drain(self.hosts[0])
            await program.until("is DRAINING", program.cookie)
            await call(sessions[1])
            self.drain(None)
            await program.until("is HEALTHY", program.cookie)
            yield program


@dataclass(frozen=True)
class Program:
    """`session` is on the first host, `cookie` is what it sends."""

    channel: trxds.Channel
    session: trxds.Session
    cookie: tuple[str, str]

    async def until(self, words: str, *metadata: tuple[str, str]) -> None:
        """A call with these metadata would go where it goes for that reason."""
        while True:
            told = await self.channel.explain(METHOD, metadata)
            if words in str(told):
                break
            await trio.sleep(0.01)

    async def until_warned(self, words: str) -> None:
        """The channel has a warning with these words."""
        while True:
            if words in "".join(self.channel.admin_view().warnings):
                break
            await trio.sleep(0.01)

    async def keep_calling(self) -> None:
        """In its session, and for the canary."""
        while True:
            await call(self.session)
            await call(self.channel, ("canary", "yes"))
            await trio.sleep(0.02)

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.keep_calling)
            yield
            nursery.cancel_scope.cancel()


async def call(caller: trxds.Channel | trxds.Session, *metadata: tuple[str, str]) -> None:
    with suppress(trxds.RpcError):
        await caller.method(METHOD)(b"apples", timeout=10, metadata=metadata)


async def echo(call: Call) -> None:
    async for message in call:
        await call.send(message)


def said(host: str, cluster: str) -> str:
    """A cookie's value."""
    return base64.b64encode(f"{host};{cluster}".encode()).decode()


# -- the scenes, by the names that the document has for them


def write_bootstrap(shop: Shop, document: dict[str, Any]) -> None:
    (shop.folder / "bootstrap.json").write_text(json.dumps(document, indent=2), "utf-8")


@asynccontextmanager
async def as_ever(shop: Shop) -> AsyncIterator[None]:
    write_bootstrap(shop, shop.bootstrap)
    yield


@asynccontextmanager
async def typed(shop: Shop) -> AsyncIterator[None]:
    """A bootstrap with two slips."""
    server = {"server_uri": shop.at, "channel_creds": [{"type": "tsl"}, {"type": "insecure"}], "server_feature": []}
    write_bootstrap(shop, {"xds_servers": [server], "node": {"id": "web-1"}})
    yield


@asynccontextmanager
async def slip(shop: Shop) -> AsyncIterator[None]:
    """The resources in a file, changed by hand."""
    canary = {"match": {"prefix": "", "headers": [{"name": "canary", "exact_match": "yes"}]}}
    split = {"weighted_cluster": {"clusters": [{"name": "cart", "weight": 90}, {"name": "cart-v2", "weight": 10}]}}
    mesh = [
        resources.listener("shop", routes="shop-routes"),
        resources.routes("shop-routes", canary | {"route": split}, resources.route("cart", prefix="/shop.Cart/")),
        resources.cluster("cart") | {"lb_policy": "ROUND_ROBBIN"},
    ]
    (shop.folder / "mesh.yaml").write_text(yaml.safe_dump(mesh, sort_keys=False), "utf-8")
    yield


@asynccontextmanager
async def busy(shop: Shop) -> AsyncIterator[None]:
    async with shop.program() as program, program.in_use():
        yield


@asynccontextmanager
async def missing(shop: Shop) -> AsyncIterator[None]:
    """The route is there, its cluster is not."""
    async with shop.program() as program:
        shop.plane.remove("CDS", "cart-v2")
        await program.until("without a usable resource", ("canary", "yes"))
        yield


@asynccontextmanager
async def missed(shop: Shop) -> AsyncIterator[None]:
    """And it is called."""
    async with shop.program() as program, program.in_use():
        shop.plane.remove("CDS", "cart-v2")
        await program.until("without a usable resource", ("canary", "yes"))
        yield


@asynccontextmanager
async def refused(shop: Shop) -> AsyncIterator[None]:
    """A policy that no client of gRPC has."""
    async with shop.program():
        shop.plane.put(resources.cluster("cart-v2") | {"lb_policy": "MAGLEV"})
        await shop.plane.wait_for_nack("CDS")
        yield


@asynccontextmanager
async def draining(shop: Shop) -> AsyncIterator[None]:
    async with shop.program() as program:
        shop.drain(shop.hosts[0])
        await program.until("is DRAINING", program.cookie)
        await call(program.session)
        yield


@asynccontextmanager
async def moved(shop: Shop) -> AsyncIterator[None]:
    """The first host has left the cluster, and the session that it had has called again."""
    async with shop.program() as program:
        shop.plane.put(resources.endpoints("cart", resources.locality(shop.hosts[1])))
        await program.until("is no endpoint of cluster cart", program.cookie)
        await call(program.session)
        yield


@asynccontextmanager
async def lost(shop: Shop) -> AsyncIterator[None]:
    """One host of two has stopped, and nobody has told the control plane."""
    async with shop.program() as program:
        shop.servers[1].stop()
        await program.until_warned("cannot connect")
        yield


@asynccontextmanager
async def outage(shop: Shop) -> AsyncIterator[None]:
    """The control plane has stopped, and the program runs on."""
    async with shop.program() as program:
        shop.plane_server.stop()
        await program.until_warned("the control plane is lost")
        yield


Scene = Callable[[Shop], AbstractAsyncContextManager[None]]
SCENES: Mapping[str, Scene] = {
    "as ever": as_ever,
    "typed": typed,
    "slip": slip,
    "busy": busy,
    "missing": missing,
    "missed": missed,
    "refused": refused,
    "draining": draining,
    "moved": moved,
    "lost": lost,
    "outage": outage,
}


async def played(example: Example) -> tuple[int, str]:
    """The exit status, and what is printed in that scene."""
    async with Shop.open() as shop, SCENES[example.scene](shop):
        return await printed(example.command, shop.names, shop.environ)


async def rewrite() -> None:
    text = DOCUMENT.read_text("utf-8")
    for example in reversed(Example.of(DOCUMENT)):
        _, output = await played(example)
        if comparable(output) != comparable(example.output):
            text = rewritten(text, example, output)
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    trio.run(rewrite)
