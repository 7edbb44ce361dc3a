"""When a host is connected once more, and which connection takes calls that wait (A105)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from trxds.transport.client_stream import ClientStream
from trxds.transport.working_connections import WorkingConnections


class FakeConnection:
    def __init__(self, *, is_full: bool = True, waiting: object = ()) -> None:
        self.streams = SimpleNamespace(is_full=is_full, waiting=waiting, leave_queue=lambda other: None)


def working(*connections: Any, most: int = 3) -> WorkingConnections:
    made = WorkingConnections()
    made.max, made.nurseries = most, dict.fromkeys(connections)
    return made


@pytest.mark.parametrize("full", [(False,), (True, False), (False, True)])
def test_no_connection_is_made_while_one_has_a_stream_left(full: tuple[bool, ...]) -> None:
    # The calls wait for room in a buffer.
    assert not working(*(FakeConnection(is_full=each, waiting=["call"]) for each in full)).wants_another
    assert working(*(FakeConnection(waiting=["call"]) for _ in full)).wants_another
    assert not working(*(FakeConnection() for _ in full)).wants_another
    assert not working(*(FakeConnection(waiting=["call"]) for _ in full), most=len(full)).wants_another


def test_a_connection_that_was_too_old_and_is_gone_is_not_replaced() -> None:
    connections = working(FakeConnection(), FakeConnection())
    old, _ = connections.nurseries
    connections.aged = frozenset({old})
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
