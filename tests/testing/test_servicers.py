"""What `add_service` takes: mistakes in a servicer are errors before anything is served."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import AsyncMock, Mock

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from support.shop_service import CART, Item

import trxds
from trxds.core.status import StatusCode
from trxds.server.servicer import handler_names
from trxds.testing import MemoryNetwork, Server, serve


class Cart:
    async def Add(self, item, call):
        return Item(sku=item.sku + "!")


async def added(servicer: object) -> str:
    """Return the reply to Add("a") by a server with this servicer."""
    network = MemoryNetwork()
    async with (
        serve(address="10.0.0.1:50051", network=network) as server,
        trxds.open_channel("ipv4:10.0.0.1:50051", network=network) as channel,
    ):
        server.add_service(CART, servicer)
        return (await channel.stub(CART).Add(Item(sku="a"))).sku


def refused(servicer: object) -> str:
    server = Server()
    with pytest.raises(TypeError) as raised:
        server.add_service(CART, servicer)
    assert server.handlers == {}
    return str(raised.value)


# -- names


@pytest.mark.parametrize(
    "name, meant", [("Ad", "Add"), ("add", "Add"), ("AddItem", "Add"), ("Lsit", "List"), ("import__", "import_")]
)
def test_a_misspelled_method_names_the_service_and_the_closest_method(name, meant) -> None:
    async def handler(self, request, call):
        raise AssertionError

    servicer = type("Cart", (), {name: handler})()
    assert refused(servicer) == (
        f"Cart.{name} is no method of shop.Cart; did you mean {meant}? (If it is no handler, call it _{name}.)"
    )


def test_a_misspelled_method_beside_good_ones_is_refused_too() -> None:
    class Shop(Cart):
        async def Lits(self, item, call):
            yield item

    assert "Lits is no method of shop.Cart; did you mean List?" in refused(Shop())


async def test_helpers_are_no_misspelled_methods(autojump_clock) -> None:
    class Shop(Cart):
        async def Checkout(self, item, call):
            """Of another service."""

        async def add_all(self, item, call):
            """A method that resembles one with a handler."""

        def lists(self, item, call):
            """A function that is not async, so no handler."""

        async def fills(self):
            """A function without the parameters of a handler."""

        async def _Lits(self, item, call):
            """A private one."""

        @property
        def listed(self):
            raise AssertionError("a property must not run")

    assert await added(Shop()) == "a!"


def test_a_servicer_without_any_method_is_refused() -> None:
    assert refused(object()) == "object has no method of shop.Cart; its methods are Add, List, Fill, Talk, import_"


def test_a_service_without_methods_takes_any_servicer() -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto(name="empty.proto", service=[{"name": "Empty"}]))
    server = Server()
    server.add_service(pool.FindServiceByName("Empty"), object())
    assert server.handlers == {}


async def test_a_servicer_may_leave_methods_out(autojump_clock) -> None:
    network = MemoryNetwork()
    async with (
        serve(address="10.0.0.1:50051", network=network) as server,
        trxds.open_channel("ipv4:10.0.0.1:50051", network=network) as channel,
    ):
        server.add_service(CART, Cart())
        with pytest.raises(trxds.RpcError) as failed:
            await channel.stub(CART).Fill([Item()])
        assert failed.value.status.code is StatusCode.UNIMPLEMENTED


class CartServicer(Protocol):
    async def Add(self, request: Any, call: Any, /) -> Any:
        call.abort(StatusCode.UNIMPLEMENTED, "Add")

    async def Fill(self, request: Any, call: Any, /) -> Any:
        call.abort(StatusCode.UNIMPLEMENTED, "Fill")


def test_a_method_that_a_protocol_has_a_default_for_may_be_misspelled() -> None:
    class Shop(CartServicer):
        async def Fil(self, items, call):
            raise AssertionError

    assert "Shop.Fil is no method of shop.Cart; did you mean Fill?" in refused(Shop())


@pytest.mark.parametrize("name", ["import_", "import"])
async def test_a_method_with_the_name_of_a_keyword_has_an_underscore(name, autojump_clock) -> None:
    async def handler(item, call):
        return Item(sku=item.sku * 2)

    network = MemoryNetwork()
    async with (
        serve(address="10.0.0.1:50051", network=network) as server,
        trxds.open_channel("ipv4:10.0.0.1:50051", network=network) as channel,
    ):
        server.add_service(CART, SimpleNamespace(**{name: handler}))
        assert (await getattr(channel.stub(CART), "import")(Item(sku="a"))).sku == "aa"


def test_handlers_have_names_that_python_takes() -> None:
    assert handler_names(["Add", "import", "import_", "__init", "_x"]) == {
        "Add": "Add",
        "import": "import_",
        "import_": "import__",
        "__init": "init_",
        "_x": "_x",
    }


# -- functions


def test_a_class_in_place_of_its_object_is_refused() -> None:
    assert refused(Cart) == "Cart is a class; pass an object of it"


def test_a_function_without_the_call_is_refused() -> None:
    class Shop:
        async def Add(self, item):
            return item

        async def Fill(self, items, call):
            return Item()

    assert refused(Shop()).endswith("Shop.Add(item) has to take a request and the call")


def test_a_function_that_yields_or_not_has_to_fit_its_method() -> None:
    class Yields:
        async def Add(self, item, call):
            yield item

    class Returns:
        async def List(self, item, call):
            return [item]

    assert re.search(r"Yields\.Add yields; a method with one reply returns it$", refused(Yields()))
    assert re.search(r"Returns\.List does not yield; a method with a stream of replies yields", refused(Returns()))


def test_an_attribute_that_is_no_function_is_refused() -> None:
    assert refused(SimpleNamespace(Add=Item())) == "SimpleNamespace.Add is Item, not a function"


@pytest.mark.parametrize(
    "mock", [SimpleNamespace, lambda Add: Mock(spec=CartServicer, Add=Add)], ids=["function", "spec"]
)
async def test_mocks_are_servicers(mock, autojump_clock) -> None:
    # Made here: a mock keeps its calls, and with them the server's connection, as long as it is there.
    servicer = mock(Add=AsyncMock(return_value=Item(sku="mocked")))
    assert await added(servicer) == "mocked"
    (request, _) = servicer.Add.await_args.args
    assert request == Item(sku="a")
