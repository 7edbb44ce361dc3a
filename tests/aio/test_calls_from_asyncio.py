"""A channel for asyncio makes calls of every kind, with errors, timeouts and cancellation."""

import asyncio
import contextvars
import gc
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
import trio
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from support.asyncio_tests import in_asyncio
from support.own_filters import TENANT, Tenant

from trxds import Connectivity, RpcError, Status, StatusCode
from trxds.filters import FilterType
from trxds.testing import resources as xds
from trxds.transport.client_stream import NO_REPLY, SECOND_REPLY

CALLER = contextvars.ContextVar("caller")


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


# -- streams


@in_asyncio
async def test_a_server_stream_is_iterated(world):
    async with world.channel() as channel:
        two = channel.method("/shop.Cart/Two", server_streaming=True)
        async with two.open(b"a") as call:
            assert [message async for message in call] == [b"a", b"a"]
            assert call.peer in world.hosts and call.status.ok


@in_asyncio
async def test_a_stream_raises_after_the_messages_before_the_failure(world):
    came = []
    async with world.channel() as channel:
        fail = channel.method("/shop.Cart/FailLater", server_streaming=True)
        with pytest.raises(RpcError, match="the rest is gone"):
            async with fail.open(b"") as call:
                async for message in call:
                    came.append(message)
    assert came == [b"one"]


def not_four(payload):
    if payload == b"4":
        raise ValueError("no four, please")
    return payload


@in_asyncio
async def test_messages_that_arrive_together_come_in_order_and_before_the_failure(world):
    came = []
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", bytes, not_four, client_streaming=True, server_streaming=True)
        with pytest.raises(RpcError, match="cannot be parsed: no four, please"):
            async with double.open() as call:
                for number in range(6):
                    await call.send(b"%d" % number)
                async for message in call:
                    came.append(int(message))
                    assert call.status is None  # though the failure has been handed over already
    assert came == [0, 0, 1, 1, 2, 2, 3, 3]


@in_asyncio
async def test_a_stream_has_the_status_of_a_message_that_cannot_be_parsed_once_it_is_raised(world):
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", bytes, not_four, client_streaming=True, server_streaming=True)
        async with double.open() as call:
            for number in range(6):
                await call.send(b"%d" % number)
            with pytest.raises(RpcError) as caught:
                async for _ in call:
                    pass
            assert (call.status, call.cancel()) == (caught.value.status, False)


@in_asyncio
async def test_cancelling_drops_messages_that_have_arrived(world):
    async with world.channel() as channel:
        double = channel.method("/shop.Cart/Two", client_streaming=True, server_streaming=True)
        async with double.open() as call:
            for _ in range(10):
                await call.send(b"a")
            assert await call.receive() == b"a"
            assert call.cancel()
            with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
                await call.receive()


