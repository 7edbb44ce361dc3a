"""Read coalescing lets answers gather where that saves wake-ups and delays no call, and nowhere else.

Over a stream that cannot say when enough bytes have come; `test_gathering.py` has the others.
"""

from __future__ import annotations

from typing import Any

import h2.events
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, unavailable
from trxds.transport.connection import Connection
from trxds.transport.framing import frame
from trxds.transport.options import WireOptions
from trxds.transport.read_coalescing import MIN_CALLS_TO_PAUSE, ReadCoalescing

pytestmark = pytest.mark.slow

# -- the rule

SIZE = 130  # bytes of an answer


def pause(
    *, every: float, took: float, calls: int = 50, at_once: int = 1, most: float = 0.002, queued: bool = False
) -> float:
    """Return the pause when reads bring `at_once` answers of `calls`, `every` so many seconds.

    If more are `queued`, they take the places of those that were answered.
    """
    coalescing, result = ReadCoalescing(most), 0.0
    for read in range(1, 200):
        coalescing.count_answers(at_once, calls, took, at_once * SIZE, 100 + read * every)
        result = coalescing.pause(range(calls if queued else calls - at_once), 100 + read * every)
    return result


def test_read_coalescing_lets_answers_gather_that_come_one_by_one() -> None:
    assert pause(every=0.000_25, took=0.012) == pytest.approx(0.002)


def test_a_coalescing_pause_has_an_upper_limit() -> None:
    assert pause(every=0.000_25, took=10, most=0.005) == pytest.approx(0.005)
    assert pause(every=0.000_25, took=10, most=0) == 0


@pytest.mark.parametrize(("took", "expected"), [(0.001_9, 0), (0.002_1, 0.001), (0.005_9, 0.001), (0.006_1, 0.002)])
def test_a_coalescing_pause_is_a_quarter_of_the_calls_time_in_the_nearest_whole_milliseconds(
    took: float, expected: float
) -> None:
    assert pause(every=0.000_1, took=took) == pytest.approx(expected)


def test_a_coalescing_pause_is_not_rounded_above_its_upper_limit() -> None:
    assert pause(every=0.000_1, took=0.012, most=0.001_9) == pytest.approx(0.001)


def test_read_coalescing_makes_no_pause_for_few_answers() -> None:
    assert pause(every=0.000_6, took=0.1) == 0


@pytest.mark.parametrize("queued", [False, True])
def test_read_coalescing_makes_no_pause_if_most_answers_come_in_one_read(queued: bool) -> None:
    assert pause(every=0.005, took=0.012, calls=50, at_once=30, queued=queued) == 0


def test_read_coalescing_makes_no_pause_after_a_long_silence_and_resumes_soon() -> None:
    coalescing = ReadCoalescing(0.002)
    pauses = []
    for now in [*range(100), *(1000 + read * 0.000_25 for read in range(300))]:
        coalescing.count_answers(1, 50, 0.012, SIZE, now)
        pauses.append(coalescing.pause(range(50), now))
    assert not any(pauses[:120]) and all(pauses[-200:])


class Steady:
    """One answer each quarter of a millisecond, after 12 ms each; `pauses` is whether the last read caused a pause."""

    def __init__(self) -> None:
        self.coalescing = ReadCoalescing(0.002)
        self.now = 100.0
        self.pauses = False
        self.go_on(200)
        assert self.pauses

    def answer(self, took: float) -> None:
        self.now += 0.000_25
        self.coalescing.count_answers(1, 50, took, SIZE, self.now)
        self.pauses = self.coalescing.pause(range(50), self.now) > 0

    def go_on(self, answers: int) -> None:
        for _ in range(answers):
            self.answer(0.012)


def test_a_call_much_quicker_than_the_others_ends_coalescing_for_the_next_hundred() -> None:
    steady = Steady()
    steady.answer(0.002)
    assert not steady.pauses
    steady.go_on(100)
    assert not steady.pauses
    steady.go_on(100)
    assert steady.pauses


def test_a_call_half_as_long_as_the_others_does_not_end_coalescing() -> None:
    steady = Steady()
    steady.answer(0.006)
    steady.go_on(10)
    assert steady.pauses


def test_stream_activity_ends_coalescing_for_a_second() -> None:
    steady = Steady()
    steady.coalescing.stream_activity(steady.now)
    steady.go_on(3900)
    assert not steady.pauses
    steady.go_on(200)
    assert steady.pauses


def test_read_coalescing_makes_no_pause_on_a_clock_that_stands_still() -> None:
    steady = Steady()
    for _ in range(100):
        steady.coalescing.count_answers(1, 50, 0.012, SIZE, steady.now)
        assert not steady.coalescing.pause(range(50), steady.now)


def test_read_coalescing_does_not_count_answers_of_reads_with_few_calls() -> None:
    steady = Steady()
    for second in range(200):
        steady.coalescing.count_answers(1, 50, 0.012, SIZE, 200.0 + second)
    assert not steady.coalescing.pause(range(50), 400.0) and not steady.coalescing.pause(range(50), 400.02)


def test_the_longest_coalescing_pause_may_be_any_number_of_milliseconds() -> None:
    assert pause(every=0.000_25, took=10, most=0.009) == pytest.approx(0.009)


# -- a connection

FIFTY = 50
CALLS = 500
EVERY = 0.000_3


