"""When a host is connected once more, and which connection takes calls that wait (A105)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from trxds.transport.client_stream import ClientStream
from trxds.transport.subchannel_connections import WorkingConnections


class FakeConnection:
    def __init__(self, *, is_full: bool = True, waiting: object = ()) -> None:
        self.streams = SimpleNamespace(is_full=is_full, waiting=waiting, leave_queue=lambda other: None)


def working(*connections: Any, most: int = 3) -> WorkingConnections:
    made = WorkingConnections()
    made.max, made.connections = most, connections
    return made


@pytest.mark.parametrize("full", [(False,), (True, False), (False, True)])
def test_no_connection_is_made_while_one_has_a_stream_left(full: tuple[bool, ...]) -> None:
    # The calls wait for room in a buffer.
    assert not working(*(FakeConnection(is_full=each, waiting=["call"]) for each in full)).wants_another
    assert working(*(FakeConnection(waiting=["call"]) for _ in full)).wants_another
    assert not working(*(FakeConnection() for _ in full)).wants_another
    assert not working(*(FakeConnection(waiting=["call"]) for _ in full), most=len(full)).wants_another


@pytest.mark.parametrize(
    ("number", "most", "waiting", "text"),
    [
        (0, 1, 0, ""),
        (1, 1, 0, ""),
        (1, 1, 2, "2 calls wait for a stream"),
        (1, 2, 0, "1 of at most 2 connections"),
        (2, 1, 0, "2 of at most 1 connection"),  # while one replaces the other
        (2, 3, 1, "2 of at most 3 connections, 1 call waits for a stream"),
    ],
)
def test_operators_read_how_many_connections_and_waiting_calls_there_are(
    number: int, most: int, waiting: int, text: str
) -> None:
    made = (FakeConnection(waiting=["call"] * waiting) for _ in range(number))
    assert working(*made, most=most).describe() == text


def test_a_connection_that_was_too_old_and_is_gone_is_not_replaced() -> None:
    connections = working(FakeConnection(), FakeConnection())
    old, _ = connections.connections
    connections.aged = (old,)
    assert connections.wants_another
    connections.remove(old)
    assert not connections.wants_another


async def test_a_connection_that_takes_calls_of_the_queue_reads_for_itself_again(
    delegated, request_, nursery, autojump_clock
) -> None:
    connection, server = await delegated()
    connections = working(connection)
    stream = ClientStream(connection, request_())
    connection.streams.waiting[stream] = None
    connections.serve_queue()
    began = trio.current_time()
    await server.answer(await server.request(), b"hello")
    assert await stream.receive() == b"hello"
    assert trio.current_time() == began


async def test_a_goaway_that_nobody_has_read_yet_keeps_calls_of_the_queue_away(
    delegated, request_, autojump_clock
) -> None:
    connection, server = await delegated()
    connections = working(connection)
    stream = ClientStream(connection, request_())
    connection.streams.waiting[stream] = None
    server.h2.close_connection()
    await server.flush()
    connections.serve_queue()
    assert stream.refused and not stream.id


def test_a_connection_that_reads_at_this_moment_takes_calls_of_the_queue_and_does_not_read_again() -> None:
    did: list[str] = []
    connection: Any = FakeConnection(is_full=False, waiting=["call"])
    connection.error = None
    connection.streams.begin_waiting = lambda: did.append("begin")
    connection.inline_reads = SimpleNamespace(
        is_delegated=True, catch_up=lambda: did.append("read"), reclaim=lambda: None
    )
    connection.http2 = SimpleNamespace(writer=SimpleNamespace(write_soon=lambda: None))
    working(connection).serve_queue(connection)
    assert did == ["begin"]


@pytest.mark.parametrize("number", [1, 2])
async def test_of_a_host_that_is_left_only_a_single_connection_keeps_the_calls_that_wait(
    wire, request_, number, autojump_clock
) -> None:
    full = {SettingCodes.MAX_CONCURRENT_STREAMS: 0}
    made = [(await wire(full))[0] for _ in range(number)]
    connections = WorkingConnections()
    for each in made:
        connections.add(each)
    stream = made[0].open_stream(request_())
    assert connections.take_all() == tuple(made) and not len(connections)
    assert stream.refused == (number == 2)
    assert [len(each.streams.waiting) for each in made] == [2 - number] * number


async def test_a_call_that_waits_on_when_its_connection_has_left_can_be_cancelled(
    wire, request_, autojump_clock
) -> None:
    full = {SettingCodes.MAX_CONCURRENT_STREAMS: 0}
    made = [(await wire(full))[0] for _ in range(2)]
    connections = WorkingConnections()
    for each in made:
        connections.add(each)
    stream = made[0].open_stream(request_())
    connections.remove(made[0])
    assert connections.num_waiting == 1
    stream.cancel()
    assert connections.num_waiting == 0


async def test_a_reply_for_which_a_task_waits_already_counts_for_the_connection_that_took_the_call(
    wire, request_, nursery, autojump_clock
) -> None:
    (full, _), (free, server) = [await wire({SettingCodes.MAX_CONCURRENT_STREAMS: limit}) for limit in (0, 1)]
    connections = WorkingConnections()
    connections.add(full)
    stream = full.open_stream(request_())
    received: list[bytes] = []

    async def receive() -> None:
        received.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    connections.add(free)
    await server.answer(await server.request(), b"hello")
    await wait_all_tasks_blocked()
    assert received == [b"hello"]
    assert (full.http2.counts.messages_received, free.http2.counts.messages_received) == (0, 1)
