"""A channel for asyncio makes calls of every kind, with errors and timeouts."""

import asyncio
import gc
import time

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from support.asyncio_tests import in_asyncio
from support.own_filters import TENANT, Tenant

from trxds import Connectivity, RpcError, StatusCode
from trxds.filters import FilterType
from trxds.testing import resources as xds
from trxds.transport.response import NO_REPLY, SECOND_REPLY


@in_asyncio
async def test_a_unary_call_returns_the_reply(world):
    async with world.channel() as channel:
        assert await channel.method("/shop.Cart/Echo")(b"a book", timeout=20) == b"a book"


@in_asyncio
async def test_an_open_call_has_metadata_both_ways(world):
    async with (
        world.channel() as channel,
        channel.method("/shop.Cart/Metadata").open(b"", metadata=[("user", "7")]) as call,
    ):
        assert (await call.wait_initial_metadata()).first("right") == "8"
        assert call.status is None
        assert await call.receive() == b"7"
        assert (call.status.ok, call.peer in world.hosts) == (True, True)
        assert call.initial_metadata.first("right") == "8"
        assert call.trailing_metadata.first("left") == "7"
        assert await call.receive() is None


@in_asyncio
async def test_a_channel_for_asyncio_has_the_programs_filters(world):
    world.put(xds.listener("shop", routes="r", filters=[xds.custom_filter("tenant", TENANT, header="user")]))
    async with world.channel(http_filters={TENANT: FilterType(Tenant)}) as channel:
        assert await channel.method("/shop.Cart/Metadata")(b"") == b"tenant"


@in_asyncio
async def test_a_failed_call_raises_the_rpc_error_of_trxds(world):
    async with world.channel() as channel:
        with pytest.raises(RpcError, match="no such cart") as caught:
            await channel.method("/shop.Cart/Fail")(b"")
    assert caught.value.status.code is StatusCode.NOT_FOUND


@in_asyncio
async def test_a_failed_call_leaves_no_cycle(world):
    async with world.channel() as channel:
        fail = channel.method("/shop.Cart/Fail")

        async def failed():
            with pytest.raises(RpcError):
                await fail(b"")

        await failed()
        gc.collect()
        gc.disable()
        try:
            await failed()
            # One thing after the other in Trio's thread, so by now it has let go of the error.
            await channel.method("/shop.Cart/Echo")(b"")
            assert [each for each in gc.get_objects() if isinstance(each, RpcError)] == []
        finally:
            gc.enable()


@in_asyncio
async def test_a_call_has_a_timeout(world):
    async with world.channel() as channel:
        began = time.monotonic()
        with pytest.raises(RpcError, match="Hang") as caught:
            await channel.method("/shop.Cart/Hang")(b"", timeout=0.05)
    assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert 0.05 <= time.monotonic() - began < 10


@in_asyncio
async def test_many_tasks_call_a_channel_at_once(world):
    async with world.channel() as channel:
        echo, requests = channel.method("/shop.Cart/Echo"), [b"%d" % number for number in range(320)]
        assert await asyncio.gather(*map(echo, requests)) == requests


@pytest.mark.parametrize("client_streaming", [False, True])
@in_asyncio
async def test_with_call_returns_reply_and_completed_call(world, client_streaming):
    async with world.channel() as channel:
        method = channel.method("/shop.Cart/Metadata", client_streaming=client_streaming)
        request = [b""] if client_streaming else b""
        reply, call = await method.with_call(request, metadata=[("user", "ann")], timeout=20)
    assert (reply, call.status.code, call.peer in world.hosts) == (b"ann", StatusCode.OK, True)
    assert (call.initial_metadata.first("right"), call.trailing_metadata.first("left")) == ("8", "7")


@pytest.mark.parametrize("client_streaming", [False, True])
@in_asyncio
async def test_a_method_has_one_reply_in_every_way_to_call_it(world, client_streaming):
    async def opened(method, _):
        async with method.open(b"x") as call:
            call.done_sending()
            return await call.receive()

    request = [b"x"] if client_streaming else b"x"
    async with world.channel() as channel:
        for way in (lambda method, x: method(x), lambda method, x: method.with_call(x), opened):
            for name, status in (("None", NO_REPLY), ("Two", SECOND_REPLY)):
                with pytest.raises(RpcError) as failed:
                    await way(channel.method(f"/shop.Cart/{name}", client_streaming=client_streaming), request)
                assert failed.value.status == status and failed.value.peer


@in_asyncio
async def test_a_request_of_the_wrong_type_is_a_type_error(world):
    async with world.channel() as channel:
        with pytest.raises(TypeError, match="takes bytes, not str"):
            await channel.method("/shop.Cart/Echo")("text")


@in_asyncio
async def test_a_stub_has_the_methods_of_its_descriptor(world):
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="aio_shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Item").field.add(name="sku", number=1, type=9, label=1)
    file.service.add(name="Cart").method.add(name="Echo", input_type=".shop.Item", output_type=".shop.Item")
    pool.Add(file)
    service = pool.FindServiceByName("shop.Cart")
    item = GetMessageClass(service.methods_by_name["Echo"].input_type)(sku="a book")
    async with world.channel() as channel:
        assert await channel.stub(service).Echo(item, timeout=20) == item


@in_asyncio
async def test_a_channel_explains_where_a_call_would_go_and_shows_its_states(world):
    async with world.channel(idle_timeout=0.05) as channel:
        assert "cart" in str(await channel.explain("/shop.Cart/Echo"))
        await channel.method("/shop.Cart/Echo")(b"")
        assert await channel.wait_for_state_change(Connectivity.READY) is Connectivity.IDLE
        leaves_idle = asyncio.create_task(channel.wait_for_state_change(Connectivity.IDLE))
        await asyncio.sleep(0)
        await channel.try_to_connect()
        assert await leaves_idle is not Connectivity.IDLE
        async with channel.method("/shop.Cart/Hang").open(b""):  # or it would soon be idle again
            async for state in channel.states():
                if state is Connectivity.READY:
                    break
        assert (channel.target, repr(channel)) == ("xds:///shop", "<trxds.aio <Channel xds:///shop open, 0 calls>>")
    assert channel.state is None


@in_asyncio
async def test_a_client_stream_of_no_iterable_is_a_type_error_in_asyncio(world):
    async with world.channel() as channel:
        with pytest.raises(TypeError, match=r"/shop\.Cart/Sum takes an iterable of requests, not bytes"):
            await channel.method("/shop.Cart/Sum", client_streaming=True)(b"abc")
