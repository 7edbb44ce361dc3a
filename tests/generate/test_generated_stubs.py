"""The stubs and servicers that are generated: their text, and what type checkers say about it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.pyright import run_pyright

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden"

# A type checker finds an error in each line that ends with "wrong", and in no other of a program.
PROGRAM = """\
from typing import assert_type

import trxds
import trxds.sync
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from nopackage_trxds import FirstStub, SecondStub
from other import types_pb2 as other
from shop.v1.cart_pb2 import Item
from shop.v1.cart_trxds import CartStub
from shop.v1.cart_trxds_sync import CartStub as Blocking
from shop.v1.types_pb2 import Size


async def right(channel: trxds.Channel, session: trxds.Session) -> None:
    cart = CartStub(channel)
    assert_type(await cart.Add(Item(sku="a"), timeout=2, metadata=[("user", "7")]), Item)
    async with cart.List.open(Empty(), wait_for_ready=True) as lines:
        assert_type(lines, trxds.ResponseStream[Item.Line])
        assert_type([line async for line in lines], list[Item.Line])
    assert_type(await cart.Fill([Item()]), other.Item)
    assert_type(await cart.Add.with_call(Item()), tuple[Item, trxds.CompletedCall])
    assert_type(await cart.Fill.with_call([Item()]), tuple[other.Item, trxds.CompletedCall])
    async with cart.Talk.open() as call:
        assert_type(await call.send(Item()), bool)
        assert_type(await call.receive(), Item.Line.Note | None)
    assert_type(await CartStub(session).import_(Item()), Size)
    assert_type(await FirstStub(channel).Get(other.Item()), other.Item)
    await cart.Add(Item(size={"width": 2}, lines=[{"number": 1}], others={"a": Size()}))
    message: Message = await SecondStub(channel).Get(Item())


def right_in_threads(channel: trxds.sync.Channel, session: trxds.sync.Session) -> None:
    with trxds.sync.open_channel("xds:///shop", max_receive_size=1) as opened:
        assert_type(opened, trxds.sync.Channel)
    assert_type(Blocking(channel).Add(Item(sku="a"), timeout=2), Item)
    assert_type(Blocking(channel).Add.future(Item()).result(), Item)
    with Blocking(session).List.open(Empty()) as lines:
        assert_type(list(lines), list[Item.Line])
    assert_type(Blocking(session).Fill([Item()]), other.Item)
    assert_type(Blocking(channel).Add.with_call(Item()), tuple[Item, trxds.CompletedCall])
    assert_type(Blocking(session).Fill.with_call([Item()]), tuple[other.Item, trxds.CompletedCall])
    with Blocking(session).Talk.open() as call:
        assert_type(call.send(Item()), bool)
        assert_type(call.receive(), Item.Line.Note | None)


async def not_right(channel: trxds.Channel, blocking: trxds.sync.Channel) -> None:
    cart = CartStub(channel)
    await cart.Add(other.Item())  # wrong
    await cart.Add(Item(), tiemout=2)  # wrong
    await cart.List(Empty())  # wrong
    await cart.List.with_call(Empty())  # wrong
    await cart.Fill(Item())  # wrong
    async with cart.List.open(Empty()) as lines:
        await lines.send(Item())  # wrong
    CartStub(blocking)  # wrong
    Blocking(blocking).List.future(Empty())  # wrong
    trxds.sync.open_channel("xds:///shop", max_size=1)  # wrong
"""

SERVICERS = """\
from collections.abc import AsyncIterator

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from nopackage_trxds_servicers import add_SecondServicer_to_server
from other import types_pb2 as other
from shop.v1.cart_pb2 import Item
from shop.v1.cart_trxds_servicers import CartServicer, add_CartServicer_to_server
from shop.v1.types_pb2 import Size
from trxds.testing import Call, Server


class Complete:
    async def Add(self, item: Item, call: Call) -> Item:
        return item

    async def List(self, empty: Empty, call: Call) -> AsyncIterator[Item.Line]:
        yield Item.Line(number=1)

    async def Fill(self, items: AsyncIterator[Item], call: Call) -> other.Item:
        return other.Item(skus=[item.sku async for item in items])

    async def Talk(self, items: AsyncIterator[Item], call: Call) -> AsyncIterator[Item.Line.Note]:
        async for item in items:
            yield Item.Line.Note(text=item.sku)

    async def import_(self, item: Item, call: Call) -> Size:
        return Size(width=len(item.sku))

    async def trxds(self, item: Item, call: Call) -> Item:
        return item

    async def _caller(self, item: Item, call: Call) -> Item:
        return item


