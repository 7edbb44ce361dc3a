"""Small messages of a lone stream are read together where they come fast, and are delayed seldom where they stop."""

from __future__ import annotations

from math import ceil

import pytest
import trio

from trxds.transport.framing import frame
from trxds.transport.options import WireOptions
from trxds.transport.stream_gathering import StreamGathering

SIZE = 114  # bytes of a message


class Stream:
    """Reads of a stream whose server sends a message so often; the reader waits as it is told."""

    def __init__(self, *, most: float = 0.003) -> None:
        self.gathering = StreamGathering(most)
        self.now = 100.0
        self.wait = (0, 0.0)

    def read(self, messages: int, *, after: float) -> None:
        self.now += after
        self.wait = self.gathering.gather(messages * SIZE, self.now)

    def counts(self, *, every: float, reads: int = 200, at_least: int = 1) -> list[int]:
        """Return how many messages each read had."""
        counts = []
        for _ in range(reads):
            messages = max(at_least, ceil(self.wait[0] / SIZE))
            self.read(messages, after=messages * every)
            counts.append(messages)
        return counts


def test_messages_of_half_a_millisecond_are_read_together() -> None:
    assert Stream().counts(every=0.000_05)[-10:].count(10) >= 9


def test_messages_that_come_slowly_are_read_one_by_one() -> None:
    assert set(Stream().counts(every=0.000_2)) == {1}


def test_messages_that_come_together_anyway_are_not_waited_for() -> None:
    stream = Stream()
    stream.counts(every=0.000_05, at_least=5)
    assert stream.wait == (0, 0.0)


def test_one_read_in_sixteen_does_not_wait_for_messages() -> None:
    assert Stream().counts(every=0.000_05)[-160:].count(1) == 10


def test_no_more_than_eight_kib_of_messages_are_waited_for() -> None:
    stream = Stream()
    stream.counts(every=0.000_001)
    assert stream.wait == (8192, 0.001)


@pytest.mark.parametrize("most", [0, 0.000_1])
def test_messages_are_waited_for_no_longer_than_the_longest_delay(most: float) -> None:
    stream = Stream(most=most)
    stream.counts(every=0.000_005, reads=100)
    assert stream.wait[1] == most


def test_messages_are_not_waited_for_on_a_clock_that_stands_still() -> None:
    stream = Stream()
    stream.counts(every=0, reads=20)
    assert stream.wait == (0, 0.0)


def test_a_wait_in_vain_ends_waiting_for_ten_milliseconds() -> None:
    stream = Stream()
    stream.counts(every=0.000_05)
    assert stream.wait[0] > SIZE
    stream.read(1, after=0.001)
    assert set(stream.counts(every=0.000_05, reads=199)) == {1}
    assert max(stream.counts(every=0.000_05, reads=10)) == 10


def test_a_stream_in_bursts_is_waited_for_in_vain_hardly_more_than_once_a_second() -> None:
    stream, in_vain = Stream(), 0
    began = stream.now
    for _ in range(2000):
        for _ in range(40):
            # The last wait of a burst is for messages that do not come in time.
            in_vain += stream.wait[0] > SIZE
            stream.read(1, after=0.000_05)
        stream.read(1, after=0.003)
    assert in_vain < 1.2 * (stream.now - began) + 8


# -- a connection


async def test_streams_one_after_the_other_are_read_as_one_long_stream_is(wire, request_, autojump_clock) -> None:
    connection, server = await wire(simulated=True)
    wakings = 0
    for _ in range(20):
        stream = connection.open_stream(request_(message=b"x", one_reply=False))
        stream_id = await server.request()
        server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
        arrived = set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_messages, server, stream_id, 300, True)
            while await stream.receive() is not None:
                arrived.add(trio.current_time())
        wakings += len(arrived)
    assert wakings < 20 * 300 / 4


async def test_messages_that_come_fast_wake_their_reader_together(wire, request_, autojump_clock) -> None:
    connection, server = await wire(simulated=True)
    stream = connection.open_stream(request_(message=b"x", one_reply=False))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    arrived = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_messages, server, stream_id, 500)
        for _ in range(500):
            assert await stream.receive() == b"news"
            arrived.append(trio.current_time())
    assert len(set(arrived[-200:])) < 200 / 5


async def test_the_last_messages_of_a_stream_wait_a_millisecond_at_most(wire, request_, autojump_clock) -> None:
    connection, server = await wire(simulated=True)
    stream = connection.open_stream(request_(message=b"x", one_reply=False))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    waited = []
    for count in range(100, 120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_messages, server, stream_id, count)
            for _ in range(count):
                await stream.receive()
        waited.append(trio.current_time() - server.sent_at)
    assert 0 < max(waited) < 0.001_01


async def test_messages_come_one_by_one_where_the_reader_must_not_wait(wire, request_, autojump_clock) -> None:
    connection, server = await wire(simulated=True, options=WireOptions(max_read_delay=0))
    stream = connection.open_stream(request_(message=b"x", one_reply=False))
    stream_id = await server.request()
    server.h2.send_headers(stream_id, [(":status", "200"), ("content-type", "application/grpc")])
    arrived = set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_messages, server, stream_id, 200)
        for _ in range(200):
            await stream.receive()
            arrived.add(trio.current_time())
    assert len(arrived) == 200


async def send_messages(server, stream_id: int, count: int, end: bool = False) -> None:
    for _ in range(count):
        await trio.sleep(0.000_05)
        server.sent_at = trio.current_time()
        server.h2.send_data(stream_id, frame(b"news"))
        await server.flush()
    if end:
        server.h2.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)
        await server.flush()
