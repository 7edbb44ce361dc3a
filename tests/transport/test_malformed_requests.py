"""Malformed requests cost their stream, and no more, by the rules of RFC 9113 §8.1.1."""

from __future__ import annotations

from typing import Any

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile.peer import END_HEADERS, HEADERS, PRIORITY, frame, message
from support.raw_client import REQUEST, RawClient, block, data, goes_on, headers
from trio.testing import wait_all_tasks_blocked

from trxds.server.malformed import malformed_request, malformed_request_field, malformed_trailers
from trxds.testing import Server
from trxds.transport.frames import WITH_PRIORITY
from trxds.transport.options import WireOptions

PROTOCOL_ERROR = "1"

MALFORMED: dict[str, list[tuple[str, str]]] = {
    "no :method": [field for field in REQUEST.items() if field[0] != ":method"],
    "no :scheme": [field for field in REQUEST.items() if field[0] != ":scheme"],
    "no :path": [field for field in REQUEST.items() if field[0] != ":path"],
    "an empty :path": list((REQUEST | {":path": ""}).items()),
    ":method twice": [(":method", "POST"), *REQUEST.items()],
    ":path behind others": [field for field in REQUEST.items() if field[0] != ":path"] + [(":path", "/s/M")],
    "a response's pseudo-header": [(":status", "200"), *REQUEST.items()],
    "an unknown pseudo-header": [(":protocol", "websocket"), *REQUEST.items()],
    "capitals in a name": [*REQUEST.items(), ("X-Key", "1")],
    "a space in a name": [*REQUEST.items(), ("x key", "1")],
    "a colon in a name": [*REQUEST.items(), ("x:key", "1")],
    "an empty name": [*REQUEST.items(), ("", "1")],
    "a line end in a value": [*REQUEST.items(), ("authorization", "Bearer secret\r\n")],
    "a NUL in a value": [*REQUEST.items(), ("authorization", "Bearer secret\0")],
    "a field of HTTP/1": [*REQUEST.items(), ("connection", "keep-alive")],
    "te of something else": list((REQUEST | {"te": "gzip"}).items()),
    "host twice": [*REQUEST.items(), ("host", "a"), ("host", "b")],
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_malformed_request_costs_its_stream(client: RawClient, what: str, autojump_clock) -> None:
    await client.send(block(1, MALFORMED[what], end=True))
    assert await client.answer(1) == {"reset": PROTOCOL_ERROR}
    assert await goes_on(client)


async def test_headers_twice_cost_the_request_its_stream(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1), headers(1))
    assert await client.answer(1) == {"reset": PROTOCOL_ERROR}
    assert await goes_on(client)


@pytest.mark.parametrize("lengths", [("100",), ("2",), ("abc",), ("-6",), ("6", "7")])
async def test_a_content_length_that_does_not_fit_costs_its_stream(
    server: Server, client: RawClient, lengths: tuple[str, ...], autojump_clock
) -> None:
    fields = [("content-length", each) for each in lengths]
    await client.send(block(1, [*REQUEST.items(), *fields]), data(1, message(b"x"), end=True))
    assert await client.answer(1) == {"reset": PROTOCOL_ERROR}
    assert repr(server.connections[0]).endswith("0 calls>") and await goes_on(client)


async def test_a_content_length_that_fits_is_served(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1, content_length="6"), data(1, message(b"x"), end=True))
    assert (await client.answer(1))["grpc-status"] == "0"


async def test_data_beyond_a_content_length_opens_the_window_again(client: RawClient, autojump_clock) -> None:
    window, size = WireOptions().connection_window, 16_384
    after = 2 * window // size + 1
    for stream in range(1, after, 2):
        # The first DATA frame has the stream reset, and the second comes for a stream that was reset.
        await client.send(headers(stream, content_length="0"), data(stream, bytes(size)), data(stream, bytes(size)))
        assert await client.answer(stream) == {"reset": PROTOCOL_ERROR}
    assert await goes_on(client, after)


def depending_on_itself(stream: int) -> bytes:
    whole = headers(stream)
    return frame(HEADERS, END_HEADERS | WITH_PRIORITY, stream, itself(stream) + whole[9:])


def itself(stream: int) -> bytes:
    return stream.to_bytes(4) + bytes(1)


