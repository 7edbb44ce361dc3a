"""Windows grow where round trips are long, and only there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.hostile.peer import Peer, message, script
from support.hostile.stage import perform

from trxds.core.status import StatusCode
from trxds.transport.engine import Http2Engine
from trxds.transport.events import DataReceived
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.flow_control import BDP_PING, FlowControl
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.options import WireOptions
from trxds.transport.window_estimate import WindowEstimate

# -- the estimate


def sampled(estimate: WindowEstimate, sample: int, seconds: float = 0.01) -> bool:
    """Begin a sample, and end it after so many bytes; return whether the window has grown."""
    assert estimate.begin_sample(1000, 5.0)
    return estimate.end_sample(1000 + sample, 5.0 + seconds)


def test_a_window_that_was_full_for_a_round_trip_grows_to_twice_the_sample() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 280) and estimate.window == 560


def test_a_window_that_was_not_full_does_not_grow() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert not sampled(estimate, 199) and estimate.window == 300


def test_a_full_window_without_more_bandwidth_does_not_grow() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 300, seconds=0.01)
    assert not sampled(estimate, 600, seconds=0.03) and estimate.window == 600


def test_two_thirds_of_a_window_without_less_bandwidth_are_enough_to_grow() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 200, seconds=0.5) and estimate.window == 400
    assert sampled(estimate, 400, seconds=1.0) and estimate.window == 800


def test_the_best_bandwidth_is_forgotten_slowly() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 300, seconds=0.5)  # 600 bytes a second
    assert not sampled(estimate, 600, seconds=2.0)
    assert not estimate.begin_sample(0, 0.0)  # a chance that is skipped
    assert not sampled(estimate, 600, seconds=1.9)  # more than the last one, and less than nine tenths of the best


def test_a_window_estimate_at_its_maximum_sends_no_more_pings() -> None:
    estimate = WindowEstimate(300, 500)
    assert sampled(estimate, 300) and estimate.window == 500
    assert not estimate.begin_sample(0, 0.0)


def test_a_window_estimate_has_one_unanswered_ping_at_a_time() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert estimate.begin_sample(0, 0.0) and not estimate.begin_sample(100, 0.1)


def test_a_burst_counts_from_its_beginning_whenever_in_it_the_ping_leaves() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 300) and estimate.window == 600
    assert not sampled(estimate, 300, seconds=0.02)  # sent under the old window; the next chance is skipped
    assert not estimate.begin_sample(2000, 6.0)  # a burst of 600: half of it, for which no PING leaves,
    assert estimate.begin_sample(2300, 6.0001)  # and the other half
    assert estimate.end_sample(2600, 6.01) and estimate.window == 1200


def test_a_burst_is_over_after_a_part_of_a_round_trip() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 300)
    assert not sampled(estimate, 300, seconds=0.02)
    assert not estimate.begin_sample(2000, 6.0)
    assert estimate.begin_sample(2300, 6.005)
    assert not estimate.end_sample(2600, 6.015)


def test_one_slow_answer_makes_no_burst_longer() -> None:
    estimate = WindowEstimate(300, 10_000)
    assert sampled(estimate, 300, seconds=0.01)
    assert not sampled(estimate, 300, seconds=1.0)
    assert not estimate.begin_sample(2000, 6.0)
    assert estimate.begin_sample(2300, 6.005)  # after half a round trip: another burst
    assert not estimate.end_sample(2600, 6.015)


def test_an_answer_to_another_ping_changes_no_window() -> None:
    assert not WindowEstimate(300, 10_000).end_sample(10_000, 1.0)


async def test_windows_grow_by_what_came_since_the_stream_was_at_its_end_and_the_connection_has_two_of_them(
    autojump_clock,
) -> None:
    class Engine:
        """Notes how far windows are opened."""

        def __init__(self) -> None:
            self.initial_window = 0
            self.of_connection: list[int] = []

        def increment_window(self, stream_id: int, size: int) -> None:
            if not stream_id:
                self.of_connection.append(size)

        def update_initial_window(self, size: int) -> None:
            self.initial_window = size

        def ping(self, payload: bytes) -> None:
            assert payload == BDP_PING

    engine: Any = Engine()
    options = WireOptions(stream_window=60_000, connection_window=100_000, max_stream_window=1_000_000)
    flow = FlowControl(engine, options)
    flow.count_received(10_000)
    flow.open_stream_window(1, 10_000)
    flow.count_received(30_000)
    assert engine.of_connection == [40_000]
    flow.ping_acked(BDP_PING)
    assert engine.initial_window == 80_000, "twice the 40,000 bytes from the stream's window on"
    assert engine.of_connection == [40_000, 60_000], "from 100,000 to 160,000"


def test_a_window_estimate_without_growth_pings_less_and_less() -> None:
    estimate, asked = WindowEstimate(300, 10_000), []
    for chance in range(200):
        if estimate.begin_sample(0, 0.0):
            asked.append(chance)
            estimate.end_sample(10, 0.01)
    assert asked == [0, 2, 6, 14, 30, 62, 126, 190]


def test_a_window_estimate_asks_often_again_after_growth() -> None:
    estimate = WindowEstimate(300, 10_000)
    for skipped in (0, 1, 3):
        assert not any(estimate.begin_sample(0, 0.0) for _ in range(skipped))
        assert not sampled(estimate, 10)
    assert not any(estimate.begin_sample(0, 0.0) for _ in range(7))
    assert sampled(estimate, 300, seconds=0.001)
    assert not sampled(estimate, 10)
    assert not estimate.begin_sample(0, 0.0) and estimate.begin_sample(0, 0.0)


# -- the flow control of a connection


class Windows:
    """An engine that notes by how much windows were opened."""

    def __init__(self) -> None:
        self.opened: Counter[int] = Counter()
        self.initial = 0
        self.pings: list[bytes] = []

    def increment_window(self, stream_id: int, size: int) -> None:
        self.opened[stream_id] += size

    def update_initial_window(self, size: int) -> None:
        self.initial = size

    def ping(self, payload: bytes) -> None:
        self.pings.append(payload)


async def test_the_connections_window_grows_with_the_streams(mock_clock) -> None:
    windows: Any = Windows()
    flow = FlowControl(windows, WireOptions(stream_window=100, max_stream_window=10_000, connection_window=300))
    received = 0
    for size in (100, 700):
        flow.count_received(size)
        flow.open_stream_window(1, size)
        flow.count_received(size)
        received += 2 * size
        mock_clock.jump(0.01)
        flow.ping_acked(windows.pings[-1])
        # Room for two streams (`FlowControl`), besides what was given back of the bytes that came.
        assert windows.opened[0] - received == 2 * windows.initial - 300
        assert flow.stream_threshold == windows.initial // 2
        mock_clock.jump(1)
    assert windows.initial == 2800 and len(windows.pings) == 2


async def test_keepalives_answer_measures_nothing(mock_clock) -> None:
    windows: Any = Windows()
    flow = FlowControl(windows, WireOptions(stream_window=100, max_stream_window=10_000, connection_window=300))
    flow.count_received(100)
    flow.open_stream_window(1, 100)
    mock_clock.jump(0.01)
    flow.ping_acked(b"alive??!")
    assert flow.is_measuring() and not windows.initial


# -- the engines


@pytest.mark.parametrize("lean", [True, False])
def test_a_larger_window_holds_for_open_and_new_streams(lean: bool) -> None:
    options = WireOptions(stream_window=1000, connection_window=200_000)
    client: Http2Engine = FastHttp2Engine(options) if lean else H2LibraryEngine(client=True, options=options)
    server = H2LibraryEngine(client=False, options=options)
    fields = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))

    def exchange() -> int:
        """Return how much data the client was sent."""
        server.receive(client.outgoing.take())
        events = client.receive(server.outgoing.take())
        server.receive(client.outgoing.take())
        return sum(len(event.data) for event in events if isinstance(event, DataReceived))

    def answer(stream_id: int) -> None:
        server.send_headers(stream_id, [(b":status", b"200")])
        server.write(stream_id, memoryview(bytes(9000)), end=False, limit=10_000)

    first = client.open_stream(fields, [], [])
    exchange()
    answer(first)
    assert exchange() == 1000
    client.update_initial_window(5000)
    exchange()
    exchange()
    server.write(first, memoryview(bytes(9000)), end=False, limit=10_000)
    assert exchange() == 4000
    second = client.open_stream(fields, [], [])
    exchange()
    answer(second)
    assert exchange() == 5000


# -- a connection


@pytest.mark.parametrize("lean", [True, False])
async def test_large_messages_widen_the_window_up_to_its_maximum(lean: bool, autojump_clock) -> None:
    windows = []

    @script(calls=4)
    async def large_messages(peer: Peer) -> None:
        for _ in range(4):
            stream = await peer.request()
            await peer.headers(stream)
            await peer.crumbs(stream, message(bytes(1_000_000)), 16_000)
            await peer.trailers(stream)
            windows.append(peer.initial_window)

    options = WireOptions(stream_window=65_536, max_stream_window=300_000, lean=lean)
    outcome = await perform(large_messages, options)
    assert {status.code for status in outcome.statuses} == {StatusCode.OK}
    assert windows[0] > 65_536 and windows[-1] <= 300_000


async def test_small_rpcs_send_no_ping(autojump_clock) -> None:
    @script(calls=200)
    async def small_messages(peer: Peer) -> None:
        for _ in range(200):
            await peer.answer(await peer.request(), bytes(1000))

    outcome = await perform(small_messages, WireOptions())
    assert outcome.peers[0].heard[6] == 0
