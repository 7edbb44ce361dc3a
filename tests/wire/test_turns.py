"""Callers that are alone read their own answers, and nobody waits for it: not other callers, not the server's news."""

from __future__ import annotations

from typing import Any

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from trxds.ground.status import OK, StatusCode, unavailable
from trxds.wire.connection import Connection
from trxds.wire.framing import frame
from trxds.wire.link import Link
from trxds.wire.options import WireOptions
from trxds.wire.stream import ClientStream
from trxds.wire.transport import READ_SIZE

INITIAL_WINDOW_SIZE = SettingCodes.INITIAL_WINDOW_SIZE
MAX_CONCURRENT_STREAMS = SettingCodes.MAX_CONCURRENT_STREAMS

LOOK = 0.21  # seconds in which the reader has looked twice


async def asked(connection: Connection, server: Any, request: Any) -> None:
    """One lone call that is answered."""
    stream = connection.open_stream(request)
    assert stream is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answered, stream)
        await server.answer(await server.request(), b"echo")


async def answered(stream: ClientStream) -> None:
    assert await stream.receive_only() == b"echo" and stream.status == OK


async def fail_in_the_end() -> None:
    """When nothing else happens any more; it would be waited for in vain."""
    await trio.sleep(1000)
    raise TimeoutError


@pytest.fixture
def lent(wire, request_, nursery):
    """A connection after so many lone calls that its callers read for themselves, and its server."""

    async def make(options: WireOptions | None = None, settings: Any = None) -> tuple[Connection, Any]:
        connection, server = await wire(settings, options=options, sockets=True)
        for _ in range(20):
            await asked(connection, server, request_(message=b"x"))
        assert connection.turns.lent
        nursery.start_soon(fail_in_the_end)
        return connection, server

    return make


