"""Bytes from a server: frames, header blocks, messages, and the fields around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import hpack
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RichStatus
from msgspec import structs
from support.engines import parts_of, receive_all

from trxds.core.metadata import decode, decode_message, encode_message
from trxds.core.status import Status, StatusCode
from trxds.resources.orca import chosen_metrics, load_report
from trxds.resources.protos import OrcaLoadReport
from trxds.transport import frames
from trxds.transport.compression import Compressed, compress, decompress
from trxds.transport.engine import Http2Engine
from trxds.transport.events import ConnectionFailed, DataReceived, Event, HeadersReceived
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.frames import Http2ProtocolError
from trxds.transport.framing import Deframer, frame
from trxds.transport.grpc_timeout import decode_timeout, encode_timeout
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.header_blocks import BlockDecoder, list_size
from trxds.transport.options import WireOptions
from trxds.transport.response import headers_error, rst_stream_status, trailers_status

from .target import Target

OPTIONS = WireOptions(stream_window=1000, connection_window=65_535, max_frame=16_384, max_header_list=2000)
REQUEST = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))
ANSWER = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TRAILERS = [(b"grpc-status", b"5"), (b"grpc-message", b"no%20cart"), (b"x-bin", b"AAE")]


def _cut(data: bytes) -> Iterator[bytes]:
    """In pieces, whose sizes the data itself decides: they are part of what is looked for."""
    while data:
        size = 1 + data[0] % 64
        yield data[:size]
        data = data[size:]


_A_FEW_FIELDS = b":status=200\ncontent-type=application/grpc\ngrpc-status=0\nx-bin=AAE,AA=="


# -- HTTP/2


def _client(make: Callable[[], Http2Engine]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        whole, cut = _events(make(), [data]), _events(make(), _cut(data))
        assert _told(whole) == _told(cut), "what bytes mean depends on how they are cut"

    return run


def _events(engine: Http2Engine, pieces: list[bytes] | Iterator[bytes]) -> list[Event]:
    """What an engine with three streams makes of it, until it is broken; what it must keep is bounded."""
    for _ in range(3):
        engine.open_stream(REQUEST, [], [])
    engine.outgoing.take()
    events: list[Event] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        for event in receive_all(engine, piece):
            events += parts_of(event)
        if events and isinstance(events[-1], ConnectionFailed):
            break
    assert engine.outgoing.unsent <= 300 + 4 * size, "more to say than was asked"
    for event in events:
        assert not isinstance(event, HeadersReceived) or list_size(event.headers) <= OPTIONS.max_header_list
    return events


def _told(events: list[Event]) -> list[object]:
    """h2 says nothing of a read in which it broke, so the last word may hide those before it.

    A large DATA frame is passed on in the parts in which it came, so the data of a stream counts as one.
    """
    if events and isinstance(events[-1], ConnectionFailed):
        return ["broken"]
    told: list[object] = []
    for event in events:
        last = told[-1] if told else None
        if isinstance(event, DataReceived):
            event = structs.replace(event, data=bytes(event.data))
            if isinstance(last, DataReceived) and last.stream_id == event.stream_id and not last.end:
                size = last.flow_length + event.flow_length
                told[-1] = DataReceived(event.stream_id, bytes(last.data) + event.data, size, event.end)
                continue
        told.append(event)
    return [event for event in told if not isinstance(event, DataReceived) or event.data or event.end]


def _server(data: bytes) -> None:
    engine = H2LibraryEngine(client=False, options=OPTIONS)
    for piece in _cut(frames.PREFACE + data):
        events = receive_all(engine, piece)
        if events and isinstance(events[-1], ConnectionFailed):
            break


def _answer() -> bytes:
    encoder = hpack.Encoder()

    def headers(fields: list[tuple[bytes, bytes]], flags: int) -> bytes:
        block = encoder.encode(fields)
        return frames.head(len(block), frames.HEADERS, flags, 1) + block

    message = frame(b"added")
    data = frames.head(len(message), frames.DATA, 0, 1) + message
    return frames.settings({4: 100, 3: 1}) + headers(ANSWER, 4) + data + headers(TRAILERS, 5)


def _dialogue() -> bytes:
    ping = frames.head(8, frames.PING, 0, 0) + b"01234567"
    rest = frames.uint32_frame(frames.WINDOW_UPDATE, 0, 9) + frames.uint32_frame(frames.RST_STREAM, 3, 8)
    return _answer() + ping + rest + frames.goaway(1, 0, b"bye")


def _in_pieces() -> bytes:
    """Headers in two frames, with a priority that nobody heeds; and last, a push that nobody wanted."""
    block = hpack.Encoder().encode(ANSWER)
    ours = frames.head(10, frames.HEADERS, frames.WITH_PRIORITY, 1) + bytes(5) + block[:5]
    rest = frames.head(len(block) - 5, frames.CONTINUATION, frames.END_HEADERS, 1) + block[5:]
    priority = frames.head(5, frames.PRIORITY, 0, 3) + bytes(5)
    return frames.settings({}) + priority + ours + rest + frames.head(4, frames.PUSH_PROMISE, 4, 1) + bytes(4)


def _block(data: bytes) -> None:
    decoder = BlockDecoder(OPTIONS.header_list_bound)
    for piece in _cut(data):
        try:
            block = decoder.decode(piece)
        except Http2ProtocolError:
            return
        is_dropped = not block.headers and block.size > OPTIONS.header_list_bound
        assert is_dropped or block.size == list_size(block.headers) <= OPTIONS.header_list_bound


# -- messages


def _messages(data: bytes) -> None:
    whole, cut = Deframer(1000), Deframer(1000)
    problem = whole.feed(data)
    problem_cut = next(filter(None, map(cut.feed, _cut(data))), None)
    assert (problem is None) == (problem_cut is None)
    assert whole.buffered == len(data)
    messages = list(iter(whole.take, None))
    assert messages == list(iter(cut.take, None))
    assert all(len(message) <= 1000 for message in messages)


def _compressed(data: bytes) -> None:
    for encoding in ("gzip", "deflate"):
        whole = decompress(Compressed(data), encoding, 1000)
        assert isinstance(whole, Status) or len(whole) <= 1000
        back = compress(data, encoding)
        assert back == data or decompress(Compressed(back), encoding, len(data)) == data


# -- fields


def _fields(data: bytes) -> None:
    """Header fields, one to a line, as they stand around messages."""
    fields = [(name.lower(), value) for name, _, value in (line.partition(b"=") for line in data.split(b"\n"))]
    for status in (headers_error(fields, "peer"), trailers_status(fields, "peer")):
        assert status is None or isinstance(status, Status)
    for name, value in decode(fields):
        assert isinstance(value, bytes) is name.endswith("-bin")


def _texts(data: bytes) -> None:
    """grpc-message and grpc-timeout, and the codes of resets."""
    message = decode_message(data)
    if "�" not in message:
        assert decode_message(encode_message(message)) == message
    seconds = decode_timeout(data)
    if seconds:
        again = decode_timeout(encode_timeout(seconds))
        assert again is not None and math.isclose(again, seconds, rel_tol=1e-6)
    rst_stream_status(int.from_bytes(data[:4]), deadline_passed=False)


def _details(data: bytes) -> None:
    """What a status says besides its code."""
    status = Status(StatusCode.NOT_FOUND, details=data)
    info = status.detail(ErrorInfo)
    assert info is None or status.rich is not None


def _some_details() -> bytes:
    rich = RichStatus(code=5, message="no cart")
    rich.details.add().Pack(ErrorInfo(reason="NO_CART", domain="shop"))
    return bytes(rich.SerializeToString())


def _orca(data: bytes) -> None:
    load_report(data)
    for name, number in chosen_metrics(data, frozenset({"cpu_utilization", "named_metrics.*"})):
        assert isinstance(name, str) and isinstance(number, float)


def _a_report() -> bytes:
    report = OrcaLoadReport(cpu_utilization=0.5, rps_fractional=3, named_metrics={"queue": 0.1})
    return bytes(report.SerializeToString())


_SOME_GZIP = [bytes(compress(bytes(500), "gzip")), bytes(compress(bytes(2000), "deflate"))]

TARGETS = [
    Target("engine_lean", _client(lambda: FastHttp2Engine(OPTIONS)), [_answer(), _dialogue(), _in_pieces()]),
    Target(
        "engine_h2",
        _client(lambda: H2LibraryEngine(client=True, options=OPTIONS)),
        [_answer(), _dialogue(), _in_pieces()],
    ),
    Target("engine_h2_server", _server, [_dialogue()]),
    Target("header_blocks", _block, [hpack.Encoder().encode(ANSWER), hpack.Encoder().encode(TRAILERS, False)]),
    Target("messages", _messages, [frame(b"one") + frame(b"") + frame(bytes(100))]),
    Target("compressed", _compressed, _SOME_GZIP),
    Target("fields", _fields, [_A_FEW_FIELDS]),
    Target("texts", _texts, [b"no%20cart%e2%82%ac", b"100m", b"99999999H"]),
    Target("details", _details, [_some_details()]),
    Target("orca", _orca, [_a_report()]),
]
