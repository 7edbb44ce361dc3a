"""The service shop.Cart, with a method of each kind and messages of two files, and servers that describe it themselves.

async with described_mesh(2) as mesh:
    code = await call_in(mesh, "shop.Cart/Add", data='{"sku": "apples"}')
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from msgspec import structs
from support.mesh import Mesh

from trxds import StatusCode
from trxds.cli.call.caller import CallPlan
from trxds.cli.call.data import read_data
from trxds.cli.call.output import Output
from trxds.cli.call.run import Plan, SessionPlan, run_plan
from trxds.core import metadata as md
from trxds.server.protos import ReflectionRequest, ReflectionResponse

Proto = descriptor_pb2.FieldDescriptorProto


def _item_file() -> descriptor_pb2.FileDescriptorProto:
    imports = ["google/protobuf/any.proto", "google/protobuf/timestamp.proto"]
    file = descriptor_pb2.FileDescriptorProto(name="shop/item.proto", package="shop", syntax="proto3")
    file.dependency.extend(imports)
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("UNKNOWN", "FRUIT")):
        kind.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.oneof_decl.add(name="price")
    item.field.add(name="sku", number=1, type=Proto.TYPE_STRING, label=1)
    item.field.add(name="count", number=2, type=Proto.TYPE_INT32, label=1)
    item.field.add(name="tags", number=3, type=Proto.TYPE_STRING, label=3)
    item.field.add(name="added", number=4, type_name=".google.protobuf.Timestamp", type=Proto.TYPE_MESSAGE, label=1)
    item.field.add(name="extra", number=5, type_name=".google.protobuf.Any", type=Proto.TYPE_MESSAGE, label=1)
    item.field.add(name="cents", number=6, type=Proto.TYPE_INT64, label=1, oneof_index=0)
    item.field.add(name="offer", number=7, type=Proto.TYPE_STRING, label=1, oneof_index=0)
    item.field.add(name="kind", number=8, type_name=".shop.Kind", type=Proto.TYPE_ENUM, label=1)
    item.field.add(name="parts", number=9, type_name=".shop.Item", type=Proto.TYPE_MESSAGE, label=3)
    item.field.add(name="sizes", number=10, type_name=".shop.Item.SizesEntry", type=Proto.TYPE_MESSAGE, label=3)
    entry = item.nested_type.add(name="SizesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Proto.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=Proto.TYPE_INT32, label=1)
    return file


def _cart_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop/cart.proto", package="shop", syntax="proto3")
    file.dependency.append("shop/item.proto")
    service = file.service.add(name="Cart")
    for name, client, server in (
        ("Add", False, False),
        ("List", False, True),
        ("Fill", True, False),
        ("Talk", True, True),
    ):
        streams = {"client_streaming": client, "server_streaming": server}
        service.method.add(name=name, input_type=".shop.Item", output_type=".shop.Item", **streams)
    return file


def _note_file() -> descriptor_pb2.FileDescriptorProto:
    """A message that is packed, and that no file imports."""
    file = descriptor_pb2.FileDescriptorProto(name="shop/note.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Note").field.add(name="text", number=1, type=Proto.TYPE_STRING, label=1)
    return file


WELL_KNOWN = [
    descriptor_pb2.FileDescriptorProto.FromString(each.DESCRIPTOR.serialized_pb) for each in (any_pb2, timestamp_pb2)
]
FILES = {file.name: file for file in (*WELL_KNOWN, _note_file(), _item_file(), _cart_file())}
POOL = descriptor_pool.DescriptorPool()
for _file in FILES.values():
    POOL.Add(_file)
CART = POOL.FindServiceByName("shop.Cart")
Item = GetMessageClass(POOL.FindMessageTypeByName("shop.Item"))
Note = GetMessageClass(POOL.FindMessageTypeByName("shop.Note"))


class Cart:
    """Replies name the host. `fail` in the sku is what a call fails with; `delayed` are its initial metadata."""

    def __init__(self, address):
        self.address = address

    async def Add(self, request, call):
        await call.send_initial_metadata([("shop-host", self.address), ("trace-bin", b"\1\2")])
        call.set_trailing_metadata([("cost", "3")])
        if request.sku == "nothing":
            rich = status_pb2.Status(code=5, message="no such item")
            rich.details.add().Pack(error_details_pb2.ErrorInfo(reason="SOLD_OUT", domain="shop"))
            rich.details.add().Pack(Note(text="tomorrow"))
            rich.details.add(type_url="type.googleapis.com/shop.Unknown", value=b"\1\2\3")
            call.abort(StatusCode.NOT_FOUND, "no such item", rich.SerializeToString())
        reply = Item(sku=f"{request.sku}@{self.address}")
        if request.sku == "packed":
            reply.extra.Pack(Note(text="inside"))
            reply.parts.add().extra.type_url = "type.googleapis.com/shop.Unknown"
        return reply

    async def List(self, request, call):
        for count in range(1, 4):
            yield Item(sku=request.sku, count=count)

    async def Fill(self, requests, call):
        return Item(count=sum([each.count async for each in requests]))

    async def Talk(self, requests, call):
        async for each in requests:
            yield Item(sku=each.sku.upper())


def reflection(version="v1", *, pool=POOL, one_by_one=False, without: Collection[str] = ()):
    """The handler of server reflection for what the pool has, by its path.

    `one_by_one`: a file comes without what it imports; `without`: files that the server does not have.
    """

    async def answer(call):
        async for message in call:
            request = ReflectionRequest.FromString(message)
            await call.send(_response(request, pool, one_by_one, without).SerializeToString())

    return {f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo": answer}


def _response(request, pool, one_by_one, without):
    response = ReflectionResponse(original_request=request)
    if request.list_services:
        for name in ("shop.Cart", "grpc.reflection.v1.ServerReflection"):
            response.list_services_response.service.add(name=name)
        return response
    try:
        if name := request.file_by_filename:
            file = pool.FindFileByName(name)
        else:
            file = pool.FindFileContainingSymbol(request.file_containing_symbol)
        if file.name in without:
            raise KeyError(file.name)
    except KeyError:
        response.error_response.error_code, response.error_response.error_message = StatusCode.NOT_FOUND, "not found"
        return response
    wanted = (file, *(() if one_by_one else file.dependencies))
    response.file_descriptor_response.file_descriptor_proto.extend(each.serialized_pb for each in wanted)
    return response


@asynccontextmanager
async def described_mesh(hosts=1, handlers=None, **more) -> AsyncIterator[Mesh]:
    """A mesh whose hosts serve shop.Cart and describe it, by `handlers` of reflection."""
    async with Mesh.run(hosts, **more) as mesh:
        for address, server in mesh.servers.items():
            server.fallback = None
            server.add_service(CART, Cart(address))
            server.handlers |= reflection() if handlers is None else handlers
        yield mesh


async def call_in(mesh, symbol="", *, data=None, action="call", output=None, session=None, **more):
    """What `trxds call` does with these options, in the mesh; the exit status."""
    options = {"bootstrap": mesh.bootstrap, "network": mesh.network} | more.pop("options", {})
    own = {name: more.pop(name) for name in ("schema", "target", "within") if name in more}
    if "metadata" in more:
        more["metadata"] = md.check(more["metadata"])
    calls = replace(CallPlan(read_data(data)), **more)
    plan = Plan(
        own.pop("target", "xds:///shop"), symbol, action, options, calls=calls, session=session or SessionPlan()
    )
    return await run_plan(structs.replace(plan, **own), output or Output())