class Partial(CartServicer):
    async def Add(self, item: Item, call: Call) -> Item:
        return item

    async def List(self, empty: Empty, call: Call) -> AsyncIterator[Item.Line]:
        yield Item.Line(number=1)


class Second:
    async def Get(self, item: Message, call: Call) -> Message:
        return item

    async def Call(self, item: Message, call: object) -> Message:
        return item


class Misspelled:
    async def Gte(self, item: Message, call: Call) -> Message:
        return item

    async def Call(self, item: Message, call: object) -> Message:
        return item


class OtherReply:
    async def Get(self, item: Message, call: Call) -> str:
        return ""

    async def Call(self, item: Message, call: object) -> Message:
        return item


class WrongReply(CartServicer):
    async def Add(self, item: Item, call: Call) -> Size:  # wrong
        return Size()


class WrongRequest(CartServicer):
    async def Fill(self, items: Item, call: Call) -> other.Item:  # wrong
        return other.Item()


class WrongStream(CartServicer):
    async def List(self, empty: Empty, call: Call) -> list[Item.Line]:  # wrong
        return [Item.Line()]


def serve_all(server: Server) -> None:
    cart: CartServicer = Complete()
    add_CartServicer_to_server(cart, server)
    add_CartServicer_to_server(Complete(), server)
    add_CartServicer_to_server(Partial(), server)
    add_SecondServicer_to_server(Second(), server)
    add_SecondServicer_to_server(Misspelled(), server)  # wrong
    add_SecondServicer_to_server(OtherReply(), server)  # wrong
    add_CartServicer_to_server(Second(), server)  # wrong
    add_CartServicer_to_server(object(), server)  # wrong
"""
BOTH_PROGRAMS = pytest.mark.parametrize("program", [PROGRAM, SERVICERS], ids=["stubs", "servicers"])


def wrong_lines(program: str) -> list[int]:
    return [number for number, line in enumerate(program.splitlines(), 1) if line.endswith("wrong")]


@pytest.mark.parametrize(
    "golden, made",
    [
        ("cart_trxds.txt", "plain/shop/v1/cart_trxds.py"),
        ("cart_trxds_sync.txt", "plain/shop/v1/cart_trxds_sync.py"),
        ("cart_trxds_relative.txt", "package/made/shop/v1/cart_trxds.py"),
        ("nopackage_trxds.txt", "plain/nopackage_trxds.py"),
        ("cart_trxds_servicers.txt", "plain/shop/v1/cart_trxds_servicers.py"),
        ("cart_trxds_servicers_relative.txt", "package/made/shop/v1/cart_trxds_servicers.py"),
        ("nopackage_trxds_servicers.txt", "plain/nopackage_trxds_servicers.py"),
    ],
)
def test_the_text_is_the_expected_one(golden, made, plain, package):
    """After a change on purpose: TRXDS_GOLDEN=write makes the files anew, to be read in the diff."""
    which, _, path = made.partition("/")
    text = ({"plain": plain, "package": package}[which] / path).read_text("utf-8")
    if os.environ.get("TRXDS_GOLDEN") == "write":
        (GOLDEN / golden).write_text(text, "utf-8")
    assert text == (GOLDEN / golden).read_text("utf-8")


@pytest.mark.long
@BOTH_PROGRAMS
def test_mypy_knows_the_types_and_has_nothing_against_the_modules(program, plain, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(path)],
        check=False,
        env=os.environ | {"MYPYPATH": str(plain)},
        cwd=plain,
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert done.stderr == ""
    assert sorted({line.rpartition("/")[2].partition(": error:")[0] for line in found}) == [
        f"program.py:{number}" for number in wrong_lines(program)
    ], done.stdout


@pytest.mark.long
def test_mypy_has_nothing_against_relative_imports(package, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "-p", "made"],
        check=False,
        cwd=package,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.long
@BOTH_PROGRAMS
def test_pyright_knows_the_types_and_has_nothing_against_the_modules(program, plain, tmp_path):
    there = shutil.which("node") and run_pyright("--version").returncode == 0
    if not there and os.environ.get("CI") is None:
        pytest.skip("pyright or node is missing, so pyright was not asked; CI does not let that pass")
    path = tmp_path / "program.py"
    path.write_text(program, "utf-8")
    settings = {"include": [str(path), str(plain)], "extraPaths": [str(plain), *sys.path], "strict": [str(plain)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    done = run_pyright("--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path))
    told = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in told if each["severity"] == "error"]
    lines = {each["range"]["start"]["line"] + 1 for each in errors if Path(each["file"]) == path}
    assert [each["message"] for each in errors if "_trxds" in each["file"]] == []
    assert sorted(lines) == wrong_lines(program), done.stdout
