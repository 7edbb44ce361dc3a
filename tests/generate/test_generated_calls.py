"""Generated stubs call a grpcio server: all kinds, by a channel, by a session, and from threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

import trxds
from trxds.testing import ManagementServer
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

SERVER = Path(__file__).with_name("grpcio_shop.py")

IN_TRIO = """
import trio, trxds
from google.protobuf.empty_pb2 import Empty
from shop.v1.cart_pb2 import Item
from shop.v1.cart_trxds import CartStub

async def main():
    async with trxds.open_channel("xds:///shop") as channel, channel.session() as session:
        cart = CartStub(channel)
        print((await cart.Add(Item(sku="book"), timeout=20)).sku)
        item, call = await cart.Add.with_call(Item(sku="book"), timeout=20)
        print(item.sku, call.status.code.name, bool(call.peer))
        async with cart.List.open(Empty()) as lines:
            print([line.number async for line in lines])
        print((await cart.Fill([Item(sku="a"), Item(sku="b")])).skus)
        async with CartStub(session).Talk.open() as call:
            await call.send(Item(sku="hello"))
            print((await call.receive()).text)
        print((await CartStub(session).import_(Item(sku="four"))).width)
        try:
            await cart.trxds(Item())
        except trxds.RpcError as error:
            print(error.status.code.name)

trio.run(main)
"""

IN_THREADS = """
import trxds.sync
from google.protobuf.empty_pb2 import Empty
from shop.v1.cart_pb2 import Item
from shop.v1.cart_trxds_sync import CartStub

with trxds.sync.open_channel("xds:///shop") as channel, channel.session() as session:
    cart = CartStub(channel)
    print(cart.Add(Item(sku="book"), timeout=20).sku)
    item, call = cart.Add.with_call(Item(sku="book"), timeout=20)
    print(item.sku, call.status.code.name, bool(call.peer))
    with cart.List.open(Empty()) as lines:
        print([line.number for line in lines])
    print(cart.Fill([Item(sku="a"), Item(sku="b")]).skus)
    with CartStub(session).Talk.open() as call:
        call.send(Item(sku="hello"))
        print(call.receive().text)
    print(CartStub(session).import_(Item(sku="four")).width)
    try:
        cart.trxds(Item())
    except trxds.RpcError as error:
        print(error.status.code.name)
"""

IN_A_PACKAGE = """
import trio, trxds
from made.shop.v1.cart_pb2 import Item
from made.shop.v1.cart_trxds import CartStub

async def main():
    async with trxds.open_channel("xds:///shop") as channel:
        print((await CartStub(channel).Fill([Item(sku="a")], timeout=20)).skus)

trio.run(main)
"""

ALL_KINDS = ["book!", "book! OK True", "[0, 1, 2]", "['a', 'b']", "HELLO", "4", "UNIMPLEMENTED"]


async def output(program, folder, messages):
    """The lines that `program` prints, with what was generated in `folder`, where a grpcio server is the shop."""
    plane = ManagementServer()
    path = os.pathsep.join((str(Path(trxds.__file__).parent.parent), str(folder)))
    async with trio.open_nursery() as nursery, plane.serve() as address:
        run = partial(trio.run_process, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        command = [sys.executable, str(SERVER)]
        server = await nursery.start(partial(run, command, env=os.environ | {"PYTHONPATH": str(messages)}))
        line = b""
        while not line.endswith(b"\n"):
            line += await server.stdout.receive_some()
        plane.put(
            xds.listener("shop", routes="r"),
            xds.routes("r", xds.route("c")),
            xds.cluster("c"),
            xds.endpoints("c", xds.locality(line.decode().strip())),
        )
        environ = {"PYTHONPATH": path, "GRPC_XDS_BOOTSTRAP_CONFIG": json.dumps(xds.bootstrap(address))}
        with trio.fail_after(60):
            done = await trio.run_process(
                [sys.executable, "-W", "error", "-c", program],
                env=os.environ | environ,
                capture_stdout=True,
            )
        await server.stdin.aclose()
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("program", [IN_TRIO, IN_THREADS], ids=["trio", "threads"])
async def test_generated_stubs_call_a_grpcio_server(program, plain):
    assert await output(program, plain, plain) == ALL_KINDS


async def test_generated_stubs_of_a_package_call_a_grpcio_server(package, plain):
    assert await output(IN_A_PACKAGE, package, plain) == ["['a']"]


async def test_a_stub_has_the_comments_of_the_proto_as_docstrings(plain):
    program = """
from inspect import getdoc  # without the indentation, which Python 3.13 leaves out of __doc__ too
from shop.v1.cart_trxds import CartStub
print(getdoc(CartStub))
print(getdoc(CartStub.Add))
"""
    done = await trio.run_process(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(Path(trxds.__file__).parent.parent), str(plain)))},
        capture_stdout=True,
    )
    assert done.stdout.decode().splitlines() == [
        r'What a customer has "in hand": C:\carts, and """everything""" in it.',
        "",
        "A cart belongs to one customer.",
        'Adds an item, and returns it as "kept"',
    ]
