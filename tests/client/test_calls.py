"""Calls of the four kinds, as a user makes them."""

import pytest
import trio
import trio.testing
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from support.mesh import Mesh, bidi, method

from trxds import RpcError, StatusCode
from trxds.client.messages import serializer
from trxds.testing import bidi_streaming, client_streaming, server_streaming, unary


def service():
    """Return a service with methods of the four kinds, without generated code."""
    file = descriptor_pb2.FileDescriptorProto(name="shop_calls.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Item")
    message.field.add(name="sku", number=1, type=9, label=1)
    made = file.service.add(name="Cart")
    for name, client, server in (("Add", 0, 0), ("List", 0, 1), ("Fill", 1, 0), ("Talk", 1, 1)):
        made.method.add(
            name=name,
            input_type=".shop.Item",
            output_type=".shop.Item",
            client_streaming=bool(client),
            server_streaming=bool(server),
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindServiceByName("shop.Cart")


SERVICE = service()
Item = GetMessageClass(SERVICE.methods_by_name["Add"].input_type)


class Cart:
    async def Add(self, item, call):
        return Item(sku=item.sku + "!")

    async def List(self, item, call):
        for n in range(3):
            yield Item(sku=f"{item.sku}{n}")

    async def Fill(self, items, call):
        return Item(sku="+".join([item.sku async for item in items]))

    async def Talk(self, items, call):
        async for item in items:
            yield Item(sku=item.sku.upper())


@pytest.fixture
async def cart(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].add_service(SERVICE, Cart())
        async with mesh.channel() as channel:
            yield channel.stub(SERVICE)


async def test_a_unary_call_returns_the_reply(cart, autojump_clock):
    assert (await cart.Add(Item(sku="a"))).sku == "a!"


async def test_a_server_stream_is_iterated(cart, autojump_clock):
    async with cart.List.open(Item(sku="a")) as call:
        assert [item.sku async for item in call] == ["a0", "a1", "a2"]
        assert call.status.ok


async def test_a_client_stream_takes_an_iterable(cart, autojump_clock):
    assert (await cart.Fill([Item(sku="a"), Item(sku="b")])).sku == "a+b"


async def test_a_client_stream_takes_an_async_iterable(cart, autojump_clock):
    async def items():
        for sku in "ab":
            yield Item(sku=sku)

    assert (await cart.Fill(items())).sku == "a+b"


async def test_a_client_stream_can_be_sent_message_by_message(cart, autojump_clock):
    async with cart.Fill.open() as call:
        await call.send(Item(sku="a"))
        await call.send(Item(sku="b"))
        call.done_sending()
        assert (await call.receive()).sku == "a+b"


async def test_a_bidi_stream_talks_both_ways(cart, autojump_clock):
    async with cart.Talk.open() as call:
        for sku in ("a", "b"):
            await call.send(Item(sku=sku))
            assert (await call.receive()).sku == sku.upper()
        call.done_sending()
        assert await call.receive() is None


async def test_send_after_done_sending_raises_closed_resource_error(cart, autojump_clock):
    async with cart.Talk.open() as call:
        call.done_sending()
        with pytest.raises(trio.ClosedResourceError, match="Talk: nothing more can be sent: done_sending was called"):
            await call.send(Item(sku="a"))
        assert await call.receive() is None
    async with cart.Add.open(Item(sku="a")) as call:
        with pytest.raises(trio.ClosedResourceError, match="or the method takes one request only"):
            await call.send(Item(sku="b"))
        assert (await call.receive()).sku == "a!"


@pytest.mark.parametrize("server_streaming", [False, True])
async def test_the_request_of_a_method_that_takes_one_closes_the_clients_side(server_streaming, autojump_clock):
    ended = []

    async def count(call):
        ended.append(len([message async for message in call]))
        await call.send(b"x")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Count"] = count
        async with channel.method("/shop.Cart/Count", server_streaming=server_streaming).open(timeout=5) as call:
            assert await call.send(b"one")
            with pytest.raises(trio.ClosedResourceError, match="the method takes one request only"):
                await call.send(b"two")
            assert await call.receive() == b"x"
    assert ended == [1]


async def test_a_bidi_stream_may_be_sent_to_and_received_from_by_two_tasks(cart, autojump_clock):
    async with cart.Talk.open() as call, trio.open_nursery() as nursery:

        async def send():
            for n in range(50):
                await call.send(Item(sku=str(n)))
            call.done_sending()

        nursery.start_soon(send)
        assert [item.sku async for item in call] == [str(n) for n in range(50)]


async def test_a_streaming_method_cannot_be_awaited(cart, autojump_clock):
    with pytest.raises(TypeError, match="open"):
        await cart.List(Item())


async def test_a_stub_without_the_method_names_the_methods_it_has(cart, autojump_clock):
    with pytest.raises(AttributeError, match=r"shop\.Cart has no method Drop; it has Add, List, Fill, Talk"):
        _ = cart.Drop


async def test_metadata_of_a_call_goes_both_ways(autojump_clock):
    async def tell(call):
        await call.send_initial_metadata([("first", "1"), ("raw-bin", b"\x00\xff")])
        call.set_trailing_metadata([("last", "2")])
        await call.send("|".join(str(v) for v in call.metadata.all("mine")).encode())

    async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Tell"] = tell
        async with bidi(channel, "/shop.Cart/Tell").open(b"", metadata=[("mine", "a"), ("mine", "b")]) as call:
            assert await call.wait_initial_metadata() == (("first", "1"), ("raw-bin", b"\x00\xff"))
            assert call.trailing_metadata == ()
            assert await call.receive() == b"a|b"
            assert await call.receive() is None
            assert call.trailing_metadata == (("last", "2"),)
            assert call.peer == mesh.hosts[0]


async def test_metadata_that_has_changed_since_the_last_call_is_sent_and_checked_as_it_is_now(autojump_clock):
    heard = []

    async def tell(request, call):
        heard.append(call.metadata.all("mine"))
        return b""

    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Tell"] = unary(tell)
        async with mesh.channel() as channel:
            call, pair = method(channel, "/shop.Cart/Tell"), ["mine", "a"]
            for pair[1] in ("a", "a", "b"):
                await call(b"", metadata=[pair])
            for pairs in ([("mine", "b")], [("MINE", "c")], [("mine", "c"), ("mine", "d")]):
                await call(b"", metadata=pairs)
            with pytest.raises(ValueError, match="a line end at position 0"):
                await call(b"", metadata=[("mine", "\n")])
            with pytest.raises(TypeError, match="not str"):
                await call(b"", metadata=[("mine", b"d")])
    assert heard == [["a"], ["a"], ["b"], ["b"], ["c"], ["c", "d"]]


async def test_an_rpc_error_has_status_details_and_metadata(autojump_clock):
    async def refuse(call):
        await call.send_initial_metadata([("first", "1")])
        call.set_trailing_metadata([("last", "2")])
        call.abort(StatusCode.FAILED_PRECONDITION, "not yet: 50 %\n", b"details")

    async with Mesh.run(1, sessions=False) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/No"] = refuse
        with pytest.raises(RpcError) as caught:
            await method(channel, "/shop.Cart/No")(b"")
        error = caught.value
        assert (error.status.code, error.status.message) == (StatusCode.FAILED_PRECONDITION, "not yet: 50 %\n")
        assert error.status.details == b"details"
        assert error.initial_metadata == (("first", "1"),)
        assert error.trailing_metadata.first("last") == "2"


async def test_messages_before_an_error_are_received_first(autojump_clock):
    async def some(request, call):
        yield b"one"
        yield b"two"
        call.abort(StatusCode.ABORTED, "enough")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Some"] = server_streaming(some)
        received = []
        with pytest.raises(RpcError, match="ABORTED: enough"):
            async with bidi(channel, "/shop.Cart/Some").open(b"") as call:
                call.done_sending()
                async for message in call:
                    received.append(message)
        assert received == [b"one", b"two"]


@pytest.mark.parametrize("replies", [1, 0])
async def test_messages_come_before_the_failure_of_a_server_that_does_not_wait_for_the_request(autojump_clock, replies):
    async def refuse(requests, call):
        for _ in range(replies):
            yield b"the limit is 64 KiB"
        call.abort(StatusCode.ABORTED, "too large")

    received = []
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Some"] = bidi_streaming(refuse)
        some = channel.method("/shop.Cart/Some", server_streaming=True)
        with pytest.raises(RpcError, match="ABORTED: too large"):
            async with some.open(bytes(1024 * 1024)) as call:  # which waits for a window that the server never opens
                async for message in call:
                    received.append(message)
    assert received == [b"the limit is 64 KiB"] * replies


async def test_a_server_that_ends_early_stops_the_sender(autojump_clock):
    async def first_only(requests, call):
        async for request in requests:
            return request

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/First"] = client_streaming(first_only)
        fill = channel.method("/shop.Cart/First", client_streaming=True)
        assert await fill(b"%d" % n for n in range(10_000)) == b"0"


async def test_leaving_the_block_resets_the_stream(autojump_clock):
    ended = []

    async def talk(requests, call):
        try:
            async for request in requests:
                yield request
        except BaseException as error:
            ended.append(type(error))
            raise

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Talk"] = bidi_streaming(talk)
        async with bidi(channel, "/shop.Cart/Talk").open(b"hello") as call:
            await call.receive()
        await trio.sleep(1)
        assert ended == [trio.Cancelled]


async def test_a_call_outside_any_session_has_no_cookie(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await method(channel)(b"")
        await method(channel)(b"")
        assert [call.metadata.all("cookie") for call in mesh.servers[mesh.hosts[0]].calls] == [[], []]


def test_a_request_may_be_changed_once_the_call_has_begun():
    request = bytearray(b"now")
    sent = serializer(None, "/shop.Cart/Add")(request)
    request[:] = b"new"
    assert sent == b"now"


async def test_large_messages_pass_both_ways(autojump_clock):
    async def echo(request, call):
        return request

    async with Mesh.run(1, sessions=False) as mesh:
        server = mesh.servers[mesh.hosts[0]]
        server.handlers["/shop.Cart/Echo"] = unary(echo)
        server.max_receive_size = 10_000_000
        async with mesh.channel(max_receive_size=10_000_000) as channel:
            large = b"x" * 8 * 1024 * 1024
            assert await method(channel, "/shop.Cart/Echo")(large) == large


async def test_a_call_that_has_ended_is_not_counted_as_open(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await method(channel)(b"")
        with pytest.raises(RpcError):
            await method(channel)(b"", timeout=0)
        async with bidi(channel).open():
            assert repr(channel) == "<Channel xds:///shop open, 1 calls>"
        assert repr(channel) == "<Channel xds:///shop open, 0 calls>"


async def test_a_second_reply_to_a_unary_call_is_unimplemented(autojump_clock):
    async def twice(call):
        async for _ in call:
            pass
        await call.send(b"one")
        await call.send(b"two")

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Twice"] = twice
        for client_streaming, request in ((False, b"x"), (True, [b"x"])):
            with pytest.raises(RpcError, match=r"UNIMPLEMENTED: .*second message"):
                await channel.method("/shop.Cart/Twice", client_streaming=client_streaming)(request)
