"""A reply of the wrong type fails the call with INTERNAL, and the test with a TypeError."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from support.shop_service import CART, Item, Size

import trxds
from trxds.core.status import StatusCode
from trxds.testing import Call, Handler, MemoryNetwork, Server, client_streaming, serve, server_streaming, unary

ADD = "/shop.Cart/Add"


@asynccontextmanager
async def connected(
    handlers: dict[str, Handler] | None = None, servicer: object = None, **options: Any
) -> AsyncIterator[tuple[Server, trxds.Channel]]:
    network = MemoryNetwork()
    async with serve(handlers, address="10.0.0.1:50051", network=network, **options) as server:
        if servicer is not None:
            server.add_service(CART, servicer)
        async with trxds.open_channel("ipv4:10.0.0.1:50051", network=network) as channel:
            yield server, channel


class WrongMessage:
    async def Add(self, item, call):
        return Size(sku=item.sku)

    async def List(self, item, call):
        yield item
        yield "a line"

    async def Fill(self, items, call):
        return None

    async def Talk(self, items, call):
        async for _ in items:
            yield Size()


async def talk(cart: Any) -> None:
    async with cart.Talk.open() as call:
        await call.send(Item())
        await call.receive()


async def read_list(cart: Any) -> None:
    async with cart.List.open(Item()) as lines:
        async for _ in lines:
            pass


@pytest.mark.parametrize(
    "use, problem",
    [
        (lambda cart: cart.Add(Item()), "/shop.Cart/Add replied with shop.Size, not shop.Item"),
        (read_list, "/shop.Cart/List replied with str, not shop.Item"),
        (lambda cart: cart.Fill([Item()]), "/shop.Cart/Fill replied with NoneType, not shop.Item"),
        (talk, "/shop.Cart/Talk replied with shop.Size, not shop.Item"),
    ],
    ids=["Add", "List", "Fill", "Talk"],
)
async def test_a_message_of_another_type_is_internal_and_the_end_of_the_block_raises_it(
    use, problem, autojump_clock
) -> None:
    with pytest.raises(TypeError, match=problem) as raised:
        async with connected(servicer=WrongMessage()) as (server, channel):
            with pytest.raises(trxds.RpcError) as failed:
                await use(channel.stub(CART))
            assert failed.value.status.code is StatusCode.INTERNAL
            assert str(server.reply_error) == failed.value.status.message
    assert str(raised.value) == f"the handler of {problem}"


class WrongKind:
    async def Add(self, item, call):
        yield item

    async def List(self, item, call):
        return [item]

    def Fill(self, items, call):
        return Item()

    def Talk(self, items, call):
        return [Item()]


@pytest.mark.parametrize(
    "kind, problem",
    [
        (unary(WrongKind().Add), "yielded; a method with one reply returns it"),
        (server_streaming(WrongKind().List), "does not yield; a method with a stream of replies yields each"),
        (client_streaming(WrongKind().Fill), "returned shop.Item; write it as `async def`"),
        (server_streaming(WrongKind().Talk), "returned list; write it as `async def` and yield each reply"),
    ],
    ids=["Add", "List", "Fill", "Talk"],
)
async def test_a_function_of_another_kind_is_told_how_to_reply(kind, problem, autojump_clock) -> None:
    with pytest.raises(TypeError) as raised:
        async with connected({ADD: kind}) as (_, channel):
            with pytest.raises(trxds.RpcError):
                await channel.method(ADD)(b"")
    assert str(raised.value) == f"the handler of {ADD} {problem}"


async def raw_text(call: Call) -> None:
    await call.send("text")


async def raw_text_from_a_task(call: Call) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.send, "text")


@pytest.mark.parametrize(
    "kind, actual",
    [(unary(lambda request, call: number()), "int"), (raw_text, "str"), (raw_text_from_a_task, "str")],
    ids=["unary", "raw", "nursery"],
)
async def test_a_reply_without_a_protobuf_type_has_to_be_bytes(kind, actual, autojump_clock) -> None:
    with pytest.raises(TypeError, match=f"^the handler of {ADD} replied with {actual}, not bytes$"):
        async with connected({ADD: kind}) as (_, channel):
            with pytest.raises(trxds.RpcError) as failed:
                await channel.method(ADD)(b"")
            assert failed.value.status.code is StatusCode.INTERNAL


async def number() -> int:
    return 3  # of which `bytes` would make three zero bytes


async def test_bytearray_and_memoryview_are_bytes(autojump_clock) -> None:
    async def parts(request: bytes, call: Call):
        yield bytearray(b"a")
        yield memoryview(b"b")

    async with (
        connected({ADD: server_streaming(parts)}) as (_, channel),
        channel.method(ADD, server_streaming=True).open(b"") as replies,
    ):
        assert [reply async for reply in replies] == [b"a", b"b"]


async def test_an_iterator_that_is_no_generator_may_stream_replies(autojump_clock) -> None:
    class Stock:
        def List(self, item, call):
            sending, receiving = trio.open_memory_channel[Any](2)
            sending.send_nowait(item)
            sending.close()
            return receiving

    async with connected(servicer=Stock()) as (_, channel), channel.stub(CART).List.open(Item(sku="a")) as lines:
        assert [line.sku async for line in lines] == ["a"]


async def test_the_error_of_the_block_is_the_cause(autojump_clock) -> None:
    with pytest.raises(TypeError) as raised:
        async with connected(servicer=WrongMessage(), remember_calls=False) as (_, channel):
            await channel.stub(CART).Add(Item())
    assert isinstance(raised.value.__cause__, trxds.RpcError)


async def test_a_block_that_ends_by_a_timeout_raises_it_too(autojump_clock) -> None:
    with pytest.raises(TypeError, match=ADD), trio.move_on_after(60):
        async with connected(servicer=WrongMessage()) as (_, channel):
            with pytest.raises(trxds.RpcError):
                await channel.stub(CART).Add(Item())
            await trio.sleep_forever()


async def test_the_first_of_several_is_raised(autojump_clock) -> None:
    with pytest.raises(TypeError, match=ADD):
        async with connected(servicer=WrongMessage()) as (_, channel):
            cart = channel.stub(CART)
            for method, request in ((cart.Add, Item()), (cart.Fill, [Item()])):
                with pytest.raises(trxds.RpcError):
                    await method(request)


async def test_an_exception_of_a_handler_fails_its_call_only(autojump_clock) -> None:
    class Broken:
        async def Add(self, item, call):
            raise TypeError("of its own")

    async with connected(servicer=Broken()) as (server, channel):
        with pytest.raises(trxds.RpcError) as failed:
            await channel.stub(CART).Add(Item())
        assert failed.value.status.code is StatusCode.UNKNOWN and server.reply_error is None
