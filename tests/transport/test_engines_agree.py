"""Both engines read the same bytes and must report the same events: h2 is the reference for the fast one.

Where RFC 9113 leaves a choice and the two choose differently, `agree` notes it and the script ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hpack
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.engines import parts_of, receive_all

from trxds.transport import frames
from trxds.transport.engine import Http2Engine
from trxds.transport.events import ConnectionFailed, ErrorCode, Event, StreamFailed, WindowUpdated
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.framing import PREFIX_SIZE, frame
from trxds.transport.h2_engine import H2LibraryEngine
from trxds.transport.options import WireOptions

FIXED = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"), (b":authority", b"a"))
OPTIONS = WireOptions(stream_window=1000, connection_window=65_535, max_frame=16_384, max_header_list=2000)
RESPONSE = [(b":status", b"200"), (b"content-type", b"application/grpc")]
BLOCKS = [
    RESPONSE,
    [(b"grpc-status", b"0")],
    [(b":status", b"200"), (b"grpc-status", b"5"), (b"grpc-message", b"none")],
    [(b":status", b"100")],
    [(b"early", b"1"), (b":status", b"103")],
    [(b"long", b"x" * 1990)],
    [*RESPONSE, (b"content-length", b"7")],
    [(b"X-Capitals", b"\0"), (b":path", b"/"), (b"connection", b"close")],
]

streams = st.sampled_from([1, 1, 1, 3, 3, 5, 0])
flags = st.sampled_from([0, 1, 4, 5, 8, 13, 0x20, 0x2D])
kinds = st.sampled_from([0, 1, 2, 3, 4, 6, 7, 8, 9, 11])
words = st.integers(0, 2**31 - 1) | st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1, 65_535])
setting = st.tuples(st.integers(0, 7) | st.just(4), words | st.just(20_000))


def sized(payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return payloads that mostly have the right size."""
    return st.one_of(payloads, payloads, payloads, st.binary(max_size=10))


word_payloads = sized(words.map(lambda word: word.to_bytes(4)))
eight = st.binary(min_size=8, max_size=8)
ANSWERS = [b"", b"x", frame(b""), frame(bytes(600)), bytes(600)]
frame_actions = st.one_of(
    st.tuples(st.just("headers"), streams, st.sampled_from(range(len(BLOCKS))), st.booleans()),
    st.tuples(st.just("answer"), streams, st.sampled_from(range(len(BLOCKS))), st.sampled_from(ANSWERS),
              st.sampled_from(range(len(BLOCKS)))),
    st.tuples(st.just("answer"), streams, st.just(0), st.sampled_from(ANSWERS), st.just(1)),
    st.tuples(st.just("cut headers"), streams, st.sampled_from(range(len(BLOCKS))), st.booleans()),
    st.tuples(st.just("frame"), st.just(0), st.sampled_from([0, 1]), streams, st.binary(max_size=30)),
    st.tuples(st.just("frame"), st.just(0), st.sampled_from([0, 1, 8, 9]), streams, st.just(b"\x05" + bytes(600))),
    st.tuples(st.just("frame"), st.just(1), flags, streams, st.binary(max_size=12)),
    st.tuples(st.just("frame"), st.just(3), st.just(0), streams, word_payloads),
    st.tuples(st.just("frame"), st.just(4), st.just(0), st.just(0), st.lists(setting).map(dict).map(
        lambda values: frames.settings(values)[9:])),
    st.tuples(st.just("frame"), st.just(6), st.sampled_from([0, 1]), st.just(0), sized(eight)),
    st.tuples(st.just("frame"), st.just(7), st.just(0), st.just(0), sized(st.binary(min_size=8, max_size=12))),
    st.tuples(st.just("frame"), st.just(8), st.just(0), streams, word_payloads),
    st.tuples(st.just("frame"), kinds, flags, streams, st.binary(max_size=12)),
)  # fmt: skip
client_actions = st.one_of(
    st.tuples(st.just("open")),
    st.tuples(st.just("ask"), st.sampled_from([1, 10, 16_384])),
    st.tuples(st.just("write"), st.sampled_from([1, 3, 5]), st.sampled_from([0, 10, 100_000]), st.booleans()),
    st.tuples(st.just("credit"), st.sampled_from([0, 1, 3]), st.just(600)),
    st.tuples(st.just("reset"), st.sampled_from([1, 3, 5])),
)


