"""Windows for what arrives: bounded memory, and no stream that delays the others."""

from __future__ import annotations

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from support.small_windows import HEADERS, SMALL, prefixed
from trio.testing import wait_all_tasks_blocked

pytestmark = pytest.mark.slow


async def test_a_slow_application_bounds_what_it_is_sent(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    assert await server.send_within_windows(stream_id, prefixed(100_000)) == SMALL.stream_window


@pytest.mark.parametrize("came", [True, False])
async def test_an_application_that_waits_no_more_bounds_what_it_is_sent(wire, request_, came, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    if came:
        server.h2.send_data(stream_id, prefixed(1))
    await server.flush()
    with trio.move_on_after(1) as gave_up:
        await stream.receive()
    assert gave_up.cancelled_caught is not came
    assert await server.send_within_windows(stream_id, prefixed(100_000)) <= SMALL.stream_window


async def test_an_application_that_waits_is_sent_a_message_larger_than_the_window(
    wire, request_, autojump_clock, nursery
) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    nursery.start_soon(stream.receive)
    await wait_all_tasks_blocked()
    assert await server.send_within_windows(stream_id, prefixed(100_000)) == 100_005


async def test_an_application_that_waits_is_sent_it_on_the_connection_that_opens_the_stream(
    wire, request_, autojump_clock, nursery
) -> None:
    # A105: connections to one host have one queue, and the first that has room opens the stream.
    full, _ = await wire({SettingCodes.MAX_CONCURRENT_STREAMS: 0}, options=SMALL)
    connection, server = await wire(options=SMALL)
    stream = full.open_stream(request_())
    received = []

    async def receive() -> None:
        received.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    connection.streams.waiting = full.streams.waiting
    connection.streams.begin_waiting()
    connection.http2.writer.write_soon()
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    assert await server.send_within_windows(stream_id, prefixed(100_000)) == 100_005
    await wait_all_tasks_blocked()
    assert received == [bytes(100_000)]


async def test_an_application_that_waits_late_is_sent_the_rest_of_a_large_message(
    wire, request_, autojump_clock, nursery
) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    data = prefixed(100_000)
    sent = await server.send_within_windows(stream_id, data)
    nursery.start_soon(stream.receive)
    await wait_all_tasks_blocked()
    await server.read()
    assert sent + await server.send_within_windows(stream_id, data[sent:]) == len(data)


async def test_a_waiting_application_is_not_sent_messages_behind_the_one_it_waits_for(
    wire, request_, autojump_clock
) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.receive)
        sent = await server.send_within_windows(stream_id, prefixed(1000) * 100)
    assert sent <= 1005 + SMALL.stream_window


async def test_taken_messages_open_the_streams_window(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    data = prefixed(1000) * 30
    sent = await server.send_within_windows(stream_id, data)
    while stream.receive_nowait() is not None:
        pass
    await wait_all_tasks_blocked()
    await server.read()
    assert await server.send_within_windows(stream_id, data[sent:]) >= SMALL.stream_window // 2


async def test_a_stream_that_nobody_reads_does_not_hold_up_others(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    for _ in range(20):  # three times the connection's window
        connection.open_stream(request_())
        stream_id = await server.request()
        server.h2.send_headers(stream_id, HEADERS)
        assert await server.send_within_windows(stream_id, bytes(10_000)) == 10_000


async def test_each_byte_of_the_connections_window_is_given_back_once(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    for _ in range(12):
        connection.open_stream(request_(message=b""))
        await server.answer(await server.request(), bytes(9000))
        await wait_all_tasks_blocked()
    connection.http2.ping()
    await server.next(h2.events.PingReceived)
    assert SMALL.connection_window // 2 < server.h2.outbound_flow_control_window <= SMALL.connection_window


async def test_window_of_padding_is_given_back_at_once(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream_id = await server.request()
    server.h2.send_headers(stream_id, HEADERS)
    for byte in prefixed(200):  # 256 bytes of window for each: five windows' worth
        assert server.h2.local_flow_control_window(stream_id) >= 257
        server.h2.send_data(stream_id, bytes([byte]), pad_length=255)
        await server.flush()
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.001):
            await server.read()
    assert await stream.receive() == bytes(200)


async def test_data_of_cancelled_streams_costs_the_connection_nothing(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    for _ in range(20):
        stream = connection.open_stream(request_())
        stream_id = await server.request()
        server.h2.send_headers(stream_id, HEADERS)
        stream.cancel()
        # The server has not seen the reset and sends all it may.
        assert server.h2.local_flow_control_window(stream_id) == 10_000
        server.h2.send_data(stream_id, bytes(10_000))
        await server.flush()
        await wait_all_tasks_blocked()
        await server.next(h2.events.StreamReset)
        with trio.move_on_after(0.001):
            await server.read()
    assert connection.closed_status is None
