"""The end of delegated reading: by another task, with the connection, in small pieces, in a flood."""

from __future__ import annotations

from typing import Any

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from support.lone_calls import asked
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, StatusCode, unavailable
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.framing import frame
from trxds.transport.options import WireOptions
from trxds.transport.transport import READ_SIZE


async def test_a_leader_is_woken_when_its_call_is_ended(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_unary)
        await server.request()
        await wait_all_tasks_blocked()
        assert connection.inline_reads.leader is stream
        stream.cancel()
    assert stream.status.code is StatusCode.CANCELLED
    await asked(connection, server, request_(message=b"x"))


async def test_a_leader_is_woken_when_the_connection_is_closed(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_unary)
        await server.request()
        await wait_all_tasks_blocked()
        assert connection.inline_reads.leader is stream
        connection.close(unavailable("closed"))
    assert stream.status == unavailable("closed")


@pytest.fixture
def stuck(delegated, request_, nursery):
    """Return a connection whose writer waits for the socket, the call whose caller is the leader, and the server."""

    async def make() -> tuple[Connection, ClientStream, Any]:
        connection, server = await delegated(settings={SettingCodes.INITIAL_WINDOW_SIZE: 2**30})
        server.h2.increment_flow_control_window(2**30)
        await server.flush()
        for _ in range(20):
            await asked(connection, server, request_(message=b"x"))
        large = connection.open_stream(request_(message=bytes(2_000_000)))
        nursery.start_soon(large.receive_unary)
        await wait_all_tasks_blocked()
        assert connection.inline_reads.leader is large
        return connection, large, server

    return make


async def test_the_writer_goes_on_when_a_leader_is_interrupted(stuck, request_, autojump_clock) -> None:
    connection, large, server = await stuck()
    large.cancel()
    await wait_all_tasks_blocked()
    assert connection.closed_status is None
    await server.next(h2.events.StreamReset)
    await asked(connection, server, request_(message=b"x"))


async def test_a_connection_closed_while_a_leader_reads_sends_goaway(stuck, autojump_clock) -> None:
    connection, _, server = await stuck()
    connection.close(unavailable("closed"))
    await server.next(h2.events.ConnectionTerminated)


async def test_a_leader_finds_a_lost_connection(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_unary)
        await server.request()
        await server.transport.aclose()
    assert stream.status.code is StatusCode.UNAVAILABLE and "closed by the peer" in stream.status.message


async def test_a_leader_reads_an_answer_in_many_pieces(delegated, request_, autojump_clock) -> None:
    connection, server = await delegated()
    stream = connection.open_stream(request_(message=b"x"))
    reply: list[bytes | None] = []

    async def receive() -> None:
        reply.append(await stream.receive_unary())

    async with trio.open_nursery() as callers:
        callers.start_soon(receive)
        stream_id = await server.request()
        transport, server.transport = server.transport, Piecewise(server.transport)
        await server.answer(stream_id, b"0123456789")
        server.transport = transport
    assert reply == [b"0123456789"] and stream.status == OK


class Piecewise:
    """A stream that sends one byte at a time."""

    def __init__(self, transport: trio.abc.Stream) -> None:
        self.transport = transport

    async def send_all(self, data: bytes) -> None:
        for byte in data:
            await self.transport.send_all(bytes((byte,)))
            await wait_all_tasks_blocked()


async def test_a_flood_of_pings_is_bounded_while_a_leader_reads(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated(WireOptions(control_bound=1000))
    stream = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(stream.receive_unary)
    await server.request()
    while connection.http2.reader.transport.send_nowait(
        bytes(100_000)
    ):  # the server reads nothing, so nothing leaves us
        pass
    for _ in range(300):
        server.h2.ping(b"12345678")
        await server.flush()
        await wait_all_tasks_blocked()
    assert (
        1000 < connection.http2.engine.outgoing.control_unsent < 1100
    )  # of 5,100 that all of them would have provoked
    nursery.cancel_scope.cancel()


async def test_a_flood_of_pings_is_bounded_if_a_call_reads_first(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated(WireOptions(control_bound=1000))
    while connection.http2.reader.transport.send_nowait(bytes(100_000)):
        pass

    async def flood() -> None:
        while True:
            for _ in range(50):
                server.h2.ping(b"12345678")
            await server.flush()

    nursery.start_soon(flood)
    for _ in range(100):
        connection.open_stream(request_(message=b"x")).cancel()
        await trio.sleep(0.001)
    assert 1000 < connection.http2.engine.outgoing.control_unsent < 1000 + READ_SIZE  # the first read's
    nursery.cancel_scope.cancel()


async def test_a_large_answer_is_left_to_the_reader_by_its_leader(delegated, request_, nursery, autojump_clock) -> None:
    connection, server = await delegated(WireOptions(stream_window=65_535))
    nursery.start_soon(connection.open_stream(request_(message=b"x")).receive_unary)
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, frame(bytes(60_000))[:50_000])
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.inline_reads.leader is None and not connection.inline_reads.is_delegated
    nursery.cancel_scope.cancel()


async def test_an_internal_error_in_a_leaders_read_is_raised_by_the_connection(
    wire, request_, monkeypatch, autojump_clock
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    streams: list[ClientStream] = []

    async def call(connection: Connection) -> None:
        streams.append(connection.open_stream(request_(message=b"x")))
        assert await streams[0].receive_unary() is None

    with pytest.RaisesGroup(pytest.RaisesGroup(ZeroDivisionError)):
        async with trio.open_nursery() as nursery:
            connection, server = await wire(sockets=True, within=nursery)
            for _ in range(20):
                await asked(connection, server, request_(message=b"x"))
            async with trio.open_nursery() as callers:
                callers.start_soon(call, connection)
                stream_id = await server.request()
                monkeypatch.setattr(Connection, "handle", fail)
                await server.answer(stream_id)
                await trio.sleep(1)
    assert streams[0].status is not None and connection.closed_status is not None
