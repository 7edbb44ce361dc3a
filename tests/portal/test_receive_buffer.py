"""A `ReceiveBuffer` takes messages ahead of the thread that asked, up to its bounds, and leaves it the call's end."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.plain import hosts_in_memory
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode
from trxds.core.status import CANCELLED
from trxds.portal.receive_buffer import MAX_BYTES, MAX_MESSAGES, ReceiveBuffer
from trxds.portal.result import Result

HOST = "10.0.1.1:50051"
PATH = "/shop.Cart/Many"


class Host:
    """Sends what it is told, and counts it."""

    def __init__(self):
        self.sent = 0
        self._messages, self._receive = trio.open_memory_channel(10_000)

    def tell(self, *messages):
        for message in messages:
            self._messages.send_nowait(message)

    async def __call__(self, call):
        async for message in self._receive:
            if message is None:
                return
            if isinstance(message, StatusCode):
                call.abort(message, "told to")
            await call.send(message)
            self.sent += 1


class Waiter(Result):
    """Counts how often it is woken."""

    woken = 0

    def post(self):
        self.woken += 1


class Asker:
    """Starts what a buffer asks for, as `portal.HandOver` does."""

    def __init__(self, nursery):
        self._nursery = nursery
        self.asks = 0

    def __call__(self, outcome, function):
        self.asks += 1
        self._nursery.start_soon(self._run, outcome, function)

    async def _run(self, outcome, function):
        try:
            outcome.set_result(await function())
        except Exception as error:
            outcome.set_exception(error)


@asynccontextmanager
async def receiving(more=(), deserialize=bytes, **options):
    """Open a call with a buffer."""
    async with (
        hosts_in_memory(1) as mesh,
        mesh.channel(f"ipv4:{HOST}", **dict(more)) as channel,
        trio.open_nursery() as nursery,
    ):
        host = mesh.servers[HOST].fallback = Host()
        method = channel.method(PATH, bytes, deserialize, client_streaming=True, server_streaming=True)
        async with method.open(**options) as call:
            yield call, host, ReceiveBuffer(call), Asker(nursery)
            nursery.cancel_scope.cancel()


def taken(buffer):
    messages = []
    while not buffer.is_empty:
        messages.append(buffer.take())
    return messages


async def test_messages_that_arrive_after_an_ask_are_handed_over_without_another(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        buffer.ask(asker)
        for message in (b"a", b"b", b"c"):
            host.tell(message)
            await wait_all_tasks_blocked()
            assert taken(buffer) == [message]
        buffer.ask(asker)
        assert asker.asks == 1


async def test_nothing_is_received_before_the_first_ask(autojump_clock):
    async with receiving() as (_, host, buffer, _):
        host.tell(b"a")
        await wait_all_tasks_blocked()
        assert buffer.is_empty


async def test_a_full_buffer_takes_no_more_messages_until_it_is_asked_again(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        numbers = [b"%d" % number for number in range(3 * MAX_MESSAGES)]
        host.tell(*numbers)
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        first = taken(buffer)
        assert first == numbers[:MAX_MESSAGES]
        await wait_all_tasks_blocked()
        assert buffer.is_empty
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        assert taken(buffer) == numbers[MAX_MESSAGES : 2 * MAX_MESSAGES]


async def test_a_consumer_that_stops_bounds_what_is_held_and_stops_the_server(autojump_clock):
    size, window = 10_000, 256 * 1024
    async with receiving() as (_, host, buffer, asker):
        host.tell(*[bytes(size)] * 1000)
        buffer.ask(asker)
        await trio.sleep(100)
        held = len(taken(buffer))
        # The first message was asked for; of those behind it, the last one may pass the bound.
        assert held * size < MAX_BYTES + 2 * size
        # Half a window may be given back for what is held, and the server's own buffer has some.
        assert host.sent * size < MAX_BYTES + 1.5 * window + 100_000
        buffer.ask(asker)
        await trio.sleep(100)
        assert not buffer.is_empty


async def test_the_end_is_taken_only_when_it_is_asked_for(autojump_clock):
    async with receiving() as (call, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a", None)
        await wait_all_tasks_blocked()
        assert taken(buffer) == [b"a"] and call.status is None
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        assert taken(buffer) == [None] and call.status.ok


async def test_a_failure_comes_after_the_messages_and_again_with_each_ask(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a", b"b", StatusCode.DATA_LOSS)
        await wait_all_tasks_blocked()
        assert taken(buffer) == [b"a", b"b"]
        for _ in range(2):
            buffer.ask(asker)
            await wait_all_tasks_blocked()
            with pytest.raises(RpcError, match="told to"):
                buffer.take()


async def test_a_message_that_cannot_be_parsed_fails_behind_those_before_it(autojump_clock):
    async with receiving(deserialize=int) as (_, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"1", b"2", b"three", b"4")
        await wait_all_tasks_blocked()
        assert [buffer.take(), buffer.take()] == [1, 2]
        with pytest.raises(RpcError, match="cannot be parsed"):
            buffer.take()


async def test_an_ask_ends_at_the_calls_deadline_and_the_next_one_raises_it(autojump_clock):
    async with receiving(timeout=5) as (call, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a")
        await trio.sleep(6)
        assert taken(buffer) == [b"a"] and call.status is None
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            buffer.take()


async def test_messages_are_dropped_when_the_call_is_cancelled(autojump_clock):
    async with receiving() as (call, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a", b"b")
        await wait_all_tasks_blocked()
        buffer.cancel()
        assert buffer.is_empty
        call.cancel()
        await wait_all_tasks_blocked()
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        with pytest.raises(RpcError, match="cancelled by the client"):
            buffer.take()


async def test_a_message_that_a_thread_has_seen_can_be_taken_although_another_cancels_the_call(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a", b"b")
        await wait_all_tasks_blocked()
        assert not buffer.is_empty
        buffer.cancel()
        assert buffer.take() == b"a"
        assert buffer.is_empty


async def test_an_end_that_a_thread_has_seen_can_be_taken_although_another_cancels_the_call(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        host.tell(None)
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        assert not buffer.is_empty
        buffer.cancel()
        assert buffer.take() is None


async def test_the_error_of_a_message_that_nobody_was_told_of_gives_way_to_the_cancelling_of_the_call(autojump_clock):
    async with receiving(deserialize=int) as (call, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"1", b"two")
        await wait_all_tasks_blocked()
        assert call.cancel()
        buffer.cancel()
        with pytest.raises(RpcError) as caught:
            buffer.take()
        assert caught.value.status == call.status == CANCELLED


async def test_a_waiter_is_woken_by_the_first_message_alone(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        waiter = Waiter()
        buffer.ask(asker)
        assert buffer.must_wait(waiter)
        await wait_all_tasks_blocked()
        assert not waiter.woken
        host.tell(b"a", b"b")
        await wait_all_tasks_blocked()
        assert waiter.woken == 1


async def test_a_waiter_is_woken_when_nothing_follows(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a")
        await wait_all_tasks_blocked()
        assert buffer.take() == b"a"
        waiter = Waiter()
        assert buffer.must_wait(waiter)
        host.tell(None)
        await wait_all_tasks_blocked()
        assert waiter.woken == 1 and buffer.is_empty
        assert not buffer.must_wait(Waiter())  # it has to ask first


async def test_nobody_waits_while_there_is_something_to_take(autojump_clock):
    async with receiving() as (_, host, buffer, asker):
        buffer.ask(asker)
        host.tell(b"a")
        await wait_all_tasks_blocked()
        assert not buffer.must_wait(Waiter())


async def test_a_second_thread_that_waits_is_told_of_the_first(autojump_clock):
    async with receiving() as (_, _, buffer, asker):
        buffer.ask(asker)
        first, second = Waiter(), Waiter()
        assert buffer.must_wait(first)
        with pytest.raises(trio.BusyResourceError):
            buffer.must_wait(second)
        buffer.stop_waiting(second)
        with pytest.raises(trio.BusyResourceError):
            buffer.must_wait(second)
        buffer.stop_waiting(first)
        assert buffer.must_wait(second)


async def test_an_ask_that_cannot_start_can_be_made_again(autojump_clock):
    def closed(outcome, function):
        raise trio.ClosedResourceError

    async with receiving() as (_, host, buffer, asker):
        with pytest.raises(trio.ClosedResourceError):
            buffer.ask(closed)
        host.tell(b"a")
        buffer.ask(asker)
        await wait_all_tasks_blocked()
        assert taken(buffer) == [b"a"]


class OnlyWhenAsked:
    """A call of an interceptor's own."""

    def __init__(self):
        self.received = 0

    async def receive(self):
        self.received += 1
        await trio.lowlevel.checkpoint()
        return self.received


async def test_an_interceptors_object_is_called_once_for_each_ask(autojump_clock):
    call = OnlyWhenAsked()
    buffer = ReceiveBuffer(call)
    async with trio.open_nursery() as nursery:
        asker = Asker(nursery)
        for number in (1, 2):
            buffer.ask(asker)
            await wait_all_tasks_blocked()
            assert taken(buffer) == [number]
    assert call.received == 2
