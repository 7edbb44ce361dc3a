"""The service of docs/how-to/call-from-the-shell.md, behind a control plane: real sockets, as for any command.

`cd tests && python -m support.called` writes the outputs in the document anew.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from support.described_shop import reflection
from support.operated import HOSTS, PLANE, said
from support.transcript import Example, Names, comparable, printed, rewritten

from trxds import StatusCode
from trxds.cli.call.compile_protos import compile_protos
from trxds.testing import ManagementServer, Server, resources, serve

DOCUMENT = Path(__file__).parents[2] / "docs/how-to/call-from-the-shell.md"


def proto() -> str:
    """The text of cart.proto, as the document shows it."""
    (text,) = re.findall(r"^```proto\n// cart.proto\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


class Cart:
    """Replies name the host; there are no pears."""

    def __init__(self, address, pool):
        self.address = address
        self._item, self._receipt = (
            GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Item", "Receipt")
        )

    async def Add(self, request, call):
        if request.sku == "pears":
            rich = status_pb2.Status(code=StatusCode.NOT_FOUND, message="there are no pears")
            rich.details.add().Pack(error_details_pb2.ErrorInfo(reason="SOLD_OUT", domain="shop"))
            call.abort(StatusCode.NOT_FOUND, rich.message, rich.SerializeToString())
        return self._receipt(host=self.address, items=request.count)

    async def AddAll(self, requests, call):
        return self._receipt(host=self.address, items=sum([each.count async for each in requests]))

    async def Offers(self, request, call):
        for count in (1, 10, 100):
            yield self._item(sku=request.sku, count=count)


@dataclass
class CalledShop:
    """A control plane and two hosts, and what is known of them in the document."""

    folder: Path
    plane: ManagementServer
    at: str
    servers: tuple[Server, ...]

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[CalledShop]:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "cart.proto").write_text(proto(), "utf-8")
            pool = compile_protos([str(folder / "cart.proto")], [str(folder)]).pool
            file = pool.FindFileByName("cart.proto")
            files = FileDescriptorSet(file=[FileDescriptorProto.FromString(file.serialized_pb)])
            (folder / "cart.binpb").write_bytes(files.SerializeToString())
            plane = ManagementServer()
            at = await stack.enter_async_context(plane.serve())
            servers = [await stack.enter_async_context(serve(reflection(pool=pool))) for _ in HOSTS[:2]]
            for server, name in zip(servers, HOSTS, strict=False):
                server.add_service(pool.FindServiceByName("shop.Cart"), Cart(name, pool))
            shop = cls(folder, plane, at, tuple(servers))
            shop.configure()
            yield shop

    def configure(self) -> None:
        canary = {"match": {"prefix": "", "headers": [{"name": "canary", "exact_match": "yes"}]}}
        self.listen(sessions=True)
        self.plane.put(
            resources.routes("shop-routes", canary | {"route": {"cluster": "cart-v2"}}, resources.route("cart")),
            resources.cluster("cart"),
            resources.endpoints("cart", resources.locality(*(server.address for server in self.servers))),
            resources.cluster("cart-v2"),
            resources.endpoints("cart-v2", resources.locality(self.servers[0].address)),
        )

    def listen(self, *, sessions: bool) -> None:
        filters = [resources.stateful_session()] if sessions else []
        self.plane.put(resources.listener("shop", routes="shop-routes", filters=filters))

    @property
    def environ(self) -> Mapping[str, str]:
        # Delta, for there a server says at once what does not exist; the other protocol takes 15 s to tell.
        bootstrap = resources.bootstrap(self.at, node="web-1", features=["xds_v3", "trxds.delta"])
        return {"GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(bootstrap)}

    @property
    def names(self) -> Names:
        hosts = dict(zip(HOSTS, (server.address for server in self.servers), strict=False))
        files = {f" {name}": f" {self.folder / name}" for name in ("cart.proto", "cart.binpb")}
        cookies = {said(named, "cart"): said(real, "cart") for named, real in hosts.items()}
        return Names({PLANE: self.at, **hosts, **files, **cookies})


@asynccontextmanager
async def serving(shop: CalledShop) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def unsticky(shop: CalledShop) -> AsyncIterator[None]:
    """The Listener has no session filter."""
    shop.listen(sessions=False)
    yield


@asynccontextmanager
async def missing(shop: CalledShop) -> AsyncIterator[None]:
    """The route is there, its cluster is not."""
    shop.plane.remove("CDS", "cart-v2")
    yield


@asynccontextmanager
async def undescribed(shop: CalledShop) -> AsyncIterator[None]:
    """No host has reflection."""
    for server in shop.servers:
        for path in reflection():
            del server.handlers[path]
    yield


Scene = Callable[[CalledShop], AbstractAsyncContextManager[None]]
SCENES: Mapping[str, Scene] = {
    "serving": serving,
    "unsticky": unsticky,
    "missing": missing,
    "undescribed": undescribed,
}


async def played(example: Example) -> tuple[int, str]:
    """The exit status, and what is printed in that scene."""
    async with CalledShop.open() as shop, SCENES[example.scene](shop):
        return await printed(example.command, shop.names, shop.environ)


_VARIES = (
    (r"10\.0\.1\.1\d:50051", "HOST"),
    (r"session=\w+=*", "session=COOKIE"),
    (r"\d to HOST(, \d to HOST)?$", "SOME to HOST"),  # the first call does not wait for both to connect
    (r"[12] of 2 endpoints", "SOME endpoints"),
)


def without_hosts(output: str) -> list[str]:
    """What can be compared: round robin begins with any host."""
    lines = comparable(output)
    for varies, constant in _VARIES:
        lines = [re.sub(varies, constant, line) for line in lines]
    return lines


async def rewrite() -> None:
    text = DOCUMENT.read_text("utf-8")
    for example in reversed(Example.of(DOCUMENT)):
        _, output = await played(example)
        if without_hosts(output) != without_hosts(example.output):
            text = rewritten(text, example, output)
    DOCUMENT.write_text(text, "utf-8")


if __name__ == "__main__":
    trio.run(rewrite)
