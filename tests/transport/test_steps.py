"""No input of a peer delays other tasks for long: it is read, answered and ended in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h2.settings
import hpack
import pytest
import trio
from support.engines import receive_all
from support.hostile.peer import (
    END_HEADERS,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    PING,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import StatusCode, unavailable
from trxds.transport.connection_tasks import MAX_ENDS_PER_STEP
from trxds.transport.engine import Http2Engine
from trxds.transport.events import ConnectionFailed, ErrorCode
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.options import WireOptions
from trxds.transport.send_queue import MAX_STREAMS_PER_STEP

REQUEST = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))
A_PING = frame(PING, 0, 0, bytes(8))
MAX_WINDOW = 2**31 - 1


def setting(key: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, key.to_bytes(2) + value.to_bytes(4))


def window(stream_id: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, size.to_bytes(4))


@pytest.fixture(
    params=[FastHttp2Engine, lambda options: H2LibraryEngine(client=True, options=options)], ids=["fast", "h2"]
)
def engine(request: pytest.FixtureRequest) -> Http2Engine:
    """Return an engine with two streams, after the server's first SETTINGS."""
    made: Http2Engine = request.param(WireOptions())
    made.receive(frame(SETTINGS, 0, 0))
    for _ in range(2):
        made.open_stream(REQUEST, [], [])
    made.outgoing.take()
    return made


# -- reading


def test_an_engine_reads_some_hundred_frames_and_leaves_the_rest(engine: Http2Engine) -> None:
    engine.receive(A_PING * 1000)
    answered = engine.outgoing.unsent // len(A_PING)
    assert 50 < answered < 500
    assert engine.unread == A_PING * (1000 - answered)


def test_unread_bytes_are_read_before_new_ones(engine: Http2Engine) -> None:
    engine.receive(A_PING * 1000 + A_PING[:5])
    while engine.unread:
        engine.receive(b"")
    engine.receive(A_PING[5:])
    assert engine.outgoing.unsent == 1001 * len(A_PING)


def test_bulk_data_is_read_at_once(engine: Http2Engine) -> None:
    """To hand out 64 KiB in parts would cost more than it saves."""
    engine.receive(frame(HEADERS, END_HEADERS, 1, hpack.Encoder().encode([(":status", "200")])))
    engine.receive(frame(0, 0, 1, bytes(16_000)) * 4)
    assert not engine.unread


def test_a_failed_connection_leaves_nothing_unread(engine: Http2Engine) -> None:
    events = receive_all(engine, frame(SETTINGS, 0, 0, b"!") + A_PING * 1000)
    assert isinstance(events[-1], ConnectionFailed) and not engine.unread


async def test_other_tasks_run_in_the_middle_of_a_read(wire: Any, nursery: trio.Nursery, autojump_clock: Any) -> None:
    connection, server = await wire()
    left: set[int] = set()

    async def look() -> None:
        while connection.closed_status is None:
            left.add(len(connection.http2.engine.unread))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as looking:
        looking.start_soon(look)
        await server.transport.send_all(A_PING * 900)
        for _ in range(30):
            await trio.lowlevel.checkpoint()
        looking.cancel_scope.cancel()
    assert left - {0}