@pytest.mark.parametrize(
    "frames",
    [
        [depending_on_itself(1)],
        [headers(1), frame(PRIORITY, 0, 1, itself(1))],
        [depending_on_itself(1), frame(PRIORITY, 0, 1, itself(1)), data(1, message(b"x"), end=True)],
    ],
)
async def test_a_stream_that_depends_on_itself_costs_no_other(
    server: Server, client: RawClient, frames: list[bytes], autojump_clock
) -> None:
    await client.send(*frames)
    assert await client.answer(1) == {"reset": PROTOCOL_ERROR}
    assert repr(server.connections[0]).endswith("0 calls>") and await goes_on(client)


async def test_a_priority_of_an_ended_stream_is_ignored(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1), data(1, message(b"x"), end=True))
    assert "reset" not in await client.answer(1)
    await client.send(frame(PRIORITY, 0, 1, itself(1)))
    assert await goes_on(client) and "reset" not in await client.answer(1)


async def test_headers_of_a_reset_stream_are_in_the_compression_table(client: RawClient, autojump_clock) -> None:
    encoder = hpack.Encoder()
    first = encoder.encode([*REQUEST.items(), ("content-length", "7")])
    second = encoder.encode(REQUEST.items())
    assert len(second) < len(first) // 2, "the second refers to the first"
    await client.send(frame(HEADERS, END_HEADERS, 1, first), data(1, message(b"x"), end=True))
    await client.send(frame(HEADERS, END_HEADERS, 3, second), data(3, message(b"x"), end=True))
    assert await client.answer(1) == {"reset": PROTOCOL_ERROR}
    assert (await client.answer(3))["grpc-status"] == "0"


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_header_is_named_without_its_value(what: str) -> None:
    problem = malformed_request([(name.encode(), value.encode()) for name, value in MALFORMED[what]])
    assert problem and "secret" not in problem and "keep-alive" not in problem


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("x-key", "")],
        [("x-key", " spaces around ")],
        [("host", "shop")],
        [("cookie", "a=1"), ("cookie", "b=2")],
        [("x-bytes", "\x80\xff")],
        [("a!#$%&'*+-.^_`|~9", "1")],
    ],
)
def test_unusual_but_valid_request_headers_are_accepted(fields: list[tuple[str, str]]) -> None:
    encoded: Any = [(name.encode(), value.encode("latin-1")) for name, value in [*REQUEST.items(), *fields]]
    assert malformed_request(encoded) is None


NAMES = st.sampled_from(
    [*REQUEST, "host", "x-a", "X-B", "", "x b", ":protocol", ":status", "connection", "a\nb", "c:d"]
)
VALUES = st.sampled_from(["", "POST", "CONNECT", "trailers", "gzip", "/s/M", "a\rb", "a\nb", "\0", " a "])


@given(st.permutations(list(REQUEST.items())), st.lists(st.tuples(NAMES, VALUES), max_size=4), st.integers(0, 10))
def test_the_quick_look_at_usual_requests_agrees_with_the_rules(usual, more, position) -> None:
    fields = [*usual[:position], *more, *usual[position:]] if position < 6 else [*REQUEST.items(), *more]
    encoded = [(name.encode(), value.encode()) for name, value in fields]
    assert malformed_request(encoded) == malformed_request_field(encoded)


def test_connect_has_neither_scheme_nor_path() -> None:
    assert malformed_request([(b":method", b"CONNECT"), (b":authority", b"a:1")]) is None
    assert malformed_request([(b":method", b"CONNECT")]) == "it has no :authority"


async def test_malformed_trailers_end_their_call(server: Server, client: RawClient, autojump_clock) -> None:
    assert malformed_trailers([(b"x-key", b"1")]) is None
    await client.send(headers(1), data(1, message(b"x")))
    await wait_all_tasks_blocked()
    await client.send(block(1, [(":path", "/s/M")], end=True))
    assert (await client.answer(1))["reset"] == PROTOCOL_ERROR
    assert repr(server.connections[0]).endswith("0 calls>") and await goes_on(client)


async def test_trailers_end_a_request(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1), data(1, message(b"x")), block(1, [("x-key", "1")], end=True))
    assert (await client.answer(1))["grpc-status"] == "0"
