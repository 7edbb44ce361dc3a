"""Over a socket the reader waits until several answers are there, and no longer, where no call is slower for it."""

from __future__ import annotations

from math import ceil
from random import Random

import pytest
import trio
from h2.settings import SettingCodes
from trio.testing import wait_all_tasks_blocked

from trxds.core.status import OK, unavailable
from trxds.transport.options import WireOptions
from trxds.transport.read_coalescing import AnswerStatistics, ReadCoalescing

pytestmark = pytest.mark.slow

SIZE = 130  # bytes of an answer

# -- the rule


class Reads:
    """Reads of the answers of eight calls that are always open; `size` and `seconds` are what to wait for.

    A call that is answered begins again after the read; if more are `queued`, one of them has taken its place by then.
    """

    def __init__(self, *, calls: int = 8, most: float = 0.003, queued: bool = False) -> None:
        self.coalescing = ReadCoalescing(most)
        self.calls = calls
        self.queued = queued
        self.now = 100.0
        self.size, self.seconds = 0, 0.0

    def read(self, answers: int, *, after: float, took: float) -> None:
        self.now += after
        self.coalescing.count_answers(answers, self.calls, took, answers * SIZE, self.now)
        open_calls = range(self.calls if self.queued else self.calls - answers)
        self.size, self.seconds = self.coalescing.gather(open_calls, self.now)

    def gathered(self, *, every: float, took: float, reads: int = 1000) -> list[int]:
        """Return how many answers each read had, if the server answers so often and the reader waits as it is told."""
        counts, answers = [], 1
        for _ in range(reads):
            self.read(answers, after=answers * every, took=took)
            counts.append(answers)
            answers = max(1, ceil(self.size / SIZE))
        return counts


@pytest.mark.parametrize("queued", [False, True])
def test_a_reader_waits_for_half_of_the_answers_of_callers_that_repeat(queued: bool) -> None:
    counts = Reads(queued=queued).gathered(every=0.000_5, took=0.004, reads=10_000)
    assert max(counts) == 4 and 4 * counts.count(4) > 0.85 * sum(counts)


def test_a_reader_waits_for_the_answers_of_a_quarter_of_a_calls_time_where_patience_does_not_help() -> None:
    reads = Reads(calls=40, most=1)
    # The longer it waits the slower they come, so it tries patience and drops it.
    counts, answers = [], 1
    for _ in range(4000):
        reads.read(answers, after=answers * (0.001 if answers <= 10 else 0.001_2), took=0.04)
        counts.append(answers)
        answers = max(1, ceil(reads.size / SIZE))
    assert counts[-500:].count(10) > 450


def test_a_reader_waits_no_longer_than_the_longest_delay() -> None:
    reads, longest = Reads(calls=40, most=0.003), 0.0
    for _ in range(200):
        reads.gathered(every=0.000_5, took=0.02, reads=1)
        longest = max(longest, reads.seconds)
    assert longest == pytest.approx(0.003)


def test_a_reader_that_must_not_wait_does_not() -> None:
    assert set(Reads(most=0).gathered(every=0.000_5, took=0.004)) == {1}


def test_a_reader_does_not_wait_for_the_answers_of_very_quick_calls() -> None:
    assert set(Reads().gathered(every=0.000_04, took=0.000_3)) == {1}


def test_a_reader_does_not_wait_where_answers_come_together_anyway() -> None:
    reads = Reads()
    for _ in range(200):
        reads.read(4, after=0.002, took=0.004)
    assert not reads.size


def test_a_reader_looks_now_and_then_whether_answers_come_together() -> None:
    counts = Reads().gathered(every=0.000_5, took=0.004)
    first = counts.index(4)
    assert counts[first : first + 160].count(1) == 10


def test_a_reader_waits_for_no_more_than_one_read_takes() -> None:
    reads, largest = Reads(calls=100, most=1), 0
    for _ in range(200):
        reads.now += 0.001
        reads.coalescing.count_answers(1, 100, 0.1, 20_000, reads.now)
        largest = max(largest, reads.coalescing.gather(range(99), reads.now)[0])
    assert largest == 64 * 1024


def test_a_read_in_several_steps_counts_as_one() -> None:
    statistics = AnswerStatistics()
    for answers, calls in ((8, 30), (8, 22), (4, 14)):
        statistics.count(answers, calls, 0.04, 20 * SIZE, 100)
    assert statistics.check(100) == 20 and statistics.calls == 30 and statistics.size == SIZE


def test_a_quick_call_ends_waiting_for_the_next_hundred_answers() -> None:
    reads = Reads()
    assert max(reads.gathered(every=0.000_5, took=0.004)) == 4
    reads.read(1, after=0.000_5, took=0.000_6)
    assert set(reads.gathered(every=0.000_5, took=0.004, reads=120)) == {1}


def test_stream_activity_ends_waiting_for_a_second() -> None:
    reads = Reads()
    assert max(reads.gathered(every=0.000_5, took=0.004)) == 4
    reads.coalescing.stream_activity(reads.now)
    assert set(reads.gathered(every=0.000_5, took=0.004, reads=1990)[1:]) == {1}


def test_data_of_a_stream_that_goes_on_ends_waiting_for_a_second() -> None:
    reads = Reads()
    assert max(reads.gathered(every=0.000_5, took=0.004)) == 4
    reads.coalescing.note_data(3, reads.now + 0.000_5)
    assert set(reads.gathered(every=0.000_5, took=0.004, reads=1990)[1:]) == {1}


def test_a_reader_does_not_wait_on_a_clock_that_stands_still() -> None:
    reads = Reads()
    assert max(reads.gathered(every=0.000_5, took=0.004)) == 4
    for _ in range(100):
        reads.read(1, after=0, took=0.004)
        assert not reads.size