async def test_a_leader_leaves_the_rest_of_a_long_read_to_the_reader(
    delegated: Any, request_: Any, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    connection, server = await delegated()
    stream = connection.open_stream(request_(message=b"x"))
    nursery.start_soon(stream.receive_unary)
    await server.request()
    pings = server.h2.data_to_send() + A_PING * 900
    await server.transport.send_all(pings)
    await wait_all_tasks_blocked()
    assert not connection.http2.engine.unread and not connection.inline_reads.is_delegated
    await server.answer(stream.id, b"y")
    await wait_all_tasks_blocked()
    assert stream.status.ok


# -- windows that the peer changes for all streams


def test_stream_windows_follow_the_initial_window_even_below_zero(engine: Http2Engine) -> None:
    engine.write(1, bytes(60_000), end=False, limit=10**6)
    engine.receive(setting(INITIAL_WINDOW_SIZE, 1000))
    assert (engine.stream_window(1), engine.stream_window(3)) == (-59_000, 1000)
    engine.receive(window(1, 60_000))
    assert engine.stream_window(1) == 1000
    assert engine.stream_window(engine.open_stream(REQUEST, [], [])) == 1000


def test_an_initial_window_that_opens_a_stream_too_far_ends_the_connection(engine: Http2Engine) -> None:
    engine.receive(window(3, MAX_WINDOW - 65_535))
    engine.receive(setting(INITIAL_WINDOW_SIZE, 65_535))
    assert engine.stream_window(3) == MAX_WINDOW
    (broken,) = engine.receive(setting(INITIAL_WINDOW_SIZE, 65_536))
    assert isinstance(broken, ConnectionFailed) and broken.code == ErrorCode.FLOW_CONTROL_ERROR


def test_a_closed_streams_window_does_not_count_for_the_limit(engine: Http2Engine) -> None:
    engine.receive(window(3, MAX_WINDOW - 65_535))
    engine.reset(3, ErrorCode.CANCEL)
    assert not any(
        isinstance(event, ConnectionFailed) for event in engine.receive(setting(INITIAL_WINDOW_SIZE, MAX_WINDOW))
    )
    assert engine.stream_window(1) == MAX_WINDOW


def test_a_stream_may_be_opened_no_further_after_the_initial_window_has_grown(engine: Http2Engine) -> None:
    engine.receive(setting(INITIAL_WINDOW_SIZE, MAX_WINDOW))
    engine.receive(window(1, 1))
    assert engine.stream_window(1) == 0  # it is reset, and the other is not
    assert engine.stream_window(3) == MAX_WINDOW


MANY = 3 * MAX_STREAMS_PER_STEP + 5

Open = Callable[..., Any]


async def test_settings_that_open_all_windows_let_all_streams_send(
    wire: Any, request_: Open, autojump_clock: Any
) -> None:
    connection, server = await wire({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(MANY)]
    for _ in streams:
        await server.request()
    assert len(connection.http2.send_queue.blocked) == MANY
    server.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 100})
    await server.flush()
    await wait_all_tasks_blocked()
    assert not any(stream.outgoing.waits_for_room for stream in streams) and not connection.http2.send_queue.blocked


async def test_windows_that_open_and_close_again_leave_the_streams_waiting(
    wire: Any, request_: Open, autojump_clock: Any
) -> None:
    connection, server = await wire({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(MANY)]
    await server.transport.send_all((setting(INITIAL_WINDOW_SIZE, 100) + setting(INITIAL_WINDOW_SIZE, 0)) * 20)
    await wait_all_tasks_blocked()
    assert len(connection.http2.send_queue.blocked) == MANY
    await server.transport.send_all(window(streams[7].id, 100))
    await wait_all_tasks_blocked()
    assert [stream.outgoing.waits_for_room for stream in streams].index(False) == 7
    assert len(connection.http2.send_queue.blocked) == MANY - 1


async def test_a_stream_that_ends_while_its_window_is_closed_is_forgotten(
    wire: Any, request_: Open, autojump_clock: Any
) -> None:
    connection, _ = await wire({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream = connection.open_stream(request_(message=b"x"))
    await wait_all_tasks_blocked()
    assert list(connection.http2.send_queue.blocked) == [stream.outgoing]
    stream.cancel()
    assert not connection.http2.send_queue.blocked


async def test_a_higher_stream_limit_opens_all_waiting_streams(wire: Any, request_: Open, autojump_clock: Any) -> None:
    connection, server = await wire({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0})
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(MANY)]
    await server.transport.send_all(setting(MAX_CONCURRENT_STREAMS, 10_000))
    await wait_all_tasks_blocked()
    assert all(stream.id for stream in streams)


# -- ends


async def test_calls_of_a_lost_connection_end_a_few_at_a_time(wire: Any, request_: Open, autojump_clock: Any) -> None:
    connection, server = await wire()
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(MANY)]
    ended: list[int] = []
    await wait_all_tasks_blocked()
    await server.transport.aclose()
    while connection.streams:
        await trio.lowlevel.checkpoint()
        ended.append(sum(stream.status is not None for stream in streams))
    assert ended[-1] == MANY and len(set(ended)) >= MANY // MAX_ENDS_PER_STEP // 2
    assert {stream.status.code for stream in streams} == {StatusCode.UNAVAILABLE}


async def test_the_calls_of_a_lost_connection_end_even_if_it_is_closed_first(
    wire: Any, request_: Open, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    async with trio.open_nursery() as its:
        connection, _ = await wire(within=its)
        streams = [connection.open_stream(request_(message=b"x")) for _ in range(MANY)]
        connection.close(unavailable("closed"))
        its.cancel_scope.cancel()
    assert all(stream.status is not None for stream in streams)


# -- header blocks


def test_a_third_table_size_in_one_header_block_is_refused(engine: Http2Engine) -> None:
    """Each byte may be a new size: 64 KiB of them take 80 ms."""
    receive_all(engine, frame(HEADERS, END_HEADERS, 1, b"\x20\x3f\xe1\x1f\x88"))
    (broken,) = receive_all(engine, frame(HEADERS, END_HEADERS, 3, b"\x20" * 3 + b"\x88"))
    assert isinstance(broken, ConnectionFailed) and broken.message.endswith("more than two new sizes in one block")