class Both:
    """The two engines, and a server's compressor for the headers that they are sent."""

    def __init__(self) -> None:
        self.lean: Http2Engine = FastHttp2Engine(OPTIONS)
        self.h2: Http2Engine = H2LibraryEngine(client=True, options=OPTIONS)
        self.encoder = hpack.Encoder()
        self.opened = 0
        self.ended: set[int] = set()  # our halves

    def act(self, name: str, *args: Any) -> bool:
        """Perform one action; return whether the script can go on."""
        return bool(getattr(self, name.replace(" ", "_"))(*args))

    def receive(self, data: bytes) -> bool:
        ours, theirs = split_unary_responses(receive_all(self.lean, data)), receive_all(self.h2, data)
        assert agree(ours, theirs), f"lean: {ours}, h2: {theirs}"
        return have_equal_events(ours, theirs) and not any(isinstance(event, ConnectionFailed) for event in ours)

    def same(self, ours: object, theirs: object) -> bool:
        assert ours == theirs
        for stream_id in (1, 3, 5):
            assert self.lean.stream_window(stream_id) == self.h2.stream_window(stream_id)
        assert self.lean.connection_window == self.h2.connection_window
        return True

    # -- what the server sends

    def frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> bool:
        return self.receive(frames.head(len(payload), kind, flags, stream_id) + payload)

    def headers(self, stream_id: int, block: int, end: bool) -> bool:
        data = self.encoder.encode(BLOCKS[block])
        return self.receive(frames.head(len(data), 1, 4 | end, stream_id) + data)

    def answer(self, stream_id: int, block: int, data: bytes, last: int) -> bool:
        """Send an answer in one read, which the fast engine may report as one event."""
        frame = frames.head(len(data), 0, 0, stream_id) + data
        sent = []
        for number, flags in ((block, 4), (last, 5)):
            encoded = self.encoder.encode(BLOCKS[number])
            sent.append(frames.head(len(encoded), 1, flags, stream_id) + encoded)
        return self.receive(sent[0] + frame + sent[1])

    def cut_headers(self, stream_id: int, block: int, end: bool) -> bool:
        data = self.encoder.encode(BLOCKS[block])
        first = frames.head(1, 1, int(end), stream_id) + data[:1]
        return self.receive(first) and self.receive(frames.head(len(data) - 1, 9, 4, stream_id) + data[1:])

    # -- what the client does

    def open(self) -> bool:
        if self.opened < min(3, self.lean.peer_max_streams):
            self.opened += 1
            return self.same(self.lean.open_stream(FIXED, [], []), self.h2.open_stream(FIXED, [], []))
        return True

    def ask(self, size: int) -> bool:
        """Send a request with all its data at once, as far as windows allow."""
        room = self.lean.initial_data_limit()
        self.same(room, self.h2.initial_data_limit())
        if self.opened < min(3, self.lean.peer_max_streams) and PREFIX_SIZE + size <= room:
            self.opened += 1
            self.ended.add(2 * self.opened - 1)
            whole = bytes(size)
            self.same(self.lean.open_stream(FIXED, [], [], whole), self.h2.open_stream(FIXED, [], [], whole))
        return self.same(self.lean.initial_data_limit(), self.h2.initial_data_limit())

    def write(self, stream_id: int, size: int, end: bool) -> bool:
        if stream_id in self.ended:
            return True  # no stream writes after its end
        data = memoryview(bytes(size))
        ours = self.lean.write(stream_id, data, end=end, limit=50_000)
        if end and ours == size:
            self.ended.add(stream_id)
        return self.same(ours, self.h2.write(stream_id, data, end=end, limit=50_000))

    def credit(self, stream_id: int, size: int) -> bool:
        self.lean.increment_window(stream_id, size)
        self.h2.increment_window(stream_id, size)
        return True

    def reset(self, stream_id: int) -> bool:
        self.lean.reset(stream_id, ErrorCode.CANCEL)
        self.h2.reset(stream_id, ErrorCode.CANCEL)
        return self.same(None, None)


# Where only h2 ends the connection, by its complaint: the RFC calls it a stream error, or lets us ignore it.
ONLY_H2 = {
    "Invalid input StreamInputs.RECV_INFORMATIONAL_HEADERS in state": "headers after the end: a stream error (§5.1)",
    "Cannot set END_STREAM on informational responses": "likewise",
    "STREAM_CLOSED": "headers on a closed stream may be ignored (§5.1)",
    "StreamClosedError": "likewise",
    "may not depend on itself": "priorities are ignored (§5.3)",
    "Received frame with non-compliant data": "h2 reads the reserved bit of a WINDOW_UPDATE (§6.9)",
    "PRIORITY must have": "likewise",
    "Received frame with invalid padding": "hyperframe refuses HEADERS that are all padding; §6.2 allows them",
}
# Where only the fast engine does.
ONLY_LEAN = {
    "which was never opened": "h2 ignores RST_STREAM on an idle stream, and looks at header blocks when they are whole",
    "HEADERS too short for their priority": "hyperframe reads padding as a priority",
}


def split_unary_responses(events: Sequence[Event]) -> list[Event]:
    return [part for event in events for part in parts_of(event)]


def agree(ours: Sequence[Event], theirs: Sequence[Event]) -> bool:
    """Compare the engines' events; return whether they are equal, or differ as the RFC allows."""
    match ours, theirs:
        case [ConnectionFailed()], [ConnectionFailed()]:
            return True  # hyperframe knows one code for all that it refuses
        case [*_, ConnectionFailed()], [ConnectionFailed()]:
            return True  # h2 raises for the frame that breaks the connection, and forgets what those before it said
        case [ConnectionFailed(message=text)], [*_]:
            return any(excuse in text for excuse in ONLY_LEAN)
        case [*_], [ConnectionFailed(message=text)]:
            return any(excuse in text for excuse in ONLY_H2)
    if any(isinstance(event, StreamFailed) and "content-length" in event.message for event in theirs):
        return True  # gRPC's messages have lengths of their own; the fast engine does not look at content-length
    return have_equal_events(ours, theirs)


def have_equal_events(ours: Sequence[Event], theirs: Sequence[Event]) -> bool:
    """Compare events; the fast engine may leave out updates of windows that were open already."""
    rest = iter(theirs)
    for event in ours:
        for other in rest:
            if other == event:
                break
            if not isinstance(other, WindowUpdated):
                return False
        else:
            return False
    return all(isinstance(other, WindowUpdated) for other in rest)


@settings(deadline=None, max_examples=500)
@example([("frame", 1, 8, 1, b"\n" + bytes(10))])
@given(st.lists(st.one_of(frame_actions, frame_actions, client_actions), max_size=30))
@example([("headers", 1, 4, False)])  # an informational response whose status is out of place
@example([("frame", 1, 5, 1, b" "), ("answer", 1, 0, b"", 0)])  # a stream's error, then the connection's, in one read
def test_both_engines_read_the_same_bytes_as_the_same_events(script: list[tuple[Any, ...]]) -> None:
    both = Both()
    both.receive(frames.settings({}))
    both.open()
    for action in script:
        if not both.act(*action):
            break