# -- a connection

CALLERS = 8
CALLS = 2000

# The connection waits in the same way whatever engine it has, and thousands of calls take time.
with_one_engine = pytest.mark.parametrize("wire", ["lean"], indirect=True)


async def answered(
    wire, request_, nursery, *, took, most: float = 0.003, calls: int = CALLS, streams: int = 0
) -> list[float]:
    """Return when each answer reached one of eight callers, each of which calls again at once.

    `took` gives the seconds of each call. A server of `took=None` works for one call at a time, 0.3 ms for each.
    """
    settings = {SettingCodes.MAX_CONCURRENT_STREAMS: streams} if streams else {}
    connection, server = await wire(settings, simulated=True, options=WireOptions(max_read_delay=most))
    came: list[float] = []

    async def caller() -> None:
        for _ in range(calls // CALLERS):
            stream = connection.open_stream(request_(message=b"x"))
            assert await stream.receive_unary() == b"echo" and stream.status == OK
            came.append(trio.current_time())

    async def answer(stream_id: int, after: float) -> None:
        await trio.sleep(after)
        await server.answer(stream_id, b"echo")

    async def serve() -> None:
        while True:
            stream_id = await server.request()
            if took is None:
                await answer(stream_id, 0.000_3)
            else:
                nursery.start_soon(answer, stream_id, took())

    nursery.start_soon(serve)
    async with trio.open_nursery() as callers:
        for _ in range(CALLERS):
            callers.start_soon(caller)
    return came


@with_one_engine
async def test_callers_of_a_busy_server_wake_several_at_a_time(wire, request_, nursery, autojump_clock) -> None:
    came = await answered(wire, request_, nursery, took=None)
    last = came[-CALLS // 2 :]
    assert len(last) / len(set(last)) > 3


@with_one_engine
async def test_callers_of_a_busy_server_wake_several_at_a_time_also_if_some_wait_for_a_stream(
    wire, request_, nursery, autojump_clock
) -> None:
    came = await answered(wire, request_, nursery, took=None, streams=CALLERS - 3)
    last = came[-CALLS // 2 :]
    assert len(last) / len(set(last)) > 2


@with_one_engine
async def test_callers_of_a_busy_server_lose_no_time_by_waiting_together(
    wire, request_, nursery, autojump_clock
) -> None:
    came = await answered(wire, request_, nursery, took=None)
    assert came[-1] - came[0] == pytest.approx(CALLS * 0.000_3, rel=0.01)


@with_one_engine
async def test_callers_of_a_server_that_is_not_busy_lose_little_time(wire, request_, nursery, autojump_clock) -> None:
    random = Random(1)
    took = [random.uniform(0.003, 0.004) for _ in range(CALLS)]
    came = await answered(wire, request_, nursery, took=iter(took).__next__)
    assert came[-1] - came[0] == pytest.approx(sum(took) / CALLERS, rel=0.04)


@with_one_engine
async def test_answers_of_callers_come_one_by_one_where_the_reader_must_not_wait(
    wire, request_, nursery, autojump_clock
) -> None:
    came = await answered(wire, request_, nursery, took=None, most=0, calls=1000)
    assert len(set(came)) == 1000


@with_one_engine
async def test_the_reader_waits_no_longer_for_answers_that_do_not_come(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire(simulated=True, options=WireOptions(max_read_delay=0.003))
    came: list[float] = []

    async def caller() -> None:
        stream = connection.open_stream(request_(message=b"x"))
        while await stream.receive_unary() is not None:
            came.append(trio.current_time())
            stream = connection.open_stream(request_(message=b"x"))

    for _ in range(40):
        nursery.start_soon(caller)
    answered_at, last = [], []
    for number in range(2000):
        stream_id = await server.request()
        await trio.sleep(0.000_5)
        answered_at.append(trio.current_time())
        await server.answer(stream_id, b"echo")
        if number > 1000 and number % 101 == 0:
            last.append(number)
            await trio.sleep(0.05)
    await trio.sleep(0.05)
    delays = [came_at - at for came_at, at in zip(came, answered_at, strict=True)]
    assert max(delays[number] for number in last) > 0 and max(delays) < 0.003_1
    connection.close(unavailable("closed"))


async def test_a_connection_closed_while_answers_gather_ends_at_once(wire, request_, nursery, autojump_clock) -> None:
    connection, server = await wire(simulated=True, options=WireOptions(max_read_delay=1000))
    await trio.sleep(1)
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(40)]
    await trio.sleep(1000)
    for _ in range(16):
        await server.answer(await server.request())
        await trio.sleep(0.000_3)
    await wait_all_tasks_blocked()
    assert streams[15].status is None  # its answer is there, and gathers
    began = trio.current_time()
    connection.close(unavailable("closed"))
    for stream in streams[16:]:
        await stream.receive_unary()
    while nursery.child_tasks:
        await trio.lowlevel.checkpoint()
    assert trio.current_time() == began


async def test_a_server_that_goes_while_answers_gather_is_noticed_at_once(
    wire, request_, nursery, autojump_clock
) -> None:
    connection, server = await wire(simulated=True, options=WireOptions(max_read_delay=1000))
    await trio.sleep(1)
    streams = [connection.open_stream(request_(message=b"x")) for _ in range(40)]
    await trio.sleep(1000)
    for _ in range(16):
        await server.answer(await server.request())
        await trio.sleep(0.000_3)
    began = trio.current_time()
    await server.transport.aclose()
    await streams[39].receive_unary()
    assert streams[15].status == OK and not streams[39].status.ok and trio.current_time() == began
