"""Calls of threads whose messages are streams."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import trio

import trxds
import trxds.sync
from trxds import RpcError, StatusCode


def test_a_server_stream_is_iterated_in_a_thread(world, channel):
    echo = channel.method("/shop.Cart/Echo", server_streaming=True)
    with echo.open(b"a") as call:
        assert list(call) == [b"a"]
        assert call.peer in world.hosts


def test_a_stream_of_a_thread_raises_after_the_messages_before_the_failure(channel):
    came = []
    fail = channel.method("/shop.Cart/FailLater", server_streaming=True)
    with pytest.raises(RpcError, match="the rest is gone"), fail.open(b"") as call:
        for message in call:
            came.append(message)
    assert came == [b"one"]


def not_four(payload):
    if payload == b"4":
        raise ValueError("no four, please")
    return payload


def test_messages_that_arrive_together_come_in_order_and_before_the_failure(channel):
    double = channel.method("/shop.Cart/Two", bytes, not_four, client_streaming=True, server_streaming=True)
    came = []
    with pytest.raises(RpcError, match="cannot be parsed: no four, please"), double.open() as call:
        for number in range(6):
            call.send(b"%d" % number)
        for message in call:
            came.append(int(message))
    assert came == [0, 0, 1, 1, 2, 2, 3, 3]


def test_cancelling_drops_messages_that_have_arrived(channel):
    with channel.method("/shop.Cart/Two", client_streaming=True, server_streaming=True).open() as call:
        for _ in range(10):
            call.send(b"a")
        assert call.receive() == b"a"
        assert call.cancel()
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            call.receive()


def test_cancelling_a_call_that_has_failed_drops_no_message(channel):
    fail = channel.method("/shop.Cart/FailAfterTwo", client_streaming=True, server_streaming=True)
    with fail.open() as call:
        assert call.receive() == b"one"
        with pytest.raises(RpcError, match="the rest is gone"):
            while True:
                call.send(b"")  # up to the one that learns of the failure
        assert not call.cancel()
        assert call.receive() == b"two"


def test_the_requests_of_a_client_stream_are_taken_in_the_caller_s_thread(channel):
    threads = set()

    def numbers():
        for number in range(4):
            threads.add(threading.get_ident())
            yield b"%d" % number

    assert channel.method("/shop.Cart/Sum", client_streaming=True)(numbers()) == b"6"
    assert threads == {threading.get_ident()}


def test_a_server_that_ends_early_stops_the_iterator_of_a_client_stream(channel):
    taken = []

    def numbers():
        for number in range(100_000):
            taken.append(number)
            yield b"%d" % number

    assert channel.method("/shop.Cart/First", client_streaming=True)(numbers()) == b"0"
    assert len(taken) < 100_000


def test_an_exception_of_a_client_streams_iterator_is_raised_in_its_thread(channel):
    def numbers():
        yield b"1"
        raise LookupError("no more numbers")

    with pytest.raises(LookupError, match="no more numbers"):
        channel.method("/shop.Cart/Sum", client_streaming=True)(numbers())


def test_a_client_stream_without_a_reply_is_unimplemented_in_a_thread(channel):
    with pytest.raises(RpcError, match="sent no message"):
        channel.method("/shop.Cart/Echo", client_streaming=True)([])


def test_a_bidi_stream_of_a_thread_sends_and_receives(channel):
    with channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True).open() as call:
        assert call.send(b"one")
        assert call.receive() == b"one"
        assert call.send(b"two")
        call.done_sending()
        assert list(call) == [b"two"]


def test_two_threads_share_a_call(channel):
    with channel.method("/shop.Cart/Echo", client_streaming=True, server_streaming=True).open() as call:

        def send():
            for number in range(50):
                call.send(b"%d" % number)
            call.done_sending()

        with ThreadPoolExecutor(1) as threads:
            sending = threads.submit(send)
            assert list(call) == [b"%d" % number for number in range(50)]
            sending.result()


def test_a_thread_cancels_a_call_that_another_thread_waits_for(world, channel):
    with channel.method("/shop.Cart/Hang", server_streaming=True).open(b"") as call, ThreadPoolExecutor(1) as threads:
        received = threads.submit(call.receive)
        world.wait(world.began)
        assert [call.cancel(), call.cancel()] == [True, False]
        with pytest.raises(RpcError, match="CANCELLED: cancelled by the client"):
            received.result(10)
        assert call.status.code is StatusCode.CANCELLED
        world.wait(world.ended)


def bidi(channel, name, *types):
    return channel.method(f"/shop.Cart/{name}", *types, client_streaming=True, server_streaming=True)


def test_a_message_is_sent_as_it_was_when_a_thread_sent_it(channel):
    threads = set()

    def serialize(numbers):
        threads.add(threading.get_ident())
        return bytes(numbers)

    with bidi(channel, "Echo", serialize, bytes).open() as call:
        numbers = [1, 2]
        for _ in range(3):
            call.send(numbers)
            numbers.append(0)
        call.done_sending()
        assert list(call) == [bytes([1, 2]), bytes([1, 2, 0]), bytes([1, 2, 0, 0])]
    assert threads == {threading.get_ident()}


def test_many_small_messages_of_a_thread_arrive_in_order(channel):
    numbers = [b"%d" % number for number in range(1000)]
    with bidi(channel, "Echo").open() as call, ThreadPoolExecutor(1) as threads:
        received = threads.submit(list, call)
        assert all(call.send(number) for number in numbers)
        call.done_sending()
        assert received.result(20) == numbers


def test_a_server_that_does_not_read_stops_a_sending_thread_until_its_timeout(channel):
    channel.method("/shop.Cart/Echo")(b"")  # the time-out is not for connecting
    sent = 0
    with bidi(channel, "Hang").open(timeout=0.3) as call, pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
        while call.send(bytes(1000)):
            sent += 1
    assert sent < 2000


def test_a_thread_sends_nothing_after_done_sending(channel):
    with bidi(channel, "Echo").open() as call:
        call.done_sending()
        with pytest.raises(trio.ClosedResourceError, match="done_sending was called"):
            call.send(b"x")
        assert list(call) == []


def test_a_sending_thread_learns_that_the_server_has_ended_the_call(channel):
    with bidi(channel, "Metadata").open() as call:
        assert (call.receive(), call.receive()) == (b"None", None)
        assert not call.send(b"x")


def test_a_sending_thread_learns_that_the_server_has_failed_the_call(channel):
    with bidi(channel, "FailLater").open() as call:
        with pytest.raises(RpcError, match="the rest is gone"):
            list(call)
        with pytest.raises(RpcError, match="the rest is gone"):
            call.send(b"x")


def test_an_interceptors_call_gets_each_message_of_a_thread_as_it_was_sent(world):
    sent = []

    class Noting(trxds.ForwardingCall):
        async def send(self, request, *, compress=True):
            sent.append((request, compress))
            return await super().send(request, compress=compress)

    @asynccontextmanager
    async def noting(call, next):
        async with next(call) as inner:
            yield Noting(inner)

    with (
        world.channel(interceptors=[noting]) as channel,
        bidi(channel, "Echo", str.encode, bytes.decode).open() as call,
    ):
        call.send("one")
        call.send("two", compress=False)
        call.done_sending()
        assert list(call) == ["one", "two"]
    assert sent == [("one", True), ("two", False)]
