"""A channel for threads makes calls of every kind, with errors and timeouts."""

import contextvars
import gc
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import trio
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from support.own_filters import TENANT, Tenant

import trxds
import trxds.sync
from trxds import BootstrapError, Connectivity, RpcError, Status, StatusCode
from trxds.filters import FilterType
from trxds.testing import resources as xds
from trxds.transport.response import NO_REPLY, SECOND_REPLY

CALLER = contextvars.ContextVar("caller")


def test_a_unary_call_of_a_thread_returns_the_reply(channel):
    assert channel.method("/shop.Cart/Echo")(b"a book") == b"a book"


def test_a_call_of_a_thread_has_metadata_both_ways(channel):
    with channel.method("/shop.Cart/Metadata").open(b"", metadata=[("user", "7")]) as call:
        assert call.wait_initial_metadata().first("right") == "8"
        assert (call.receive(), call.receive()) == (b"7", None)
        assert call.initial_metadata.first("right") == "8"
        assert call.trailing_metadata.first("left") == "7"
        assert call.status.ok


def test_a_failed_call_of_a_thread_raises_rpc_error(channel):
    with pytest.raises(RpcError, match="no such cart") as caught:
        channel.method("/shop.Cart/Fail")(b"")
    assert caught.value.status.code is StatusCode.NOT_FOUND


def test_a_failed_call_of_a_thread_leaves_no_cycle(channel):
    fail = channel.method("/shop.Cart/Fail")

    def failed():
        with pytest.raises(RpcError):
            fail(b"")

    failed()
    gc.collect()
    gc.disable()
    try:
        failed()
        assert [each for each in gc.get_objects() if isinstance(each, RpcError)] == []
    finally:
        gc.enable()


def test_a_failed_stream_of_a_thread_leaves_no_cycle(channel):
    fail = channel.method("/shop.Cart/FailLater", server_streaming=True)

    def failed():
        with pytest.raises(RpcError), fail.open(b"") as call:
            list(call)

    failed()
    gc.collect()
    gc.disable()
    try:
        failed()
        assert [each for each in gc.get_objects() if isinstance(each, RpcError)] == []
    finally:
        gc.enable()


def test_a_channel_for_threads_has_the_programs_filters(world):
    world.put(xds.listener("shop", routes="r", filters=[xds.custom_filter("tenant", TENANT, header="user")]))
    with world.channel(http_filters={TENANT: FilterType(Tenant)}) as channel:
        assert channel.method("/shop.Cart/Metadata")(b"") == b"tenant"


def test_a_call_of_a_thread_has_a_timeout(channel):
    began = time.monotonic()
    with pytest.raises(RpcError, match="Hang") as caught:
        channel.method("/shop.Cart/Hang")(b"", timeout=0.05)
    assert caught.value.status.code is StatusCode.DEADLINE_EXCEEDED
    assert 0.05 <= time.monotonic() - began < 10


@pytest.mark.parametrize("client_streaming", [False, True])
def test_a_method_of_a_thread_has_one_reply_in_every_way_to_call_it(channel, client_streaming):
    def opened(method, request):
        with method.open(b"x") as call:
            call.done_sending()
            return call.receive()

    ways = [lambda method, request: method(request), lambda method, request: method.with_call(request), opened]
    if not client_streaming:
        ways.append(lambda method, request: method.future(request).result())
    for way in ways:
        for name, status in (("None", NO_REPLY), ("Two", SECOND_REPLY)):
            with pytest.raises(RpcError) as failed:
                way(
                    channel.method(f"/shop.Cart/{name}", client_streaming=client_streaming),
                    [b"x"] if client_streaming else b"x",
                )
            error = failed.value
            assert error.status == status and error.peer
            assert error.trailing_metadata.first("left") == ("7" if name == "None" else None)


