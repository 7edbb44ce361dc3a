"""The number of frames that a peer may send which carry nothing of a call."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import h2.events
import pytest
import trio
from support.hostile.peer import ACK, DATA, GOAWAY, PING, PRIORITY, SETTINGS, WINDOW_UPDATE, frame
from trio.testing import wait_all_tasks_blocked

from trxds.transport.events import ErrorCode
from trxds.transport.flood_guard import EARNED_PER_FRAME, FloodGuard
from trxds.transport.options import WireOptions

pytestmark = pytest.mark.slow

# -- the rule


def test_one_frame_of_overhead_above_the_allowance_is_a_flood() -> None:
    guard = FloodGuard(1000)
    assert guard.admits(1000, 0, 5.0)
    assert not guard.admits(1, 0, 5.0)


def test_overhead_at_the_rate_is_never_a_flood() -> None:
    guard = FloodGuard(1000)
    assert all(guard.admits(10, 0, tick / 100) for tick in range(10_000))


def test_overhead_a_little_above_the_rate_is_a_flood_in_the_end() -> None:
    guard = FloodGuard(1000)
    assert not all(guard.admits(11, 0, tick / 100) for tick in range(2_000))


def test_a_silent_peer_earns_at_most_one_second_of_the_rate() -> None:
    guard = FloodGuard(1000)
    assert guard.admits(1000, 0, 1000.0)
    assert not guard.admits(1001, 0, 2000.0)


def test_each_frame_of_ours_earns_the_peer_ten() -> None:
    guard = FloodGuard(1000)
    assert guard.admits(1000 + 50 * EARNED_PER_FRAME, 50, 1.0)
    assert not guard.admits(1, 50, 1.0)


def test_earned_frames_are_kept_up_to_ten_times_the_rate() -> None:
    guard = FloodGuard(1000)
    assert guard.admits(0, 10**9, 1.0)
    assert guard.admits(10_000, 10**9, 1.0)
    assert not guard.admits(1, 10**9, 1.0)


# -- a connection

OVERHEAD = {
    "SETTINGS": frame(SETTINGS, 0, 0),
    "SETTINGS ACK": frame(SETTINGS, ACK, 0),
    "PING": frame(PING, 0, 0, bytes(8)),
    "PING ACK": frame(PING, ACK, 0, bytes(8)),
    "GOAWAY": frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4)),
    "PRIORITY": frame(PRIORITY, 0, 1, bytes(5)),
    "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "WINDOW_UPDATE of a stream": frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"),
    "empty DATA": frame(DATA, 0, 1),
    "unknown": frame(0x42, 0, 0),
}


@pytest.mark.parametrize("kind", OVERHEAD)
async def test_each_type_of_overhead_frame_is_a_flood_above_the_rate(
    kind: str, wire: Any, request_: Any, autojump_clock: Any
) -> None:
    connection, server = await wire()
    stream = connection.open_stream(request_(message=b"x"))
    await server.request()
    server.h2.send_headers(stream.id, [(":status", "200"), ("content-type", "application/grpc")])
    await server.flush()
    for _ in range(20):
        await server.transport.send_all(OVERHEAD[kind] * 100)
        await trio.sleep(0.1)
    assert connection.closed_status is None  # the rate itself is none
    await server.transport.send_all(OVERHEAD[kind] * 1100)
    await wait_all_tasks_blocked()
    assert connection.closed_status is not None and "ENHANCE_YOUR_CALM" in connection.closed_status.message
    assert stream.status == connection.closed_status


async def test_a_flooding_peer_gets_a_goaway_with_the_reason(wire: Any, autojump_clock: Any) -> None:
    _, server = await wire()
    await server.transport.send_all(OVERHEAD["unknown"] * 1500)
    goaway = await server.next(h2.events.ConnectionTerminated)
    assert goaway.error_code == ErrorCode.ENHANCE_YOUR_CALM


async def test_a_server_that_answers_each_frame_of_ours_with_five_is_no_flood(
    wire: Any, request_: Any, autojump_clock: Any
) -> None:
    """The busiest servers send two WINDOW_UPDATE for each DATA frame, and a PING to measure the round trip."""
    connection, server = await wire()
    more = OVERHEAD["WINDOW_UPDATE"] * 4 + OVERHEAD["PING"]
    for _ in range(1000):
        stream = connection.open_stream(request_(message=b"x"))
        stream_id = await server.request()
        await server.transport.send_all(more)
        await server.answer(stream_id)
        await stream.receive_unary()
    assert connection.closed_status is None


async def test_many_settings_in_one_frame_count_as_several(wire: Any, autojump_clock: Any) -> None:
    connection, server = await wire(options=WireOptions())
    with suppress(trio.BrokenResourceError):
        await server.transport.send_all(frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff" * 10_000) * 5)
    await wait_all_tasks_blocked()
    assert connection.closed_status is not None and "ENHANCE_YOUR_CALM" in connection.closed_status.message