class Steps(trio.abc.Instrument):
    """How often each task runs."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name] = self.of.get(task.name, 0) + 1


async def test_a_lone_call_does_not_wake_the_reader(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    for _ in range(10):
        await asked(connection, server, request_(message=b"x"))
    trio.lowlevel.remove_instrument(steps)
    assert not [name for name in steps.of if "Link.run" in name]


async def test_memory_and_tls_are_left_to_the_reader(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    for _ in range(20):
        await asked(connection, server, request_(message=b"x"))
    assert not connection.turns.lent


async def test_calls_that_are_far_apart_are_left_to_the_reader(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    for _ in range(20):
        await asked(connection, server, request_(message=b"x"))
        assert not connection.turns.lent
        await trio.sleep(LOOK)


async def test_calls_beside_one_that_takes_long_are_left_to_the_reader(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    connection.open_stream(request_(message=b"x"))
    await server.request()
    for _ in range(20):
        await asked(connection, server, request_(message=b"x"))
        assert not connection.turns.lent


async def test_callers_side_by_side_are_left_to_the_reader(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    for _ in range(20):
        streams = [connection.open_stream(request_(message=b"x")) for _ in range(2)]
        for _ in streams:
            await server.answer(await server.request(), b"echo")
        for stream in streams:
            await answered(stream)
    assert not connection.turns.lent


# -- between calls


async def test_news_are_heard_when_no_call_follows(lent, autojump_clock) -> None:
    connection, server = await lent()
    server.h2.close_connection()
    await server.flush()
    await trio.sleep(LOOK)
    assert connection.error is not None


async def test_news_are_heard_before_the_next_call(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    await trio.sleep(0.001)
    server.h2.close_connection()
    await server.flush()
    assert connection.turns.lent and connection.open_stream(request_(message=b"x")) is None


async def test_a_connection_that_was_lost_meanwhile_takes_no_call(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    await trio.sleep(0.001)
    await server.transport.aclose()
    assert connection.turns.lent and connection.open_stream(request_(message=b"x")) is None
    assert connection.over is not None


async def test_a_connection_that_was_closed_takes_no_call(lent, request_, autojump_clock) -> None:
    connection, _ = await lent()
    await trio.sleep(0.001)
    connection.close(unavailable("closed"))
    assert connection.turns.lent and connection.open_stream(request_(message=b"x")) is None
    await wait_all_tasks_blocked()
    assert not connection.turns.lent  # its socket may be somebody else's by now


# -- other calls


async def test_a_call_that_streams_is_read_at_once(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    began = trio.current_time()
    stream = connection.open_stream(request_())
    stream.send_nowait(b"x", end=True)
    await server.answer(await server.request(), b"echo")
    assert await stream.receive() == b"echo" and trio.current_time() == began


async def test_who_waits_for_headers_gets_them_at_once(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    began = trio.current_time()
    stream = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await stream.wait_headers()
    assert stream.initial_metadata is not None and trio.current_time() == began


async def test_when_the_reader_was_called_lone_calls_count_anew(wire, request_, autojump_clock) -> None:
    connection, server = await wire(sockets=True)
    while not connection.turns.lent:
        await asked(connection, server, request_(message=b"x"))
    stream = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await stream.wait_headers()
    assert not connection.turns.lent


async def test_a_second_caller_is_read_for_by_the_first(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent()
    began = trio.current_time()
    first = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, first)
    await server.request()
    second = connection.open_stream(request_(message=b"x"))
    await server.answer(await server.request(), b"echo")
    await answered(second)
    assert first.status is None and trio.current_time() == began
    await server.answer(first.id, b"echo")


async def test_a_second_caller_is_read_for_when_the_first_has_its_answer(
    lent, request_, nursery, autojump_clock
) -> None:
    connection, server = await lent()
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


async def test_a_second_caller_is_read_for_when_the_first_is_cancelled(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent()
    began = trio.current_time()
    first = connection.open_stream(request_(message=b"x"))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as callers:
            callers.start_soon(first.receive_only)
            await server.request()
            second = connection.open_stream(request_(message=b"x"))
            nursery.start_soon(answered, second)
            await server.request()
            scope.cancel()
    first.cancel()
    await server.answer(second.id, b"echo")
    await wait_all_tasks_blocked()
    assert second.status == OK and trio.current_time() == began


async def test_after_a_call_that_takes_long_the_reader_reads(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent()
    slow = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(answered, slow)
    await server.request()
    await trio.sleep(100)
    await server.answer(slow.id, b"echo")
    await wait_all_tasks_blocked()
    assert slow.status == OK and not connection.turns.lent
    server.h2.close_connection()
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.error is not None


async def test_a_call_that_takes_long_does_not_keep_the_reader_awake(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent()
    nursery.start_soon(connection.open_stream(request_(message=b"x")).receive_only)
    await server.request()
    await trio.sleep(1)
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(100)
    trio.lowlevel.remove_instrument(steps)
    assert not [name for name in steps.of if "Link.run" in name]
    nursery.cancel_scope.cancel()


async def test_a_call_that_has_to_queue_is_read_for(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    await trio.sleep(0.001)
    server.h2.update_settings({MAX_CONCURRENT_STREAMS: 0})
    await server.flush()
    began = trio.current_time()
    stream = connection.open_stream(request_(message=b"x"))
    assert not stream.opened
    server.h2.update_settings({MAX_CONCURRENT_STREAMS: 1})
    await server.flush()
    assert await stream.wait_open() and trio.current_time() == began


# -- other ends


async def test_a_caller_that_reads_learns_that_its_call_was_ended(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_only)
        await server.request()
        stream.cancel()
    assert stream.status.code is StatusCode.CANCELLED
    await asked(connection, server, request_(message=b"x"))


async def test_a_caller_that_reads_learns_that_the_connection_was_closed(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_only)
        await server.request()
        connection.close(unavailable("closed"))
    assert stream.status == unavailable("closed")


@pytest.fixture
def stuck(lent, request_, nursery):
    """A connection whose writer waits for the socket, the call that reads for itself, and the server."""

    async def make() -> tuple[Connection, ClientStream, Any]:
        connection, server = await lent(settings={INITIAL_WINDOW_SIZE: 2**30})
        server.h2.increment_flow_control_window(2**30)
        await server.flush()
        for _ in range(20):
            await asked(connection, server, request_(message=b"x"))
        large = connection.open_stream(request_(message=bytes(2_000_000)))
        nursery.start_soon(large.receive_only)
        await wait_all_tasks_blocked()
        assert connection.turns.guest is large
        return connection, large, server

    return make


async def test_the_writer_goes_on_when_a_caller_that_reads_is_told_to_stop(stuck, request_, autojump_clock) -> None:
    connection, large, server = await stuck()
    large.cancel()
    await wait_all_tasks_blocked()
    assert connection.over is None
    await server.next(h2.events.StreamReset)
    await asked(connection, server, request_(message=b"x"))


async def test_a_connection_that_is_closed_says_goodbye_although_a_caller_reads(stuck, autojump_clock) -> None:
    connection, _, server = await stuck()
    connection.close(unavailable("closed"))
    await server.next(h2.events.ConnectionTerminated)


async def test_a_caller_that_reads_finds_the_connection_lost(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    stream = connection.open_stream(request_(message=b"x"))
    async with trio.open_nursery() as callers:
        callers.start_soon(stream.receive_only)
        await server.request()
        await server.transport.aclose()
    assert stream.status.code is StatusCode.UNAVAILABLE and "closed by the peer" in stream.status.message


async def test_an_answer_in_many_pieces_is_whole(lent, request_, autojump_clock) -> None:
    connection, server = await lent()
    stream = connection.open_stream(request_(message=b"x"))
    reply: list[bytes | None] = []

    async def receive() -> None:
        reply.append(await stream.receive_only())

    async with trio.open_nursery() as callers:
        callers.start_soon(receive)
        stream_id = await server.request()
        transport, server.transport = server.transport, Piecewise(server.transport)
        await server.answer(stream_id, b"0123456789")
        server.transport = transport
    assert reply == [b"0123456789"] and stream.status == OK


class Piecewise:
    """Sends a byte at a time."""

    def __init__(self, transport: trio.abc.Stream) -> None:
        self.transport = transport

    async def send_all(self, data: bytes) -> None:
        for byte in data:
            await self.transport.send_all(bytes((byte,)))
            await wait_all_tasks_blocked()


async def test_the_peers_pings_are_bounded_where_a_caller_reads(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent(WireOptions(control_bound=1000))
    stream = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(stream.receive_only)
    await server.request()
    while connection._transport.send_nowait(bytes(100_000)):  # the server reads nothing, so nothing leaves us
        pass
    for _ in range(300):
        server.h2.ping(b"12345678")
        await server.flush()
        await wait_all_tasks_blocked()
    assert 1000 < connection.engine.control_unsent < 1100  # of 5,100 that all of them would have provoked
    nursery.cancel_scope.cancel()


async def test_pings_that_come_before_calls_are_bounded(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent(WireOptions(control_bound=1000))
    while connection._transport.send_nowait(bytes(100_000)):
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
    assert 1000 < connection.engine.control_unsent < 1000 + READ_SIZE  # the first read's
    nursery.cancel_scope.cancel()


async def test_a_large_answer_is_left_to_the_reader(lent, request_, nursery, autojump_clock) -> None:
    connection, server = await lent(WireOptions(stream_window=65_535))
    nursery.start_soon(connection.open_stream(request_(message=b"x")).receive_only)
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    server.h2.send_data(stream_id, frame(bytes(60_000))[:50_000])
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.turns.guest is None and not connection.turns.lent
    nursery.cancel_scope.cancel()


async def test_a_fault_of_ours_ends_the_connection_as_ever(wire, request_, monkeypatch, autojump_clock) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    streams: list[ClientStream] = []

    async def call(connection: Connection) -> None:
        streams.append(connection.open_stream(request_(message=b"x")))
        assert await streams[0].receive_only() is None

    with pytest.RaisesGroup(pytest.RaisesGroup(ZeroDivisionError)):
        async with trio.open_nursery() as nursery:
            connection, server = await wire(sockets=True, within=nursery)
            for _ in range(20):
                await asked(connection, server, request_(message=b"x"))
            async with trio.open_nursery() as callers:
                callers.start_soon(call, connection)
                stream_id = await server.request()
                monkeypatch.setattr(Link, "_handle", fail)
                await server.answer(stream_id)
                await trio.sleep(1)
    assert streams[0].status is not None and connection.over is not None
