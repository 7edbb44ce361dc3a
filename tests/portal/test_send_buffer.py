"""A `SendBuffer` lets messages go ahead that can neither fail nor wait, and keeps their order, errors and bounds."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, bidi
from support.own_filters import listen, recorded
from support.plain import hosts_in_memory
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode
from trxds.portal.send_buffer import MAX_BYTES, MAX_MESSAGES, SendBuffer, send_buffer

HOST = "10.0.1.1:50051"


class Host:
    """Keeps what it receives, and does what a message tells it."""

    def __init__(self):
        self.received = []
        self.ended = False
        self.may_read = trio.Event()

    async def __call__(self, call):
        await call.send_initial_metadata([])
        await self.may_read.wait()
        async for message in call:
            if message == b"fail":
                call.abort(StatusCode.DATA_LOSS, "told to")
            if message == b"leave":
                return
            self.received.append(message)
        self.ended = True


@asynccontextmanager
async def sending(more=(), reads=True, **options):
    """Open a call with a buffer."""
    async with (
        hosts_in_memory(1) as mesh,
        mesh.channel(f"ipv4:{HOST}", **dict(more)) as channel,
        trio.open_nursery() as nursery,
    ):
        host = mesh.servers[HOST].fallback = Host()
        if reads:
            host.may_read.set()
        method = channel.method("/shop.Cart/AddAll", client_streaming=True, server_streaming=True)
        async with method.open(**options) as call:
            await call.wait_initial_metadata()
            yield call, host, SendBuffer(call), nursery.start_soon
            nursery.cancel_scope.cancel()


async def send(buffer, message):
    return await buffer.send(message, compress=True)


def put(buffer, message):
    return buffer.put(message, compress=True)


async def test_messages_that_went_ahead_and_one_that_waits_arrive_in_order(autojump_clock):
    async with sending() as (_, host, buffer, start):
        assert put(buffer, b"1") and put(buffer, b"2")
        buffer.call(start)
        assert await send(buffer, b"3")
        assert put(buffer, b"4")
        buffer.call(start)
        buffer.end()
        await wait_all_tasks_blocked()
        assert host.received == [b"1", b"2", b"3", b"4"] and host.ended


async def test_one_task_sends_all_that_go_ahead_at_a_time(autojump_clock):
    async with sending() as (_, host, buffer, start):
        started = []
        for number in range(10):
            assert put(buffer, b"%d" % number)
            buffer.call(started.append)
        assert len(started) == 1
        start(started[0])
        await wait_all_tasks_blocked()
        assert len(host.received) == 10 and buffer.is_empty


async def test_only_64_messages_are_ahead(autojump_clock):
    async with sending() as (_, _, buffer, start):
        assert [put(buffer, b"x") for _ in range(MAX_MESSAGES + 1)] == [True] * MAX_MESSAGES + [False]
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert put(buffer, b"x")


async def test_only_64_kib_are_ahead(autojump_clock):
    async with sending() as (_, _, buffer, start):
        quarter = bytes(MAX_BYTES // 4)
        assert [put(buffer, quarter) for _ in range(5)] == [True] * 4 + [False]
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert put(buffer, quarter)


async def test_nothing_goes_ahead_of_messages_that_wait_for_a_slow_server(autojump_clock):
    async with sending(reads=False) as (_, host, buffer, start):
        sent = 0
        while put(buffer, bytes(1000)):
            buffer.call(start)
            await wait_all_tasks_blocked()
            sent += 1
        with trio.move_on_after(10) as waiting:
            await send(buffer, b"last")
        assert waiting.cancelled_caught and not buffer.is_empty
        host.may_read.set()
        await buffer.wait_taken()
        assert put(buffer, b"more")
        buffer.call(start)
        await trio.sleep(10)
        assert len(host.received) == sent + 1 and host.received[-1] == b"more"


async def test_a_cancelled_send_keeps_the_messages_that_went_ahead(autojump_clock):
    async with sending() as (_, host, buffer, start):
        assert put(buffer, b"1")
        with trio.CancelScope() as scope:
            scope.cancel()
            await send(buffer, b"2")
        assert scope.cancelled_caught
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert host.received == [b"1"]


async def test_a_message_that_was_put_in_without_a_call_is_sent_by_the_next_wait(autojump_clock):
    """Ctrl-C may come between the two, in the thread that sends."""
    async with sending() as (_, host, buffer, _):
        assert put(buffer, b"1")
        with trio.fail_after(1):
            assert await send(buffer, b"2")
            assert put(buffer, b"3")
            buffer.end()
            await buffer.wait_taken()
        await wait_all_tasks_blocked()
        assert host.received == [b"1", b"2", b"3"] and host.ended


async def test_no_message_goes_ahead_that_may_be_too_large(autojump_clock):
    async with sending({"max_send_size": 10}) as (_, _, buffer, _):
        assert put(buffer, bytes(10)) and not put(buffer, bytes(11))
        buffer.call(lambda _: None)


async def test_no_message_goes_ahead_that_a_filter_sees(autojump_clock):
    seen = []  # the filter's code runs in Trio's thread, so `send` calls it and not `put`
    async with Mesh.run(1) as mesh:
        listen(mesh, "a")
        async with mesh.channel(http_filters=recorded(seen)) as channel, bidi(channel).open(b"1") as call:
            await call.receive()
            buffer = SendBuffer(call)
            assert not put(buffer, b"2")
            assert "a sends 2" not in seen
            assert await send(buffer, b"2")
            assert "a sends 2" in seen


async def test_no_message_goes_ahead_after_the_end(autojump_clock):
    async with sending() as (_, _, buffer, start):
        buffer.end()
        assert not put(buffer, b"x")
        buffer.call(start)
        with pytest.raises(trio.ClosedResourceError, match="done_sending was called"):
            await send(buffer, b"x")


async def test_no_message_goes_ahead_when_the_server_has_ended_the_call(autojump_clock):
    async with sending() as (_, _, buffer, start):
        assert put(buffer, b"leave")
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert not put(buffer, b"x")
        assert not await send(buffer, b"x")


async def test_the_failure_of_a_call_is_raised_by_the_next_send(autojump_clock):
    async with sending() as (_, _, buffer, start):
        assert put(buffer, b"fail")
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert not put(buffer, b"x")
        for _ in range(2):
            with pytest.raises(RpcError, match="told to"):
                await send(buffer, b"x")


async def test_messages_ahead_of_a_failure_are_dropped_and_their_task_raises_nothing(autojump_clock):
    async with sending() as (call, host, buffer, start):
        assert put(buffer, b"x")
        call.cancel()
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert buffer.is_empty and not host.received


async def test_a_bug_while_messages_go_ahead_is_logged(autojump_clock, monkeypatch, caplog):
    async def broken(*payloads, ahead):
        raise AssertionError("a bug")

    async with sending() as (call, _, buffer, start):
        monkeypatch.setattr(call, "_send", broken)
        assert put(buffer, b"lost")
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert buffer.is_empty
    assert [record.name for record in caplog.records if record.exc_info] == ["trxds.portal"]


async def test_no_message_goes_ahead_after_the_calls_deadline(autojump_clock):
    async with sending(timeout=5) as (_, _, buffer, _):
        assert put(buffer, b"x")
        await trio.sleep(5)
        assert not put(buffer, b"x")


async def test_a_call_that_cannot_start_can_be_made_again(autojump_clock):
    def closed(function):
        raise trio.ClosedResourceError

    async with sending() as (_, host, buffer, start):
        assert put(buffer, b"x")
        with pytest.raises(trio.ClosedResourceError):
            buffer.call(closed)
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert host.received == [b"x"]


async def test_a_message_goes_ahead_uncompressed_if_told_so(autojump_clock):
    async with sending({"compression": "gzip"}) as (_, host, buffer, start):
        for compress in (True, False):
            assert buffer.put(bytes(1000), compress=compress)
        buffer.call(start)
        await wait_all_tasks_blocked()
        assert host.received == [bytes(1000)] * 2


def test_an_interceptors_object_has_no_buffer():
    assert send_buffer(object()) is None
