"""The client's use of HPACK's dynamic table, with hpack's decoder as the judge (RFC 7541)."""

from __future__ import annotations

import h2.events
import h2.settings
import hpack
import pytest
from hpack.table import HeaderTable
from hypothesis import given, settings
from hypothesis import strategies as st

from trxds.transport import frames
from trxds.transport.engine import Fields
from trxds.transport.fast_http2 import FastHttp2Engine
from trxds.transport.header_blocks import BlockEncoder
from trxds.transport.options import WireOptions
from trxds.transport.request import RequestHeaders

MESSAGE = b"x" * 100
SECRETS = [(b"cookie", b"session=1"), (b"authorization", b"Bearer 1"), (b"grpc-previous-rpc-attempts", b"1")]
TIMEOUT = [(b"grpc-timeout", b"9999999u")]


class Judge:
    """The peer's end: hpack's decoder, which also checks the table sizes that it is told."""

    def __init__(self) -> None:
        self.decoder = hpack.Decoder(2**20)
        self.lowest = 4096  # of the limits since the last block
        self.sizes: list[int] = []

    def set_limit(self, limit: int) -> None:
        self.decoder.max_allowed_table_size = limit
        self.lowest = min(self.lowest, limit)

    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        before = self.decoder.header_table.maxsize
        sizes = table_sizes(block)
        if self.lowest < before:
            assert sizes and min(sizes) <= self.lowest
        assert len(sizes) <= 2 and all(size <= 4096 for size in sizes)
        fields = self.decoder.decode(block, raw=True)
        self.lowest = self.decoder.max_allowed_table_size
        return list(fields)

    @property
    def table(self) -> list[tuple[bytes, bytes]]:
        return list(self.decoder.header_table.dynamic_entries)


def table_sizes(block: bytes) -> list[int]:
    """Return the table sizes at the beginning of a block (RFC 7541 §6.3)."""
    sizes, position = [], 0
    while position < len(block) and block[position] & 0xE0 == 0x20:
        size, length = hpack.hpack.decode_integer(block[position:], 5)
        sizes.append(size)
        position += length
    return sizes


def method(number: int, size: int = 0, authority: str = "shop.example:443") -> Fields:
    return RequestHeaders("", b"http").fields(f"/shop.Cart/Method{number}{'x' * size}", authority)


# Few methods fit into the table at a time: the large ones are a seventh of it each, and one is above the bound.
METHODS = [method(number, size) for number, size in enumerate([0, 0, 0, 0, 500, 500, 500, 500, 500, 500, 500, 4000])]
CALLS = st.tuples(
    st.sampled_from(METHODS),
    st.lists(st.sampled_from([*SECRETS, (b"te", b"trailers"), (b"x-large", bytes(3000))]), max_size=3),
    st.sampled_from([[], TIMEOUT, [(b"grpc-timeout", b"1S")]]),
)
LIMITS = st.sampled_from([0, 1, 60, 100, 400, 1000, 4095, 4096, 4097, 65_536, 2**32 - 1])


@settings(deadline=None, max_examples=300)
@given(st.lists(CALLS | LIMITS, max_size=40))
def test_every_sequence_of_blocks_and_table_limits_is_decoded(steps: list) -> None:
    encoder, peer = BlockEncoder(), Judge()
    for step in steps:
        if isinstance(step, int):
            encoder.set_table_limit(step)
            peer.set_limit(step)
        else:
            fields, metadata, uncached = step
            assert peer.decode(encoder.encode(fields, metadata, uncached)) == [*fields, *metadata, *uncached]
            assert {field for fields in METHODS for field in fields}.issuperset(peer.table)