@in_asyncio
async def test_a_bidi_stream_sends_and_receives(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call:
            assert await call.send(b"one")
            assert await call.receive() == b"one"
            assert await call.send(b"two")
            call.done_sending()
            assert [message async for message in call] == [b"two"]


@in_asyncio
async def test_one_task_sends_while_another_receives(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call, asyncio.TaskGroup() as tasks:

            async def send():
                for number in range(50):
                    await call.send(b"%d" % number)
                call.done_sending()

            tasks.create_task(send())
            assert [message async for message in call] == [b"%d" % number for number in range(50)]


@in_asyncio
async def test_a_cancelled_receive_loses_no_message(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True)
        async with echo.open() as call:
            for number in range(20):
                receiving = asyncio.create_task(call.receive())
                await asyncio.sleep(0)
                await call.send(b"%d" % number)
                receiving.cancel()
                with suppress(asyncio.CancelledError):
                    assert await receiving == b"%d" % number
                    continue
                assert await call.receive() == b"%d" % number


def joined(names):
    return ",".join(names).encode()


def bidi(channel, name, *types):
    return channel.method(f"/shop.Cart/{name}", *types, client_streaming=True, server_streaming=True)


@in_asyncio
async def test_a_message_is_sent_as_it_was_when_a_task_sent_it(world):
    async with world.channel() as channel, bidi(channel, "Echo", joined, bytes).open() as call:
        names = ["anna", "ben"]
        for _ in range(2):
            await call.send(names)
            names.append("carla")
        call.done_sending()
        assert [each async for each in call] == [b"anna,ben", b"anna,ben,carla"]


async def turns_while(step):
    """Return the turns of another task in each run of 65 steps."""
    turns, counts = 0, []

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    for _ in range(5):
        before = turns
        for _ in range(65):
            await step()
        counts.append(turns - before)
    task.cancel()
    return counts


@in_asyncio
async def test_sending_many_messages_lets_other_tasks_run(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        assert all(await turns_while(lambda: call.send(b"x")))


@in_asyncio
async def test_receiving_many_messages_lets_other_tasks_run(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        for _ in range(5 * 65):
            await call.send(b"x")
        assert all(await turns_while(call.receive))


@in_asyncio
async def test_a_server_that_does_not_read_stops_a_sending_task_until_its_timeout(world):
    sent = 0
    async with world.channel() as channel:
        await channel.method("/shop.Cart/Echo")(b"")  # the time-out is not for connecting
        async with bidi(channel, "Hang").open(timeout=0.3) as call:
            with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
                while await call.send(bytes(1000)):
                    sent += 1
    assert sent < 2000


@in_asyncio
async def test_a_task_sends_nothing_after_done_sending(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        call.done_sending()
        with pytest.raises(trio.ClosedResourceError, match="done_sending was called"):
            await call.send(b"x")


@in_asyncio
async def test_the_one_request_of_a_method_closes_this_side_of_the_call(world):
    async with world.channel() as channel, channel.method("/shop.Cart/Echo").open(timeout=20) as call:
        await call.send(b"one")
        with pytest.raises(trio.ClosedResourceError, match="the method takes one request only"):
            await call.send(b"two")
        assert await call.receive() == b"one"


@in_asyncio
async def test_a_sending_task_learns_that_the_server_has_ended_the_call(world):
    async with world.channel() as channel, bidi(channel, "Metadata").open() as call:
        assert (await call.receive(), await call.receive()) == (b"None", None)
        assert not await call.send(b"x")


@in_asyncio
async def test_an_open_call_of_a_closed_channel_raises_closed_resource_error(world):
    async with world.channel() as channel:
        block = bidi(channel, "Echo").open()
        call = await block.__aenter__()
    for step in (call.receive, call.receive, partial(call.send, b"x")):
        with pytest.raises(trio.ClosedResourceError):
            await step()
    await block.__aexit__(None, None, None)


@in_asyncio
async def test_a_task_sends_nothing_after_it_cancelled_the_call(world):
    async with world.channel() as channel, bidi(channel, "Echo").open() as call:
        assert call.cancel()
        with pytest.raises(RpcError, match="cancelled by the client"):
            await call.send(b"x")


@in_asyncio
async def test_a_method_with_streamed_replies_is_not_called_like_a_function(world):
    async with world.channel() as channel:
        echo = channel.method("/shop.Cart/Echo", server_streaming=True)
        for way in (echo, echo.with_call):
            with pytest.raises(TypeError, match=r"use `async with method\.open"):
                await way(b"a")


# -- cancellation


@in_asyncio
async def test_a_cancelled_task_cancels_its_call_at_the_server(world):
    async with world.channel() as channel:
        hanging = asyncio.create_task(channel.method("/shop.Cart/Hang")(b""))
        await world.until(world.began)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await world.until(world.ended)


@in_asyncio
async def test_asyncio_s_own_timeout_cancels_a_call(world):
    async def expire():
        await world.until(world.began)
        limit.reschedule(0)

    async with world.channel() as channel:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                expiring = asyncio.create_task(expire())
                await channel.method("/shop.Cart/Hang")(b"")
        await expiring
        await world.until(world.ended)


@in_asyncio
async def test_a_call_that_is_cancelled_before_it_is_handed_over_sends_nothing(world):
    async with world.channel() as channel:
        hang = channel.method("/shop.Cart/Hang")
        await channel.method("/shop.Cart/Echo")(b"")
        tasks = [asyncio.create_task(hang(b"")) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert {type(error) for error in await asyncio.gather(*tasks, return_exceptions=True)} == {
            asyncio.CancelledError
        }
        assert await channel.method("/shop.Cart/Echo")(b"a") == b"a"


@in_asyncio
async def test_a_block_that_is_left_early_cancels_its_call(world):
    async with world.channel() as channel:
        async with channel.method("/shop.Cart/Hang").open(b""):
            await world.until(world.began)
        await world.until(world.ended)


@in_asyncio
async def test_a_task_that_is_cancelled_in_a_block_cancels_its_call(world):
    async with world.channel() as channel:

        async def read():
            async with channel.method("/shop.Cart/Hang", server_streaming=True).open(b"") as call:
                await call.receive()

        reading = asyncio.create_task(read())
        await world.until(world.began)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await world.until(world.ended)


@in_asyncio
async def test_a_task_cancels_a_call_that_another_waits_for(world):
    async with (
        world.channel() as channel,
        channel.method("/shop.Cart/Hang", server_streaming=True).open(b"") as call,
    ):
        receiving = asyncio.create_task(call.receive())
        await world.until(world.began)
        assert [call.cancel(), call.cancel()] == [True, False]
        assert call.status.code is StatusCode.CANCELLED
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            await receiving
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            await call.receive()
        await world.until(world.ended)


# -- blocks, interceptors, and functions in Trio


@in_asyncio
async def test_an_exception_in_a_block_leaves_it_unchanged(world):
    async with world.channel() as channel:
        with pytest.raises(LookupError, match="my own"):
            async with channel.session(), channel.method("/shop.Cart/Hang").open(b""):
                raise LookupError("my own")


@in_asyncio
async def test_an_interceptor_is_around_the_block(world):
    seen = []

    @asynccontextmanager
    async def note(call, next):
        try:
            async with next(replace(call, metadata=[("user", "7")])) as stream:
                yield stream
        except LookupError as error:
            seen.append(str(error))
            raise RpcError(Status(StatusCode.ABORTED, "in other words")) from error

    async with world.channel(interceptors=[note]) as channel:
        said = channel.method("/shop.Cart/Metadata")
        assert await said(b"") == b"7"
        with pytest.raises(RpcError, match="in other words"):
            async with said.open(b"") as call:
                assert await call.receive() == b"7"
                raise LookupError("my own")
    assert seen == ["my own"]


@in_asyncio
async def test_an_interceptor_sees_the_cancellation_of_a_task_as_trio_s(world):
    seen, entered = [], asyncio.Event()

    @asynccontextmanager
    async def note(call, next):
        try:
            async with next(call) as stream:
                yield stream
        except trio.Cancelled:
            seen.append("cancelled")
            raise

    async with world.channel(interceptors=[note]) as channel:

        async def stay():
            async with channel.method("/shop.Cart/Hang").open(b""):
                entered.set()
                await asyncio.sleep(20)

        staying = asyncio.create_task(stay())
        await entered.wait()
        staying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await staying
        assert seen == ["cancelled"]


@in_asyncio
async def test_a_task_that_is_cancelled_while_a_block_is_left_waits_for_its_end(world):
    leaving, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def slow(call, next):
        async with next(call) as stream:
            yield stream
        loop.call_soon_threadsafe(leaving.set)
        try:
            await trio.sleep_forever()
        finally:
            ended.append("ended")

    async with world.channel(interceptors=[slow]) as channel:

        async def leave():
            async with channel.method("/shop.Cart/Echo").open(b""):
                pass

        task = asyncio.create_task(leave())
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["ended"]


@in_asyncio
async def test_an_interceptor_may_swallow_the_exception_of_a_block(world):
    @asynccontextmanager
    async def swallow(call, next):
        with suppress(LookupError):
            async with next(call) as stream:
                yield stream

    async with world.channel(interceptors=[swallow]) as channel:
        async with channel.method("/shop.Cart/Hang").open(b""):
            raise LookupError("never mind")
        assert await channel.method("/shop.Cart/Echo")(b"a") == b"a"


@in_asyncio
async def test_a_function_is_submitted_to_trio_with_the_task_s_context(world):
    async def read(channel, payload):
        return await channel.method("/shop.Cart/Echo")(payload), CALLER.get()

    CALLER.set("this test")
    async with world.channel() as channel:
        assert await channel.submit(read, b"a") == (b"a", "this test")


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


async def last(iterator):
    async for each in iterator:
        value = each
    return value


@in_asyncio
async def test_a_step_of_states_or_hosts_that_is_cancelled_ends_in_trio_too(world):
    async with world.channel() as channel:
        assert await world.workers_after(channel, lambda: last(channel.states()), 20) < 10
        assert await world.workers_after(channel, lambda: last(channel.hosts(watch=True)), 20) < 10
