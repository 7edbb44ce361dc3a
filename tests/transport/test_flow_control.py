"""Windows in both directions at once: no deadlock, and no stream that delays the others."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_windows import HEADERS, SMALL, prefixed
from trio.testing import MockClock, wait_all_tasks_blocked

from trxds.core.status import OK, StatusCode
from trxds.testing import Call, MemoryNetwork, bidi_streaming, serve, server_streaming, unary
from trxds.transport.client_stream import ClientStream
from trxds.transport.connection import Connection
from trxds.transport.options import WireOptions
from trxds.transport.request import Request

pytestmark = pytest.mark.slow


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
        assert slow.status is None and slow.incoming.deframer.buffered <= 65_535
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