class WirePeer:
    """A server that decodes what an engine has sent, in the order of the wire."""

    def __init__(self, engine: FastHttp2Engine) -> None:
        self.engine = engine
        self.judge = Judge()
        self.unacked: list[int] = []
        self.requests: dict[int, list[tuple[bytes, bytes]]] = {}
        self.blocks: list[bytes] = []

    def announce(self, limits: list[int]) -> None:
        """Send SETTINGS, which may name the limit more than once."""
        payload = b"".join(limit.to_bytes(6) for limit in (limit | 1 << 32 for limit in limits))
        self.engine.receive(frames.head(len(payload), frames.SETTINGS, 0, 0) + payload)
        self.unacked.append(limits)

    def read(self) -> None:
        """Read all that was sent. The limits hold from the client's acknowledgement on (RFC 9113 §6.5.3)."""
        data = self.engine.outgoing.take().removeprefix(frames.PREFACE)
        block = b""
        while data:
            size, kind, flags = int.from_bytes(data[:3]), data[3], data[4]
            stream_id, payload, data = int.from_bytes(data[5:9]), data[9 : 9 + size], data[9 + size :]
            if kind == frames.SETTINGS and flags & frames.ACK:
                for limit in self.unacked.pop(0):
                    self.judge.set_limit(limit)
            elif kind in (frames.HEADERS, frames.CONTINUATION):
                block += payload
                if flags & frames.END_HEADERS:
                    self.requests[stream_id] = self.judge.decode(block)
                    self.blocks.append(block)
                    block = b""


STEPS = st.one_of(
    CALLS,
    st.tuples(st.just("announce"), st.lists(LIMITS, min_size=1, max_size=3)),
    st.tuples(st.just("reset"), st.integers(0, 20).map(lambda number: 2 * number + 1)),
    st.just(("read",)),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(STEPS, max_size=40))
def test_the_table_follows_the_order_of_the_wire_whatever_is_cancelled_before_it_leaves(steps: list) -> None:
    engine = FastHttp2Engine(WireOptions())
    peer, sent = WirePeer(engine), {}
    peer.announce([4096])
    for step in steps:
        match step:
            case ("announce", limits):
                peer.announce(limits)
            case ("reset", stream_id):
                engine.reset(stream_id, 8)
            case ("read",):
                peer.read()
            case (fields, metadata, uncached):
                # Three of the largest fields need CONTINUATION frames.
                metadata = [(name, value * (2 if name == b"x-large" else 1)) for name, value in metadata]
                stream_id = engine.open_stream(fields, metadata, uncached, MESSAGE if uncached else None)
                sent[stream_id] = [*fields, *metadata, *uncached]
    peer.read()
    assert peer.requests == sent


def test_a_block_before_the_peers_settings_uses_the_table_that_every_connection_begins_with() -> None:
    engine = FastHttp2Engine(WireOptions())
    peer = WirePeer(engine)
    engine.open_stream(METHODS[0], [], [], MESSAGE)
    peer.announce([0])
    engine.open_stream(METHODS[0], [], [], MESSAGE)
    peer.read()
    assert table_sizes(peer.blocks[0]) == [] and table_sizes(peer.blocks[1]) == [0]
    assert peer.requests[1] == peer.requests[3] == list(METHODS[0]) and not peer.judge.table


def test_the_second_call_of_a_method_is_a_byte_for_each_field() -> None:
    encoder, peer = BlockEncoder(), Judge()
    first, second = (encoder.encode(METHODS[0], [], []) for _ in range(2))
    assert len(first) > 100 and len(second) == len(METHODS[0])
    assert peer.decode(first) == peer.decode(second) == list(METHODS[0])


def test_another_method_costs_only_its_path() -> None:
    encoder = BlockEncoder()
    encoder.encode(METHODS[0], [], [])
    path = dict(METHODS[1])[b":path"]
    assert len(encoder.encode(METHODS[1], [], [])) == len(METHODS[1]) + 1 + len(path)


def test_the_block_of_a_known_method_is_encoded_once() -> None:
    encoder = BlockEncoder()
    for fields in (*METHODS[:3], *METHODS[:3]):
        encoder.encode(fields, [], [])
    assert all(encoder.encode(fields, [], []) is encoder.encode(fields, [], []) for fields in METHODS[:3])


def test_a_limit_of_zero_is_answered_once_and_leaves_only_literals() -> None:
    encoder, peer = BlockEncoder(), Judge()
    encoder.set_table_limit(0)
    peer.set_limit(0)
    blocks = [encoder.encode(METHODS[0], SECRETS, TIMEOUT) for _ in range(2)]
    assert [peer.decode(block) for block in blocks] == 2 * [[*METHODS[0], *SECRETS, *TIMEOUT]]
    assert [table_sizes(block) for block in blocks] == [[0], []] and not peer.table