@pytest.mark.parametrize("client_streaming", [False, True])
def test_with_call_of_a_thread_returns_reply_and_completed_call(world, channel, client_streaming):
    method = channel.method("/shop.Cart/Metadata", client_streaming=client_streaming)
    reply, call = method.with_call([b""] if client_streaming else b"", metadata=[("user", "ann")], timeout=20)
    assert (reply, call.status.code, call.peer in world.hosts) == (b"ann", StatusCode.OK, True)
    assert (call.initial_metadata.first("right"), call.trailing_metadata.first("left")) == ("8", "7")


def test_the_status_of_a_threads_open_call_is_known_with_its_one_reply(channel):
    with channel.method("/shop.Cart/Metadata").open(b"") as call:
        assert call.status is None and call.receive() and call.status.code is StatusCode.OK
        assert call.trailing_metadata.first("left") == "7"


def test_a_call_that_a_thread_leaves_early_is_cancelled_at_the_server(world, channel):
    with channel.method("/shop.Cart/Hang").open(b""):
        world.wait(world.began)
    world.wait(world.ended)


def test_a_channel_for_threads_explains_where_a_call_would_go(channel):
    assert "cart" in str(channel.explain("/shop.Cart/Echo"))
    with channel.session() as session:
        session.method("/shop.Cart/Echo")(b"x")
        assert session.explain("/shop.Cart/Echo").host == session.host


def test_many_threads_call_a_channel_at_once(channel):
    echo = channel.method("/shop.Cart/Echo")
    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(echo, [b"%d" % number for number in range(320)])) == [b"%d" % n for n in range(320)]


def test_an_exception_in_a_threads_block_leaves_it_unchanged(channel):
    block = channel.method("/shop.Cart/Hang").open(b"")
    with pytest.raises(LookupError, match="my own"), channel.session(), block:
        raise LookupError("my own")


def test_an_interceptor_is_around_the_block_of_a_thread(world):
    seen = []

    @asynccontextmanager
    async def note(call, next):
        try:
            async with next(replace(call, metadata=[("user", "7")])) as stream:
                yield stream
        except LookupError as error:
            seen.append(str(error))
            raise RpcError(Status(StatusCode.ABORTED, "in other words")) from error

    with world.channel(interceptors=[note]) as channel:
        said = channel.method("/shop.Cart/Metadata")
        assert (said(b""), said.future(b"").result(20)) == (b"7", b"7")
        with pytest.raises(RpcError, match="in other words"), said.open(b"") as call:
            assert call.receive() == b"7"
            raise LookupError("my own")
    assert seen == ["my own"]


def test_an_interceptor_may_swallow_the_exception_of_a_threads_block(world):
    @asynccontextmanager
    async def swallow(call, next):
        with suppress(LookupError):
            async with next(call) as stream:
                yield stream

    with world.channel(interceptors=[swallow]) as channel:
        with channel.method("/shop.Cart/Hang").open(b""):
            raise LookupError("never mind")
        assert channel.method("/shop.Cart/Echo")(b"a") == b"a"


@pytest.mark.parametrize("client_streaming", [False, True])
def test_an_interceptor_that_swallows_the_failure_of_a_threads_call_is_named(world, client_streaming):
    @asynccontextmanager
    async def swallow(call, next):
        with suppress(RpcError):
            async with next(call) as stream:
                yield stream

    with world.channel(interceptors=[swallow]) as channel:
        fail = channel.method("/shop.Cart/Fail", client_streaming=client_streaming)
        for call in (fail, fail.with_call):
            with pytest.raises(RuntimeError, match="an interceptor swallowed the exception of its call"):
                call([b"1"] if client_streaming else b"1")


def test_a_request_of_the_wrong_type_is_a_type_error_in_a_thread(channel):
    with pytest.raises(TypeError, match="takes bytes, not str"):
        channel.method("/shop.Cart/Echo")("text")


async def generator():
    yield b"abc"


@pytest.mark.parametrize("requests", [None, b"abc", generator()], ids=lambda each: type(each).__name__)
def test_a_client_stream_of_no_iterable_is_a_type_error_in_a_thread(requests, channel):
    with pytest.raises(TypeError, match=r"/shop\.Cart/Sum takes an iterable of requests, not "):
        channel.method("/shop.Cart/Sum", client_streaming=True)(requests)


