"""Generated servicers serve generated stubs, over a network in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trxds

pytestmark = pytest.mark.slow

PROGRAM = """
import trio, trxds
from google.protobuf.empty_pb2 import Empty
from {package}shop.v1.cart_pb2 import Item
from {package}shop.v1.cart_trxds import CartStub
from {package}shop.v1.cart_trxds_servicers import CartServicer, add_CartServicer_to_server
from {package}shop.v1.types_pb2 import Size
from trxds.testing import MemoryNetwork, serve

class Cart(CartServicer):
    async def Add(self, item, call):
        return Item(sku=item.sku + "!")

    async def List(self, empty, call):
        for number in range(3):
            yield Item.Line(number=number)

    async def import_(self, item, call):
        return Size(width=len(item.sku))

class Misspelled(CartServicer):
    async def Fil(self, items, call):
        return Item()

async def main():
    network = MemoryNetwork()
    async with (
        serve(address="10.0.0.1:50051", network=network) as server,
        trxds.open_channel("ipv4:10.0.0.1:50051", network=network) as channel,
    ):
        add_CartServicer_to_server(Cart(), server)
        cart = CartStub(channel)
        print((await cart.Add(Item(sku="book"))).sku)
        async with cart.List.open(Empty()) as lines:
            print([line.number async for line in lines])
        print((await cart.import_(Item(sku="four"))).width)
        try:
            await cart.Fill([])
        except trxds.RpcError as error:
            print(error)
        try:
            async with cart.Talk.open() as call:
                await call.receive()
        except trxds.RpcError as error:
            print(error.status.code.name)
        try:
            add_CartServicer_to_server(Misspelled(), server)
        except TypeError as error:
            print(error)

trio.run(main)
"""


@pytest.mark.parametrize("folder, prefix", [("plain", ""), ("package", "made.")])
def test_a_servicer_serves_the_methods_that_it_has(folder: str, prefix: str, request: pytest.FixtureRequest) -> None:
    path = os.pathsep.join((str(Path(trxds.__file__).parent.parent), str(request.getfixturevalue(folder))))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(package=prefix)],
        check=False,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    first, lines, width, unimplemented, talk, misspelled = done.stdout.splitlines()
    assert (first, lines, width, talk) == ("book!", "[0, 1, 2]", "4", "UNIMPLEMENTED")
    assert "no handler for /shop.v1.Cart/Fill" in unimplemented
    assert misspelled.startswith("Misspelled.Fil is no method of shop.v1.Cart; did you mean Fill?")
