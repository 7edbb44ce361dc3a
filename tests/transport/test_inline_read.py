"""Lone callers read their own answers, and neither other callers nor a GOAWAY have to wait for that."""

from __future__ import annotations

from typing import Any

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from support.lone_calls import answered, asked
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, unavailable
from trxds.transport.connection import Connection
from trxds.transport.inline_read import READ_FRESHNESS
from trxds.transport.options import WireOptions

LOOK = 0.21  # seconds in which the reader has looked twice


class Steps(trio.abc.Instrument):
    """Counts how often each task runs."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name] = self.of.get(task.name, 0) + 1


async def test_a_lone_call_does_not_wake_the_reader(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    for _ in range(10):
        await asked(connection, server, request_(message=b"x"))
    trio.lowlevel.remove_instrument(steps)
    assert not [name for name in steps.of if "Connection.run" in name]


async def check_not_delegated(connection: Connection, server: Any, request: Any, apart: float = 0) -> None:
    """Make lone calls at this interval, and check that the reader reads for all of them."""
    for _ in range(20):
        await asked(connection, server, request)
        assert not connection.inline_reads.is_delegated
        await trio.sleep(apart)


async def test_reading_is_not_delegated_without_a_plain_socket(wire, request_, autojump_clock) -> None:
    await check_not_delegated(*await wire(), request_(message=b"x"))


async def test_reading_is_not_delegated_between_calls_that_are_far_apart(wire, request_, autojump_clock) -> None:
    await check_not_delegated(*await wire(sockets=True), request_(message=b"x"), apart=LOOK)


async def test_reading_is_not_delegated_while_a_long_call_is_open(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    connection.open_stream(request_(message=b"x"))
    await server.request()
    await check_not_delegated(connection, server, request_(message=b"x"))


async def test_reading_is_not_delegated_to_concurrent_callers(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    for _ in range(20):
        streams = [connection.open_stream(request_(message=b"x")) for _ in range(2)]
        for _ in streams:
            await server.answer(await server.request(), b"echo")
        for stream in streams:
            await answered(stream)
    assert not connection.inline_reads.is_delegated


# -- between calls


async def test_a_goaway_is_noticed_while_reading_is_delegated_and_no_call_follows(delegated, autojump_clock) -> None:
    connection, server = await delegated()
    server.h2.close_connection()
    await server.flush()
    await trio.sleep(LOOK)
    assert connection.error is not None


async def test_a_goaway_is_noticed_before_the_next_call_while_reading_is_delegated(
    delegated, request_, autojump_clock
) -> None:
    connection, server = await delegated()
    await trio.sleep(0.001)
    server.h2.close_connection()
    await server.flush()
    assert connection.inline_reads.is_delegated and connection.open_stream(request_(message=b"x")) is None


@pytest.mark.parametrize(
    ("seconds", "reads"), [(0, False), (0.9 * READ_FRESHNESS, False), (1.1 * READ_FRESHNESS, True)]
)
async def test_a_call_reads_first_only_if_no_task_has_read_a_moment_ago(
    seconds, reads, delegated, request_, autojump_clock
) -> None:
    # What comes within that moment might as well come when the call is open.
    connection, server = await delegated()
    await trio.sleep(seconds)
    server.h2.close_connection()
    await server.flush()
    assert connection.inline_reads.is_delegated
    assert (connection.open_stream(request_(message=b"x")) is None) == reads


async def test_a_connection_lost_while_reading_is_delegated_takes_no_call(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    await trio.sleep(0.001)
    await server.transport.aclose()
    assert connection.inline_reads.is_delegated and connection.open_stream(request_(message=b"x")) is None
    assert connection.closed_status is not None


async def test_a_connection_closed_while_delegated_takes_no_call(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    await trio.sleep(0.001)
    server.h2.ping(b"12345678")
    await server.flush()
    connection.close(unavailable("closed"))
    read_at = connection.http2.reader.last_read
    assert connection.inline_reads.is_delegated and connection.open_stream(request_(message=b"x")) is None
    assert connection.http2.reader.last_read == read_at
    await wait_all_tasks_blocked()
    assert not connection.inline_reads.is_delegated  # its socket may be somebody else's by now


# -- other calls


async def test_a_streaming_call_reclaims_the_delegated_reading_at_once(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    began = trio.current_time()
    stream = connection.open_stream(request_())
    stream.send_nowait(b"x", end=True)
    await server.answer(await server.request(), b"echo")
    assert await stream.receive() == b"echo" and trio.current_time() == began


async def test_a_wait_for_headers_reclaims_the_delegated_reading_at_once(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    began = trio.current_time()
    stream = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await stream.wait_headers()
    assert stream.initial_metadata is not None and trio.current_time() == began


async def test_lone_calls_count_anew_after_the_reading_was_reclaimed(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    while not connection.inline_reads.is_delegated:
        await asked(connection, server, request_(message=b"x"))
    stream = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await stream.wait_headers()
    assert not connection.inline_reads.is_delegated


async def test_a_leader_reads_for_a_second_caller(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated()
    began = trio.current_time()
    first = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, first)
    await server.request()
    second = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await answered(second)
    assert first.status is None and trio.current_time() == began
    await server.answer(first.id, b"echo")


async def test_the_reader_reads_for_a_second_caller_when_the_leader_has_its_answer(
    delegated, request_, nursery, autojump_clock
) -> None:
    connection, server = await delegated()
    began = trio.current_time()
    first = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, first)
    await server.request()
    second = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, second)
    await server.request()
    for stream in (first, second):
        await server.answer(stream.id, b"echo")
        await wait_all_tasks_blocked()
        assert stream.status == OK
    assert trio.current_time() == began


async def test_the_reader_reads_for_a_second_caller_when_the_leader_is_cancelled(
    delegated, request_, nursery, autojump_clock
) -> None:
    connection, server = await delegated()
    began = trio.current_time()
    first = connection.open_stream(request_(message=b"x"))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as callers:
            callers.start_soon(first.receive_unary)
            await server.request()
            second = connection.open_stream(request_(message=b"x"))
            nursery.start_soon(answered, second)
            await server.request()
            scope.cancel()
    first.cancel()
    await server.answer(second.id, b"echo")
    await wait_all_tasks_blocked()
    assert second.status == OK and trio.current_time() == began


async def test_the_reader_reclaims_the_reading_from_a_leader_that_waits_long(
    delegated, request_, nursery, autojump_clock
) -> None:
    connection, server = await delegated()
    slow = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, slow)
    await server.request()
    await trio.sleep(100)
    await server.answer(slow.id, b"echo")
    await wait_all_tasks_blocked()
    assert slow.status == OK and not connection.inline_reads.is_delegated
    server.h2.close_connection()
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.error is not None


async def test_a_long_call_does_not_wake_the_delegating_reader(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated()
    nursery.start_soon(connection.open_stream(request_(message=b"x")).receive_unary)
    await server.request()
    await trio.sleep(1)
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(100)
    trio.lowlevel.remove_instrument(steps)
    assert not [name for name in steps.of if "Connection.run" in name]
    nursery.cancel_scope.cancel()


async def test_a_call_that_has_to_queue_reclaims_the_delegated_reading(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    await trio.sleep(0.001)
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    await server.flush()
    began = trio.current_time()
    stream = connection.open_stream(request_(message=b"x"))
    assert not stream.id
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    await server.flush()
    assert await stream.wait_open() and trio.current_time() == began


async def test_a_caller_leaves_the_reading_to_the_reader_while_a_round_trip_is_measured(
    delegated, request_, nursery, autojump_clock
) -> None:
    connection, server = await delegated(WireOptions(stream_window=10_000))
    stream = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(stream.receive_unary)
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(
        stream_id, b"\0" + (8000).to_bytes(4) + bytes(6000)
    )  # worth a WINDOW_UPDATE, with which the PING leaves
    await server.flush()
    await server.next(h2.events.PingReceived)
    assert not connection.inline_reads.is_delegated
    await server.flush()
    await wait_all_tasks_blocked()
    assert not connection.http2.flow.is_measuring()