def test_a_full_table_stays_as_it_is() -> None:
    """Methods that take turns in evicting each other would cost more than their literals."""
    encoder, peer = BlockEncoder(), Judge()
    for number in range(100):
        peer.decode(encoder.encode(method(number), [], []))
    full = peer.table
    assert 30 < len(full) < 100
    for number in range(100):
        fields = method(number)
        assert peer.decode(encoder.encode(fields, [], [])) == list(fields)
    assert peer.table == full
    assert len(encoder.encode(method(0), [], [])) <= 2 * len(METHODS[0])


@pytest.mark.parametrize("long", [method(0, 3900), method(0, authority="x" * 3900)])
def test_a_field_of_an_unusual_size_leaves_the_table_to_the_common_ones(long: Fields) -> None:
    encoder, peer = BlockEncoder(), Judge()
    peer.decode(encoder.encode(long, [], []))
    peer.decode(encoder.encode(METHODS[0], [], []))
    assert len(encoder.encode(METHODS[0], [], [])) == len(METHODS[0])


def test_secrets_and_values_that_change_enter_no_table() -> None:
    encoder, peer = BlockEncoder(), Judge()
    for _ in range(3):
        peer.decode(encoder.encode(METHODS[0], SECRETS, TIMEOUT))
    static = {name for name, _ in HeaderTable.STATIC_TABLE}
    assert set(METHODS[0]).issuperset(peer.table)
    assert {name for name, _ in peer.table} - static == {b"te", b"grpc-accept-encoding"}


def test_metadata_may_enter_no_table_on_its_way_either() -> None:
    """RFC 7541 §7.1.3: a proxy with a shared table would let others guess a cookie or a token."""
    fields = hpack.Decoder().decode(BlockEncoder().encode(METHODS[0], SECRETS, TIMEOUT), raw=True)
    never_indexed = [tuple(field) for field in fields if isinstance(field, hpack.NeverIndexedHeaderTuple)]
    assert never_indexed == SECRETS


def test_the_tables_repr_shows_no_values() -> None:
    encoder = BlockEncoder()
    encoder.encode(((b"x-key", b"my-Secret"),), [], [])
    assert repr(encoder._table) == "<EncoderTable 1 fields, room for 4050 bytes>"


# -- connections


async def test_a_call_that_is_cancelled_in_the_queue_leaves_the_table_as_it_is(wire, request_, autojump_clock) -> None:
    connection, server = await wire({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    first = connection.open_stream(request_("/shop.Cart/First", message=b"x"))
    queued = [connection.open_stream(request_(f"/shop.Cart/Queued{number}", message=b"x")) for number in range(3)]
    queued[0].cancel()
    queued[2].cancel()
    paths = []
    for stream in (first, queued[1]):
        event = await server.next(h2.events.RequestReceived)
        paths.append(dict(event.headers)[":path"])
        await server.answer(event.stream_id, b"y")
        assert await stream.receive_unary() == b"y"
    assert paths == ["/shop.Cart/First", "/shop.Cart/Queued1"]


@pytest.mark.parametrize(("deadline", "limit"), [(False, 132), (True, 155)])
async def test_a_warm_unary_call_of_100_bytes_sends_at_most_155(
    wire, request_, nursery, autojump_clock, deadline, limit
) -> None:
    """Headers, data, and whatever else the connection sends meanwhile; grpc.aio sends 155 to 158."""
    connection, server = await wire()
    server.h2.increment_flow_control_window(10**6)
    read_some, sizes = server.transport.receive_some, []

    async def counted(*args) -> bytes:
        data = await read_some(*args)
        sizes.append(len(data))
        return data

    server.transport.receive_some = counted

    async def serve() -> None:
        while True:
            stream_id = await server.request()
            await server.request_end(stream_id)
            await server.answer(stream_id, b"y" * 100)

    nursery.start_soon(serve)
    for number in range(1001):
        if number == 1:
            sizes.clear()
        at = {"deadline": connection.since + 10_000} if deadline else {}
        stream = connection.open_stream(request_(message=b"x" * 100, **at))
        assert await stream.receive_unary() == b"y" * 100
    assert sum(sizes) / 1000 <= limit
