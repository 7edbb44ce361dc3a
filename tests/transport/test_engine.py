"""The rules that both engines keep: the fast one and h2's pass the same tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines import receive_all

from trxds.transport.engine import Http2Engine
from trxds.transport.events import (
    ConnectionFailed,
    DataReceived,
    ErrorCode,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersTooLarge,
    PingAcked,
    SettingsReceived,
    StreamReset,
    WindowUpdated,
)
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.framing import frame as message_frame
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.options import WireOptions

FIXED = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))
REQUEST = list(FIXED)
RESPONSE = [(b":status", b"200")]
OPTIONS = WireOptions(stream_window=100_000, connection_window=200_000)


def h2_engine(options: WireOptions) -> H2LibraryEngine:
    return H2LibraryEngine(client=True, options=options)


both = pytest.mark.parametrize("make_client", [FastHttp2Engine, h2_engine])
"""The client's engine; the server's is always h2."""

MakeClient: TypeAlias = Callable[[WireOptions], Http2Engine]


class Pair:
    """A client's and a server's engine, and the bytes between them."""

    def __init__(self, make_client: MakeClient, options: WireOptions = OPTIONS) -> None:
        self.client = make_client(options)
        self.server = H2LibraryEngine(client=False, options=OPTIONS)
        self.exchange()

    def open_stream(self) -> int:
        return self.client.open_stream(FIXED, [], [])

    def to_server(self) -> list[Event]:
        return receive_all(self.server, self.client.outgoing.take())

    def to_client(self) -> Sequence[Event]:
        return receive_all(self.client, self.server.outgoing.take())

    def exchange(self) -> None:
        while self.client.outgoing.unsent or self.server.outgoing.unsent:
            self.to_server()
            self.to_client()


@pytest.fixture(params=[FastHttp2Engine, h2_engine])
def make_client(request: pytest.FixtureRequest) -> MakeClient:
    make: MakeClient = request.param
    return make


@pytest.fixture
def pair(make_client: MakeClient) -> Pair:
    return Pair(make_client)


def frame(kind: int, stream_id: int = 0, payload: bytes = b"", flags: int = 0, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return size.to_bytes(3) + bytes([kind, flags]) + stream_id.to_bytes(4) + payload


def test_each_engine_reports_the_peers_settings(make_client) -> None:
    client = make_client(OPTIONS)
    server = H2LibraryEngine(client=False, options=WireOptions(max_concurrent_streams=7))
    assert SettingsReceived() in client.receive(server.outgoing.take())
    assert client.peer_max_streams == 7


def test_engines_exchange_a_request_and_its_answer(pair: Pair) -> None:
    stream_id = pair.open_stream()
    pair.client.write(stream_id, memoryview(b"hello"), end=True, limit=100)
    assert pair.to_server() == [HeadersReceived(1, REQUEST, False), DataReceived(1, b"hello", 5, True)]
    pair.server.send_headers(stream_id, RESPONSE)
    pair.server.send_headers(stream_id, [(b"grpc-status", b"0")], end=True)
    assert pair.to_client() == [
        HeadersReceived(1, RESPONSE, False),
        HeadersReceived(1, [(b"grpc-status", b"0")], True),
    ]


def test_a_complete_request_leaves_with_its_headers_and_is_charged_to_both_windows(pair: Pair) -> None:
    room, window = pair.client.initial_data_limit(), pair.client.connection_window
    assert room == OPTIONS.max_frame  # the windows are wider
    stream_id = pair.client.open_stream(FIXED, [], [], b"hello")
    assert pair.client.connection_window == window - 10
    assert pair.to_server() == [HeadersReceived(1, REQUEST, False), DataReceived(1, message_frame(b"hello"), 10, True)]
    pair.server.send_headers(stream_id, [*RESPONSE, (b"grpc-status", b"0")], end=True)
    assert pair.to_client() == [HeadersReceived(1, [*RESPONSE, (b"grpc-status", b"0")], True)]


def test_the_initial_data_limit_is_bounded_by_the_connections_window(pair: Pair) -> None:
    for size in (100_000, 99_993):
        assert pair.client.write(pair.open_stream(), bytes(size), end=False, limit=10**6) == size
    assert pair.client.initial_data_limit() == pair.client.connection_window == 7


def test_uncached_headers_do_not_enter_the_compression_table(pair: Pair) -> None:
    sizes = set()
    for timeout in (b"1001m", b"1002m", b"1003m"):
        pair.client.open_stream(FIXED, [], [(b"grpc-timeout", timeout)])
        sizes.add(pair.client.outgoing.unsent)
        events = pair.to_server()
        assert isinstance(events[0], HeadersReceived) and (b"grpc-timeout", timeout) in events[0].headers
    table = pair.server._h2.decoder.header_table.dynamic_entries
    assert not any(b"grpc-timeout" in entry for entry in table)


def test_metadata_does_not_enter_the_compression_table(pair: Pair) -> None:
    pair.client.open_stream(FIXED, [(b"cookie", b"session=secret"), (b"user", b"7")], [])
    events = pair.to_server()
    assert isinstance(events[0], HeadersReceived) and (b"cookie", b"session=secret") in events[0].headers
    table = pair.server._h2.decoder.header_table.dynamic_entries
    assert not any(name in entry for entry in table for name in (b"cookie", b"user"))


def test_streams_go_on_after_a_goaway_and_queued_frames_are_still_sent(pair: Pair) -> None:
    stream_id = pair.open_stream()
    pair.exchange()
    pair.server.ping(b"12345678")
    pair.server.goaway(ErrorCode.NO_ERROR, b"bye")
    pair.server.send_headers(stream_id, RESPONSE)
    assert pair.to_client() == [GoAwayReceived(1, 0, b"bye"), HeadersReceived(1, RESPONSE, False)]
    pair.client.write(stream_id, memoryview(b"more"), end=True, limit=100)
    assert pair.to_server() == [PingAcked(b"12345678"), DataReceived(1, b"more", 4, True)]


def test_a_server_goes_away_in_two_steps(pair: Pair) -> None:
    pair.server.goaway(last_stream_id=2**31 - 1)
    assert pair.to_client() == [GoAwayReceived(2**31 - 1, 0, b"")]
    pair.open_stream()
    assert [type(event) for event in pair.to_server()] == [HeadersReceived]
    pair.server.goaway()
    assert pair.to_client() == [GoAwayReceived(1, 0, b"")]


def test_a_write_is_bounded_by_windows_and_limit(pair: Pair) -> None:
    data = memoryview(bytes(300_000))
    first, second = pair.open_stream(), pair.open_stream()
    assert pair.client.write(first, data, end=True, limit=30_000) == 30_000
    assert pair.client.write(first, data[30_000:], end=True, limit=10**6) == 70_000
    assert pair.client.stream_window(first) == 0
    assert pair.client.write(second, data, end=True, limit=10**6) == 100_000
    assert pair.client.connection_window == 0
    frames = [event for event in pair.to_server() if isinstance(event, DataReceived)]
    assert sum(len(event.data) for event in frames) == 200_000
    assert max(len(event.data) for event in frames) <= OPTIONS.max_frame
    assert not any(event.end for event in frames)


def test_end_stream_leaves_with_the_last_byte(pair: Pair) -> None:
    stream_id = pair.open_stream()
    assert pair.client.write(stream_id, memoryview(b"abc"), end=True, limit=2) == 2
    assert pair.client.write(stream_id, memoryview(b"c"), end=True, limit=2) == 1
    events = [(event.data, event.flow_length, event.end) for event in pair.to_server()[1:]]
    assert events == [(b"ab", 2, False), (b"c", 1, True)]


def test_end_stream_alone_needs_no_window(pair: Pair) -> None:
    stream_id = pair.open_stream()
    pair.client.write(stream_id, memoryview(bytes(100_000)), end=False, limit=10**6)
    assert pair.client.write(stream_id, memoryview(b""), end=True, limit=0) == 0
    assert pair.to_server()[-1] == DataReceived(1, b"", 0, True)


def test_end_stream_alone_needs_no_window_even_if_it_is_negative(make_client) -> None:
    client = make_client(OPTIONS)
    stream_id = client.open_stream(FIXED, [], [])
    client.write(stream_id, memoryview(bytes(1000)), end=False, limit=10**6)
    server = H2LibraryEngine(client=False, options=WireOptions(stream_window=100))
    client.receive(server.outgoing.take())
    assert client.stream_window(stream_id) < 0
    client.outgoing.take()
    client.write(stream_id, memoryview(b""), end=True, limit=10**6)
    assert client.outgoing.take() == frame(0, stream_id, flags=1)


def test_a_window_update_reaches_the_peer(pair: Pair) -> None:
    stream_id = pair.open_stream()
    pair.client.write(stream_id, memoryview(bytes(100_000)), end=False, limit=10**6)
    pair.to_server()
    pair.server.increment_window(stream_id, 100)
    before = pair.client.connection_window
    pair.server.increment_window(0, 50)
    assert pair.to_client()[0] == WindowUpdated(1)
    assert pair.client.stream_window(1) == 100 and pair.client.connection_window == before + 50


def test_a_reset_reaches_the_peer_and_a_second_one_is_not_sent(pair: Pair) -> None:
    stream_id = pair.open_stream()
    pair.client.reset(stream_id, ErrorCode.CANCEL)
    pair.client.reset(stream_id, ErrorCode.CANCEL)
    assert pair.to_server() == [HeadersReceived(1, REQUEST, False), StreamReset(1, 8)]


def test_headers_above_the_limit_cost_their_stream_and_leave_the_compression_table_in_step(make_client) -> None:
    pair = Pair(make_client, WireOptions(max_header_list=1000))
    first, second = pair.open_stream(), pair.open_stream()
    pair.exchange()
    large = [(b":status", b"200"), (b"x-kept", b"a"), (b"x-long", b"y" * 1000)]
    pair.server.send_headers(first, large)
    pair.server.send_headers(second, large[:2])
    size = sum(32 + len(name) + len(value) for name, value in large)
    assert pair.to_client() == [HeadersTooLarge(first, size), HeadersReceived(second, large[:2], False)]


def test_a_limit_below_the_size_of_any_field_allows_no_headers(make_client) -> None:
    pair = Pair(make_client, WireOptions(max_header_list=1))
    stream_id = pair.open_stream()
    pair.exchange()
    pair.server.send_headers(stream_id, [(b"a", b"b")])
    [event] = pair.to_client()
    assert isinstance(event, HeadersTooLarge) and 1 < event.size <= 34


def test_headers_far_above_the_limit_cost_their_stream_as_well(make_client) -> None:
    pair = Pair(make_client, WireOptions(max_header_list=1000))
    first, second = pair.open_stream(), pair.open_stream()
    pair.exchange()
    kept = [(b":status", b"200"), (b"x-kept", b"a")]
    pair.server.send_headers(
        first, [*kept, *((b"x-%d" % number, b"y" * 50_000) for number in range(9)), (b"x-new", b"b")]
    )
    pair.server.send_headers(second, [*kept, (b"x-new", b"b")])
    events = pair.to_client()
    assert [event for event in events if isinstance(event, HeadersTooLarge)] == events[:1]
    assert events[1:] == [HeadersReceived(second, [*kept, (b"x-new", b"b")], False)]


def test_acknowledgements_are_counted_as_control_bytes(pair: Pair) -> None:
    pair.client.receive(frame(6, payload=b"12345678") * 10)
    assert pair.client.outgoing.control_unsent == pair.client.outgoing.unsent == 170
    pair.open_stream()
    assert pair.client.outgoing.control_unsent == 170 < pair.client.outgoing.unsent
    pair.client.outgoing.take()
    assert pair.client.outgoing.control_unsent == pair.client.outgoing.unsent == 0


def test_closed_streams_do_not_accumulate_in_the_engine(pair: Pair) -> None:
    for _ in range(500):
        stream_id = pair.open_stream()
        pair.client.write(stream_id, memoryview(b""), end=True, limit=0)
        pair.to_server()
        pair.server.send_headers(stream_id, RESPONSE, end=True)
        pair.to_client()
    streams = pair.client._streams.open if isinstance(pair.client, FastHttp2Engine) else pair.client._h2.streams
    assert len(streams) < 100


# -- peers that speak something else


def test_an_http1_answer_is_recognized_at_once(make_client) -> None:
    client = make_client(OPTIONS)
    (event,) = client.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(event, ConnectionFailed) and event.code == ErrorCode.FRAME_SIZE_ERROR
    assert event.message == "it does not speak HTTP/2: its first bytes are HTTP/1, not a SETTINGS frame"


def test_an_absurd_frame_is_refused_by_its_header_alone_even_in_two_pieces(pair: Pair) -> None:
    header = frame(0, 1, length=OPTIONS.max_frame + 1)
    assert pair.client.receive(header[:4]) == []
    (event,) = pair.client.receive(header[4:])
    assert event == ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "frame of 65537 bytes, where 65536 were agreed on")
    assert isinstance(pair.to_server()[-1], GoAwayReceived)


def test_a_protocol_error_is_an_event_and_our_goaway(pair: Pair) -> None:
    (event,) = pair.client.receive(frame(0, 0, b"data on stream 0"))
    assert isinstance(event, ConnectionFailed) and event.code == ErrorCode.PROTOCOL_ERROR
    assert isinstance(pair.to_server()[-1], GoAwayReceived)


any_frame = st.tuples(st.integers(0, 12), st.sampled_from([0, 1, 2, 3, 5]), st.binary(max_size=20), st.integers(0, 255))


@both
@settings(deadline=None)
@given(frames=st.lists(any_frame))
def test_arbitrary_frames_never_raise(make_client: MakeClient, frames: list[tuple[int, int, bytes, int]]) -> None:
    pair = Pair(make_client)
    pair.open_stream()
    for kind, stream_id, payload, flags in frames:
        if any(
            isinstance(event, ConnectionFailed) for event in pair.client.receive(frame(kind, stream_id, payload, flags))
        ):
            break


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    for engine in (FastHttp2Engine(OPTIONS), h2_engine(OPTIONS), H2LibraryEngine(client=False, options=OPTIONS)):
        engine.receive(data)


def ended_in_the_same_read(pair: Pair, how: str) -> int:
    """Return a stream whose end the client has read together with the event that it handles next."""
    stream_id = pair.open_stream()
    if how == "trailers":
        pair.client.write(stream_id, memoryview(b""), end=True, limit=0)
    pair.to_server()
    pair.server.send_headers(stream_id, RESPONSE)
    pair.server.write(stream_id, memoryview(b"a message"), end=False, limit=100)
    if how == "trailers":
        pair.server.send_headers(stream_id, [(b"grpc-status", b"0")], end=True)
    else:
        pair.server.reset(stream_id, ErrorCode.CANCEL)
    pair.to_client()
    return stream_id


@pytest.mark.parametrize("how", ["trailers", "reset"])
def test_the_window_of_a_stream_that_ended_in_the_same_read_is_not_given_back(pair: Pair, how: str) -> None:
    stream_id = ended_in_the_same_read(pair, how)
    pair.client.increment_window(stream_id, 9)
    assert pair.client.outgoing.take() == b""


def test_a_stream_that_was_reset_in_the_same_read_is_not_written_to(pair: Pair) -> None:
    stream_id = ended_in_the_same_read(pair, "reset")
    assert pair.client.write(stream_id, memoryview(b"more"), end=True, limit=100) == 0
    assert pair.client.write(stream_id, memoryview(b""), end=True, limit=100) == 0
    assert pair.client.outgoing.take() == b""


def test_a_forgotten_stream_has_no_window(pair: Pair) -> None:
    assert pair.client.stream_window(1) == 0
