"""Windows for what is sent: what waits for them, and what is sent once they open."""

from __future__ import annotations

import h2.events
import pytest
from h2.settings import SettingCodes
from support.small_windows import HEADERS, SMALL
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK

pytestmark = pytest.mark.slow


async def drain(server, stream_id: int, size: int) -> None:
    """Read that much of a request, and open the windows again."""
    while size:
        data = await server.next(h2.events.DataReceived)
        assert data.stream_id == stream_id
        size -= len(data.data)
        server.h2.acknowledge_received_data(data.flow_controlled_length, stream_id)
        await server.flush()


async def test_send_waits_until_windows_have_taken_the_message(wire, request_, autojump_clock, nursery) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    sent: list[bool] = []

    async def send() -> None:
        sent.append(await stream.send(bytes(300_000), end=True))

    nursery.start_soon(send)
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    assert sent == []
    await drain(server, stream_id, 300_005)
    await server.request_end(stream_id)
    assert sent == [True]


async def test_a_message_that_went_out_whole_is_sent_though_the_stream_ended_right_behind_it(
    wire, request_, autojump_clock, nursery
) -> None:
    connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 5})
    stream = connection.open_stream(request_())
    sent: list[bool] = []

    async def send() -> None:
        sent.append(await stream.send(b"hello"))

    nursery.start_soon(send)
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    server.h2.increment_flow_control_window(5, stream_id)
    server.h2.send_headers(stream_id, [*HEADERS, ("grpc-status", "0")], end_stream=True)
    await server.flush()  # both come in one read, before the sender runs
    await wait_all_tasks_blocked()
    assert (sent, stream.status) == ([True], OK)


async def test_a_message_that_the_end_of_the_stream_cut_is_not_sent(wire, request_, autojump_clock, nursery) -> None:
    connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 5})
    stream = connection.open_stream(request_())
    sent: list[bool] = []

    async def send() -> None:
        sent.append(await stream.send(b"hello"))

    nursery.start_soon(send)
    stream_id = await server.request()
    server.h2.increment_flow_control_window(4, stream_id)
    server.h2.send_headers(stream_id, [*HEADERS, ("grpc-status", "0")], end_stream=True)
    await server.flush()
    await wait_all_tasks_blocked()
    assert (sent, stream.status) == ([False], OK)


async def test_the_unsent_buffer_is_bounded_though_windows_are_open(request_, wire, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 2**30}, capacity=1000)
    server.h2.increment_flow_control_window(2**30)
    await server.flush()
    await wait_all_tasks_blocked()
    for _ in range(10):
        connection.open_stream(request_()).send_nowait(bytes(10**6))
    await wait_all_tasks_blocked()
    assert connection.http2.engine.outgoing.unsent <= connection.http2.options.unsent_bound + 1000


async def test_headers_wait_for_room_in_the_buffer_too(request_, wire, autojump_clock) -> None:
    connection, server = await wire(options=SMALL, capacity=1000)
    streams = [connection.open_stream(request_(metadata=[(b"x", b"%d" % n * 500)])) for n in range(100, 200)]
    await wait_all_tasks_blocked()
    assert connection.http2.engine.outgoing.unsent < 2 * SMALL.unsent_bound
    assert streams[0].id and not streams[-1].id
    for _ in streams:
        await server.request()
    assert streams[-1].id


async def test_queued_streams_are_served_in_turn(wire, request_, autojump_clock) -> None:
    connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 2**20})
    server.h2.increment_flow_control_window(2**20)
    await server.flush()
    await wait_all_tasks_blocked()
    streams = [connection.open_stream(request_()) for _ in range(3)]
    for stream in streams:
        stream.send_nowait(bytes(200_000))
    order = []
    for _ in range(30):
        order.append((await server.next(h2.events.DataReceived)).stream_id)
    assert set(order[:12]) == {stream.id for stream in streams}


async def test_a_window_that_shrinks_below_zero_is_respected(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream.send_nowait(bytes(200_000))
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
    await server.flush()
    await wait_all_tasks_blocked()
    assert connection.http2.engine.stream_window(stream_id) < 0
    server.h2.increment_flow_control_window(200_000)
    server.h2.increment_flow_control_window(200_000, stream_id)
    await server.flush()
    await drain_raw(server, 200_005)


async def drain_raw(server, size: int) -> None:
    while size:
        size -= len((await server.next(h2.events.DataReceived)).data)


async def test_settings_that_open_windows_wake_senders(wire, request_, autojump_clock, nursery) -> None:
    connection, server = await wire({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream = connection.open_stream(request_())
    nursery.start_soon(stream.send, b"hello")
    stream_id = await server.request()
    server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    await server.flush()
    data = await server.next(h2.events.DataReceived)
    assert (data.stream_id, data.data) == (stream_id, b"\0\0\0\0\5hello")
