"""Requests that a server refuses, by the rules of PROTOCOL-HTTP2, statuscodes.md and RFC 9113 §8.1.1."""

from __future__ import annotations

import json
from typing import Any

import hpack
import pytest
import trio
from google.protobuf import descriptor_pb2, descriptor_pool
from hypothesis import given
from hypothesis import strategies as st
from support.hostile.peer import END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, PRIORITY, WINDOW_UPDATE, frame, message
from support.raw_client import REQUEST, RawClient, block, data, headers
from trio.testing import wait_all_tasks_blocked

from trxds.server.malformed import malformed_request, malformed_request_field, malformed_trailers
from trxds.testing import (
    Call,
    MemoryNetwork,
    Server,
    bidi_streaming,
    client_streaming,
    serve,
    server_streaming,
    unary,
)
from trxds.transport.frames import WITH_PRIORITY
from trxds.transport.options import WireOptions

PROTOCOL_ERROR = "1"
UNIMPLEMENTED, INTERNAL = "12", "13"


@pytest.fixture
async def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
async def server(network: MemoryNetwork):
    async def echo(request: bytes, call: Call) -> bytes:
        return request

    async def letters(request: bytes, call: Call):
        for letter in request.decode():
            yield letter.encode()

    handlers = {"/s/M": unary(echo), "/s/Letters": server_streaming(letters)}
    async with serve(handlers, network=network, address="s:1") as server:
        yield server


@pytest.fixture
async def client(network: MemoryNetwork, server: Server) -> RawClient:
    client = RawClient(await network.connect("s:1"))
    await client.greet()
    return client


async def goes_on(client: RawClient, stream: int = 99) -> bool:
    """Return whether a good call on the same connection is served."""
    await client.send(headers(stream), data(stream, message(b"x"), end=True))
    return (await client.answer(stream))["grpc-status"] == "0" and not client.ended


# -- what is no gRPC


@pytest.mark.parametrize("content_type", ["text/html", "application/grpcfoo", "application/grp", ""])
async def test_a_request_with_another_content_type_is_answered_415(
    client: RawClient, content_type: str, autojump_clock
) -> None:
    await client.send(headers(1, content_type=content_type, end=True))
    answer = await client.answer(1)
    assert (answer[":status"], answer["content-type"]) == ("415", "text/plain; charset=utf-8")
    assert "grpc-status" not in answer and b"application/grpc" in client.body(1)
    assert await goes_on(client)


async def test_a_head_request_without_content_type_is_answered_415_without_a_body(
    client: RawClient, autojump_clock
) -> None:
    await client.send(headers(1, end=True, pseudo_method="HEAD", without=("content-type",)))
    assert (await client.answer(1))[":status"] == "415" and client.body(1) == b""


async def test_the_text_of_a_415_waits_for_the_windows(network, server: Server, autojump_clock) -> None:
    client = RawClient(await network.connect("s:1"))
    await client.greet(INITIAL_WINDOW_SIZE.to_bytes(2) + bytes(4))
    await client.send(headers(1, end=True, content_type="text/html"))
    await client.read_until(HEADERS, 1)
    assert client.body(1) == b"" and repr(server.connections[0]).endswith("1 calls>")
    await client.send(frame(WINDOW_UPDATE, 0, 1, (1000).to_bytes(4)))
    await client.answer(1)
    assert b"gRPC" in client.body(1) and repr(server.connections[0]).endswith("0 calls>")


async def test_the_upload_of_a_refused_request_is_read_for_a_while_and_then_reset(
    client: RawClient, autojump_clock
) -> None:
    await client.send(headers(1, content_type="text/html"))
    await client.answer(1)
    for _ in range(5):
        assert not any(kind == 3 for kind, *_ in client.frames), "no reset before the client has had the answer"
        await client.send(data(1, bytes(16_384)))
    assert int.from_bytes(await client.read_until(3, 1)) == 0
    assert await goes_on(client)


async def test_the_rest_of_an_upload_is_ignored_once_its_stream_is_reset(client: RawClient, autojump_clock) -> None:
    """nginx fails a call whose answer it has, if another RST_STREAM follows that with NO_ERROR."""
    await client.send(headers(1, pseudo_path="/s/Nothing"))
    assert (await client.answer(1))["grpc-status"] == UNIMPLEMENTED
    await client.send(data(1, bytes(16_384)), data(1, bytes(16_384)), data(1, b"", end=True))
    assert await goes_on(client)
    assert [payload for kind, _, stream, payload in client.frames if (kind, stream) == (3, 1)] == [bytes(4)]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "post"])
async def test_a_request_with_another_method_is_answered_405_with_a_grpc_status(
    client: RawClient, method: str, autojump_clock
) -> None:
    await client.send(headers(1, end=True, pseudo_method=method))
    answer = await client.answer(1)
    assert (answer[":status"], answer["allow"], answer["grpc-status"]) == ("405", "POST", INTERNAL)
    assert await goes_on(client)


async def test_a_request_without_te_is_served(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1, without=("te",)), data(1, message(b"x"), end=True))
    assert (await client.answer(1))["grpc-status"] == "0"


@pytest.mark.parametrize(
    "content_type", ["application/grpc+json", "application/grpc;charset=utf-8", "Application/GRPC"]
)
async def test_the_content_type_may_have_a_subtype_or_parameters(client, content_type: str, autojump_clock) -> None:
    await client.send(headers(1, content_type=content_type), data(1, message(b"x"), end=True))
    assert (await client.answer(1))["grpc-status"] == "0"


# -- messages