async def closed_loop(wire, request_, nursery, most: float) -> list[float]:
    """Return when each answer reached its caller: fifty callers, and a server that answers one after the other."""
    connection, server = await wire(options=WireOptions(max_read_delay=most))
    came: list[float] = []

    async def caller() -> None:
        for _ in range(CALLS // FIFTY):
            stream = connection.open_stream(request_(message=b"x"))
            assert await stream.receive_unary() == b"echo" and stream.status == OK
            came.append(trio.current_time())

    async def serve() -> None:
        while True:
            stream_id = await server.request()
            await trio.sleep(EVERY)
            await server.answer(stream_id, b"echo")

    nursery.start_soon(serve)
    async with trio.open_nursery() as callers:
        for _ in range(FIFTY):
            callers.start_soon(caller)
    return came


async def test_coalesced_answers_wake_several_callers_at_a_time(wire, request_, nursery, autojump_clock) -> None:
    came = await closed_loop(wire, request_, nursery, 0.002)
    assert len(came) == CALLS
    assert len(set(came[-200:])) < 200 / 4  # how fast they come has to be seen first


async def test_read_coalescing_costs_the_callers_no_time(wire, request_, nursery, autojump_clock) -> None:
    came = await closed_loop(wire, request_, nursery, 0.002)
    assert came[-1] - came[0] == pytest.approx(CALLS * EVERY, rel=0.02)


async def test_answers_come_one_by_one_without_read_coalescing(wire, request_, nursery, autojump_clock) -> None:
    came = await closed_loop(wire, request_, nursery, 0)
    assert len(set(came)) == CALLS


async def test_a_quick_call_among_many_long_ones_is_not_delayed_by_coalescing(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server = await wire()
    for _ in range(2 * MIN_CALLS_TO_PAUSE):
        connection.open_stream(request_(message=b"long"))
        await server.request()
    took = []
    for _ in range(100):
        began = trio.current_time()
        stream = connection.open_stream(request_(message=b"quick"))
        stream_id = await server.request()
        await trio.sleep(0.000_2)
        await server.answer(stream_id)
        await stream.receive_unary()
        took.append(trio.current_time() - began)
    assert took == pytest.approx([0.000_2] * 100)


async def beside_forty_calls(wire, request_, nursery) -> tuple[Connection, Any, trio.Lock]:
    """Return a connection with forty callers whose answers come after 16 ms each and are coalesced, and its server.

    A task that has the lock may use the server. It answers quick calls at once, and leaves watches to the test.
    """
    connection, server = await wire()
    came: list[float] = []

    async def caller() -> None:
        while True:
            await connection.open_stream(request_(message=b"x")).receive_unary()
            came.append(trio.current_time())

    one_at_a_time = trio.Lock()

    async def answer(stream_id: int, after: float) -> None:
        await trio.sleep(after)
        async with one_at_a_time:
            await server.answer(stream_id, b"echo")

    async def serve() -> None:
        while True:
            event = await server.next(h2.events.RequestReceived)
            match dict(event.headers)[":path"]:
                case "/shop.Cart/Add":
                    nursery.start_soon(answer, event.stream_id, 0.016)
                case "/shop.Cart/Quick":
                    nursery.start_soon(answer, event.stream_id, 0)

    nursery.start_soon(serve)
    for _ in range(40):
        nursery.start_soon(caller)
        await trio.sleep(0.016 / 40)
    await trio.sleep(0.5)
    assert len(set(came[-200:])) < 200 / 3  # they do gather
    return connection, server, one_at_a_time


async def test_messages_of_a_stream_among_forty_calls_are_delayed_by_coalescing_once(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server, lock = await beside_forty_calls(wire, request_, nursery)
    stream = connection.open_stream(request_("/shop.Cart/Watch"))
    stream.end()
    await trio.sleep(0.01)
    async with lock:
        server.h2.send_headers(stream.id, [(":status", "200"), ("content-type", "application/grpc")])
        await server.flush()
    took = []
    for _ in range(20):
        await trio.sleep(0.005)
        began = trio.current_time()
        async with lock:
            server.h2.send_data(stream.id, frame(b"news"))
            await server.flush()
        assert await stream.receive() == b"news"
        took.append(trio.current_time() - began)
    assert max(took) < 0.0031 and took[1:] == pytest.approx([0] * 19, abs=0.000_1)
    nursery.cancel_scope.cancel()


async def test_quick_calls_among_forty_slow_ones_are_delayed_by_coalescing_once(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, _, _ = await beside_forty_calls(wire, request_, nursery)
    took = []
    for _ in range(20):
        await trio.sleep(0.02)
        began = trio.current_time()
        await connection.open_stream(request_("/shop.Cart/Quick", message=b"x")).receive_unary()
        took.append(trio.current_time() - began)
    assert max(took) < 0.0031 and took[1:] == pytest.approx([0] * 19, abs=0.000_1)
    nursery.cancel_scope.cancel()


async def test_a_connection_closed_in_a_coalescing_pause_ends_at_once(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire(options=WireOptions(max_read_delay=1000))
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(2 * MIN_CALLS_TO_PAUSE)]
    await trio.sleep(1000)
    for _ in range(10):
        await server.answer(await server.request())
        await trio.sleep(EVERY)
    await wait_all_tasks_blocked()
    assert streams[9].status is None  # its answer is there, and gathers
    began = trio.current_time()
    connection.close(unavailable("closed"))
    for stream in streams[-MIN_CALLS_TO_PAUSE:]:
        await stream.receive_unary()
    while nursery.child_tasks:
        await trio.lowlevel.checkpoint()
    assert trio.current_time() == began