def test_a_serializer_that_returns_no_bytes_is_a_type_error_in_a_thread(channel):
    with (
        channel.method("/shop.Cart/Echo", str, client_streaming=True, server_streaming=True).open() as call,
        pytest.raises(TypeError, match=r"/shop\.Cart/Echo: its serializer returned str, not bytes"),
    ):
        call.send(5)


def test_a_bad_bootstrap_or_target_raises_at_once_in_a_thread(world):
    with pytest.raises(BootstrapError), world.channel(bootstrap={}):
        raise AssertionError
    with pytest.raises(ValueError, match="grcp"), trxds.sync.open_channel("grcp:shop"):
        raise AssertionError
    with (
        pytest.raises(ValueError, match="spread_within is -1"),
        trxds.sync.open_channel("ipv4:1.2.3.4:5", spread_within=-1),
    ):
        raise AssertionError


def test_an_xds_client_of_another_trio_run_is_a_value_error():
    with pytest.raises(ValueError, match="this channel has its own"), trxds.sync.open_channel("xds:///a", xds=object()):
        raise AssertionError


def test_a_function_is_submitted_to_trio(channel):
    async def twice(channel, payload):
        echo = channel.method("/shop.Cart/Echo")
        replies = []

        async def one():
            replies.append(await echo(payload))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        return replies

    assert channel.submit(twice, b"a").result(20) == [b"a", b"a"]


def test_context_variables_of_a_thread_reach_its_call(channel):
    async def read(channel):
        return CALLER.get()

    CALLER.set("this test")
    assert channel.submit(read).result(20) == "this test"


def test_a_future_has_the_reply_of_its_call(channel):
    assert channel.method("/shop.Cart/Echo").future(b"a").result(20) == b"a"


def test_calling_a_method_with_streamed_replies_in_a_thread_is_a_type_error(channel):
    echo = channel.method("/shop.Cart/Echo", server_streaming=True)
    for way in (echo, echo.future):
        with pytest.raises(TypeError, match=r"use `with method\.open"):
            way(b"a")


def test_a_future_of_a_client_streaming_method_is_a_type_error(channel):
    with pytest.raises(TypeError, match=r"/shop.Cart/Sum streams requests"):
        channel.method("/shop.Cart/Sum", client_streaming=True).future([b"1"])


def test_a_call_from_trio_s_own_thread_does_not_wait_for_itself(channel):
    async def calls(_):
        channel.method("/shop.Cart/Echo")(b"")

    with pytest.raises(RuntimeError, match="in the thread that runs it"):
        channel.submit(calls).result(20)


def test_a_method_of_a_thread_says_what_it_streams(channel):
    watch = channel.method("/shop.Cart/Watch", server_streaming=True)
    assert (watch.path, watch.client_streaming, watch.server_streaming) == ("/shop.Cart/Watch", False, True)


def test_a_stub_for_threads_has_the_methods_of_its_descriptor(channel):
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="sync_shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Item").field.add(name="sku", number=1, type=9, label=1)
    file.service.add(name="Cart").method.add(name="Echo", input_type=".shop.Item", output_type=".shop.Item")
    pool.Add(file)
    service = pool.FindServiceByName("shop.Cart")
    item = GetMessageClass(service.methods_by_name["Echo"].input_type)(sku="a book")
    assert channel.stub(service).Echo(item, timeout=20) == item


def test_a_thread_can_watch_the_connectivity_state(world):
    with world.channel(idle_timeout=0.05) as channel:
        channel.method("/shop.Cart/Echo")(b"")
        assert channel.wait_for_state_change(Connectivity.READY) is Connectivity.IDLE
        channel.try_to_connect()
        with channel.method("/shop.Cart/Hang").open(b""):  # or it would soon be idle again
            assert channel.wait_for_state_change(Connectivity.IDLE) is not Connectivity.IDLE
    assert channel.state is None