@pytest.mark.parametrize("cut", [message(b"abc")[:3], message(b"abc")[:6], message(b"whole") + b"\0"])
async def test_a_request_that_ends_inside_a_message_is_internal(client: RawClient, cut: bytes, autojump_clock) -> None:
    await client.send(headers(1), data(1, cut, end=True))
    answer = await client.answer(1)
    assert (answer["grpc-status"], answer["grpc-message"]) == (
        INTERNAL,
        "the client ended the request inside a message",
    )
    assert "reset" not in answer and await goes_on(client)


async def test_a_handler_that_reads_on_is_cancelled_by_a_request_cut_off(server, client, autojump_clock) -> None:
    seen: list[object] = []

    async def join(call: Call) -> None:
        try:
            async for each in call:
                seen.append(each)
            seen.append("the end")
        finally:
            seen.append("over")

    server.fallback = join
    await client.send(headers(1, pseudo_path="/s/Join"), data(1, message(b"a")))
    await wait_all_tasks_blocked()
    await client.send(data(1, message(b"b")[:4], end=True))
    assert (await client.answer(1))["grpc-status"] == INTERNAL
    await wait_all_tasks_blocked()
    assert seen == [b"a", "over"]


@pytest.mark.parametrize("path", ["/s/M", "/s/Letters"])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_second_request_message_of_a_unary_method_is_unimplemented(
    client, path, at_once, autojump_clock
) -> None:
    await client.send(headers(1, pseudo_path=path), data(1, message(b"a") + (message(b"b") if at_once else b"")))
    await wait_all_tasks_blocked()
    if not at_once:
        await client.send(data(1, message(b"b"), end=True))
    answer = await client.answer(1)
    assert answer["grpc-status"] == UNIMPLEMENTED and "second message" in answer["grpc-message"]
    assert client.body(1) == b"" and await goes_on(client)


@pytest.mark.parametrize("path", ["/s/M", "/s/Letters"])
async def test_a_unary_method_without_a_request_message_is_unimplemented(
    client: RawClient, path: str, autojump_clock
) -> None:
    await client.send(headers(1, pseudo_path=path, end=True))
    assert (await client.answer(1))["grpc-status"] == UNIMPLEMENTED


@pytest.mark.parametrize("kind", [unary, server_streaming, client_streaming, bidi_streaming])
async def test_a_request_that_cannot_be_parsed_is_internal_and_not_logged(
    server: Server, client: RawClient, kind: Any, caplog, autojump_clock
) -> None:
    async def all_of(requests, call: Call) -> bytes:
        return b"".join([each async for each in requests])

    async def each_of(requests, call: Call):
        async for each in requests:
            yield each

    server.handlers["/s/M"] = kind(all_of if kind in (unary, client_streaming) else each_of, json.loads)
    await client.send(headers(1), data(1, message(b"no JSON"), end=True))
    answer = await client.answer(1)
    assert answer["grpc-status"] == INTERNAL
    assert answer["grpc-message"].startswith("the request cannot be parsed: JSONDecodeError: Expecting value")
    assert caplog.text == ""


async def test_a_unary_method_runs_when_the_request_has_ended(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1), data(1, message(b"a")))
    await wait_all_tasks_blocked()
    await client.send(data(1, b"", end=True))
    assert (await client.answer(1))["grpc-status"] == "0" and client.body(1) == message(b"a")


async def test_a_function_is_not_called_for_a_request_that_is_reset_before_its_end(
    server, client, autojump_clock
) -> None:
    called: list[bytes] = []

    async def note(request: bytes, call: Call) -> bytes:
        called.append(request)
        return request

    server.handlers["/s/Note"] = unary(note)
    await client.send(headers(1, pseudo_path="/s/Note"), data(1, message(b"a")))
    await wait_all_tasks_blocked()
    await client.send(frame(3, 0, 1, (8).to_bytes(4)))
    await wait_all_tasks_blocked()
    assert called == [] and repr(server.connections[0]).endswith("0 calls>")


async def test_an_unknown_encoding_is_unimplemented_and_the_known_ones_are_named(
    client: RawClient, autojump_clock
) -> None:
    await client.send(headers(1, grpc_encoding="snappy"), data(1, message(b"x", flag=1), end=True))
    answer = await client.answer(1)
    assert (answer["grpc-status"], answer["grpc-accept-encoding"]) == (UNIMPLEMENTED, "identity,deflate,gzip")
    assert await goes_on(client)


async def test_a_compressed_message_without_an_encoding_is_internal(client: RawClient, autojump_clock) -> None:
    await client.send(headers(1), data(1, message(b"x", flag=1), end=True))
    assert (await client.answer(1))["grpc-status"] == INTERNAL


# -- malformed requests cost their stream, and no more

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


async def test_a_protobuf_service_refuses_other_content_subtypes(
    server: Server, client: RawClient, autojump_clock
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="subtypes_test.proto", package="t", syntax="proto3")
    file.message_type.add(name="Text")
    file.service.add(name="Echo").method.add(name="Say", input_type=".t.Text", output_type=".t.Text")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    class Echo:
        async def Say(self, request, call: Call):
            return request

    server.add_service(pool.FindServiceByName("t.Echo"), Echo())
    for stream, subtype, status in ((1, "+json", UNIMPLEMENTED), (3, "+proto", "0"), (5, "", "0")):
        said = headers(stream, pseudo_path="/t.Echo/Say", content_type=f"application/grpc{subtype}")
        await client.send(said, data(stream, message(b""), end=True))
        assert (await client.answer(stream))["grpc-status"] == status


async def test_a_dropped_connection_ends_at_once_with_a_stream_open(server: Server, client, autojump_clock) -> None:
    await client.send(headers(1, end=True, content_type="text/html"))
    await client.answer(1)
    server.drop_connections()
    with trio.fail_after(1):
        await client.read()
    await wait_all_tasks_blocked()
    assert server.connections == []
