"""Requests that a server refuses, by the rules of PROTOCOL-HTTP2 and statuscodes.md."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from google.protobuf import descriptor_pb2, descriptor_pool
from support.hostile.peer import HEADERS, INITIAL_WINDOW_SIZE, WINDOW_UPDATE, frame, message
from support.raw_client import RawClient, data, goes_on, headers
from trio.testing import wait_all_tasks_blocked

from trxds.testing import Call, Server, bidi_streaming, client_streaming, server_streaming, unary

UNIMPLEMENTED, INTERNAL = "12", "13"


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


async def test_a_dropped_connection_ends_at_once_with_a_stream_open(server: Server, client, autojump_clock) -> None:
    await client.send(headers(1, end=True, content_type="text/html"))
    await client.answer(1)
    server.drop_connections()
    with trio.fail_after(1):
        await client.read()
    await wait_all_tasks_blocked()
    assert server.connections == []
