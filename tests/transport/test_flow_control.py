"""Windows in both directions: no deadlock, no stream that delays the others, and bounded memory."""

from __future__ import annotations

import h2.events
import pytest
import trio
from h2.settings import SettingCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.core.status import OK, StatusCode
from trxds.testing import Call, MemoryNetwork, bidi_streaming, serve, server_streaming, unary
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

pytestmark = pytest.mark.slow

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
SMALL = WireOptions(stream_window=10_000, connection_window=65_535, max_frame=16_384, unsent_bound=5_000)


def prefixed(size: int) -> bytes:
    return b"\0" + size.to_bytes(4) + bytes(size)


# -- what arrives


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


# -- what is sent


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


# -- both at once, whatever the windows


async def echo(requests, call: Call):
    async for message in requests:
        yield message


async def repeat(request: bytes, call: Call) -> bytes:
    return request


sizes = st.lists(st.sampled_from([0, 1, 5, 999, 1000, 9_995, 10_001, 65_536, 300_000]), min_size=1, max_size=5)
windows = st.sampled_from([1_000, 10_000, 65_535, 262_144])


@settings(deadline=None, max_examples=50)
@given(sizes, windows, windows, windows, st.booleans(), st.booleans())
def test_every_message_comes_through_whatever_the_windows(
    sizes: list[int], client_window: int, server_window: int, connection_window: int, streaming: bool, lean: bool
) -> None:
    def options(window: int) -> WireOptions:
        return WireOptions(
            stream_window=window,
            connection_window=max(connection_window, 65_535),
            max_frame=16_384,
            unsent_bound=min(window, 65_536),
            lean=lean,
        )

    async def story() -> None:
        network = MemoryNetwork()
        handlers = {"/s/Echo": bidi_streaming(echo), "/s/Repeat": unary(repeat)}
        async with (
            serve(handlers, network=network, address="server:1", options=options(server_window)) as server,
            trio.open_nursery() as nursery,
        ):
            connection = Connection(await network.connect("server:1"), peer="server:1", options=options(client_window))
            nursery.start_soon(connection.run)
            await connection.wait_ready()
            with trio.fail_after(60):
                async with trio.open_nursery() as calls:
                    for number in range(3):
                        calls.start_soon(echo_call if streaming else unary_calls, connection, sizes, number)
            assert len(server.calls) == (3 if streaming else 3 * len(sizes))
            connection.drain()

    trio.run(story, clock=MockClock(autojump_threshold=0))


async def echo_call(connection: Connection, sizes: list[int], number: int) -> None:
    stream = connection.open_stream(Request("/s/Echo", "s"))
    assert stream is not None

    async def send() -> None:
        for size in sizes:
            assert await stream.send(bytes([number]) * size)
        stream.end()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        for size in sizes:
            assert await stream.receive() == bytes([number]) * size
        assert await stream.receive() is None
    assert stream.status == OK


async def unary_calls(connection: Connection, sizes: list[int], number: int) -> None:
    for size in sizes:
        stream = connection.open_stream(Request("/s/Repeat", "s", one_reply=True))
        assert stream is not None
        stream.send_nowait(bytes([number]) * size, end=True)
        assert await stream.receive_unary() == bytes([number]) * size


@pytest.mark.parametrize("lean", [True, False])
async def test_one_slow_stream_of_a_thousand_holds_up_none_and_loses_nothing(lean: bool, autojump_clock) -> None:
    message, slow_count = bytes(1000), 500

    async def count(request: bytes, call: Call):
        for _ in range(int(request)):
            yield message

    # As much for a stream as for the connection: what the slow one holds would be everybody's window.
    options = WireOptions(stream_window=65_535, connection_window=65_535, lean=lean)
    network = MemoryNetwork()
    async with (
        serve({"/s/Count": server_streaming(count)}, network=network, address="server:1"),
        trio.open_nursery() as nursery,
    ):
        connection = Connection(await network.connect("server:1"), peer="server:1", options=options)
        nursery.start_soon(connection.run)
        await connection.wait_ready()
        slow = connection.open_stream(Request("/s/Count", "s", message=b"%d" % slow_count))
        received: list[int] = []

        async def read_all(stream: ClientStream) -> None:
            messages = 0
            while await stream.receive() is not None:
                messages += 1
            received.append(messages)

        async with trio.open_nursery() as readers:
            for _ in range(999):
                readers.start_soon(read_all, connection.open_stream(Request("/s/Count", "s", message=b"3")))
        assert received == [3] * 999
        assert slow.status is None and slow._incoming.deframer.buffered <= 65_535
        await read_all(slow)
        assert received[-1] == slow_count
        connection.drain()


# -- one read brings news of a stream and its end: h2 knows the end before we handle the news


async def test_window_is_not_given_back_to_a_stream_that_ends_in_the_same_read(wire, request_, autojump_clock) -> None:
    connection, server = await wire(options=SMALL)
    stream = connection.open_stream(request_())
    stream.send_nowait(b"x", end=True)
    stream_id = await server.request()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.receive_unary)
        await wait_all_tasks_blocked()
        server.h2.send_headers(stream_id, HEADERS)
        server.h2.send_data(stream_id, prefixed(9000))
        server.h2.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)
        await server.flush()
    assert stream.status == OK


async def test_a_window_that_opens_for_a_stream_reset_in_the_same_read(wire, request_, autojump_clock) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_())
    stream.send_nowait(bytes(100_000))
    stream_id = await server.request()
    await wait_all_tasks_blocked()
    server.h2.increment_flow_control_window(100_000)
    server.h2.increment_flow_control_window(100_000, stream_id)
    server.h2.reset_stream(stream_id, 8)
    await server.flush()
    assert await stream.receive() is None and stream.status.code is StatusCode.CANCELLED
    assert connection.closed_status is None
