"""The cases that look at calls: messages, streams, metadata, status, cancellation.

Each case is a function of one channel. It raises `Failed` with what it saw and what it should have seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

from trxds.client.channel import Channel
from trxds.core.status import RpcError, StatusCode

from .protos import (
    TEST_SERVICE,
    UNIMPLEMENTED_SERVICE,
    EchoStatus,
    Empty,
    Payload,
    ResponseParameters,
    SimpleRequest,
    StreamingInputCallRequest,
    StreamingOutputCallRequest,
)

Case: TypeAlias = Callable[[Channel], Awaitable[None]]

LARGE_REQUEST, LARGE_REPLY = 271828, 314159
_PING_PONG = ((27182, 31415), (8, 9), (1828, 2653), (45904, 58979))  # bytes up, bytes down

_INITIAL = ("x-grpc-test-echo-initial", "test_initial_metadata_value")
_TRAILING = ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab")

_MESSAGE = "test status message"
_SPECIAL_MESSAGE = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"


class Failed(Exception):
    """A case failed; the message says what it saw."""


def expect(seen: object, wanted: object, what: str) -> None:
    """Raise `Failed` unless both are equal."""
    if seen != wanted:
        raise Failed(f"{what}: {seen!r}, should be {wanted!r}")


def service(channel: Channel) -> Any:
    return channel.stub(TEST_SERVICE)


def zeros(size: int) -> Any:
    """Return a payload of `size` zero bytes."""
    return Payload(body=bytes(size))


def large_request(**more: Any) -> Any:
    return SimpleRequest(response_size=LARGE_REPLY, payload=zeros(LARGE_REQUEST), **more)


async def failure_of(call: Callable[[], Awaitable[Any]], what: str) -> RpcError:
    """Return the error with which this call ends; raise `Failed` if the call succeeds."""
    try:
        await call()
    except RpcError as error:
        return error
    raise Failed(f"{what} succeeded, should have failed")


# -- one message each way


async def empty_unary(channel: Channel) -> None:
    expect(await service(channel).EmptyCall(Empty()), Empty(), "the reply")


async def large_unary(channel: Channel) -> None:
    reply = await service(channel).UnaryCall(large_request())
    expect(len(reply.payload.body), LARGE_REPLY, "bytes in the reply")


async def concurrent_large_unary(channel: Channel) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(large_unary, channel)


async def pick_first_unary(channel: Channel) -> None:
    request = SimpleRequest(response_size=1, payload=zeros(1), fill_server_id=True)
    servers = {(await service(channel).UnaryCall(request)).server_id for _ in range(20)}
    if "" in servers:
        raise Failed("the server does not fill in server_id, so the server that answered is unknown")
    expect(len(servers), 1, "servers that answered")


# -- streams


async def client_streaming(channel: Channel) -> None:
    requests = [StreamingInputCallRequest(payload=zeros(size)) for size, _ in _PING_PONG]
    reply = await service(channel).StreamingInputCall(requests)
    expect(reply.aggregated_payload_size, 74922, "aggregated_payload_size")


async def server_streaming(channel: Channel) -> None:
    wanted = [size for _, size in _PING_PONG]
    request = StreamingOutputCallRequest(response_parameters=[ResponseParameters(size=size) for size in wanted])
    async with service(channel).StreamingOutputCall.open(request) as call:
        expect([len(reply.payload.body) async for reply in call], wanted, "sizes of the replies")


async def ping_pong(channel: Channel) -> None:
    async with service(channel).FullDuplexCall.open() as call:
        for up, down in _PING_PONG:
            await call.send(_exchange(up, down))
            reply = await call.receive()
            expect(reply and len(reply.payload.body), down, "bytes in the reply")
        call.done_sending()
        expect(await call.receive(), None, "a reply after the last")


def _exchange(up: int, down: int) -> Any:
    return StreamingOutputCallRequest(response_parameters=[ResponseParameters(size=down)], payload=zeros(up))


async def empty_stream(channel: Channel) -> None:
    async with service(channel).FullDuplexCall.open() as call:
        call.done_sending()
        expect(await call.receive(), None, "a reply to nothing")


# -- metadata and status


async def custom_metadata(channel: Channel) -> None:
    async with service(channel).UnaryCall.open(large_request(), metadata=[_INITIAL, _TRAILING]) as call:
        await call.receive()
        await _expect_echoes(call)
    async with service(channel).FullDuplexCall.open(metadata=[_INITIAL, _TRAILING]) as call:
        await call.send(_exchange(LARGE_REQUEST, LARGE_REPLY))
        call.done_sending()
        await call.receive()
        await _expect_echoes(call)


async def _expect_echoes(call: Any) -> None:
    expect(await call.receive(), None, "a second reply")
    for (name, value), metadata in ((_INITIAL, call.initial_metadata), (_TRAILING, call.trailing_metadata)):
        expect(metadata.first(name), value, f"{name} as the server echoes it")


async def status_code_and_message(channel: Channel) -> None:
    await _expect_status(channel, _MESSAGE)

    async def stream() -> None:
        async with service(channel).FullDuplexCall.open() as call:
            await call.send(StreamingOutputCallRequest(response_status=_unknown(_MESSAGE)))
            call.done_sending()
            await call.receive()

    _expect_unknown(await failure_of(stream, "FullDuplexCall"), _MESSAGE)


async def special_status_message(channel: Channel) -> None:
    await _expect_status(channel, _SPECIAL_MESSAGE)


async def _expect_status(channel: Channel, message: str) -> None:
    request = SimpleRequest(response_status=_unknown(message))
    _expect_unknown(await failure_of(lambda: service(channel).UnaryCall(request), "UnaryCall"), message)


def _unknown(message: str) -> Any:
    return EchoStatus(code=StatusCode.UNKNOWN.value, message=message)


def _expect_unknown(error: RpcError, message: str) -> None:
    expect((error.status.code, error.status.message), (StatusCode.UNKNOWN, message), "the status")


async def unimplemented_method(channel: Channel) -> None:
    await _expect_unimplemented(service(channel).UnimplementedCall)


async def unimplemented_service(channel: Channel) -> None:
    await _expect_unimplemented(channel.stub(UNIMPLEMENTED_SERVICE).UnimplementedCall)


async def _expect_unimplemented(method: Any) -> None:
    error = await failure_of(lambda: method(Empty()), method.path)
    expect(error.status.code, StatusCode.UNIMPLEMENTED, "the status")


# -- calls that end early


async def cancel_after_begin(channel: Channel) -> None:
    with trio.CancelScope() as scope:
        async with service(channel).StreamingInputCall.open() as call:
            scope.cancel()
            await call.receive()
    expect(scope.cancelled_caught, True, "the call ended by being cancelled")


async def cancel_after_first_response(channel: Channel) -> None:
    with trio.CancelScope() as scope:
        async with service(channel).FullDuplexCall.open() as call:
            await call.send(_exchange(27182, 31415))
            reply = await call.receive()
            expect(reply and len(reply.payload.body), 31415, "bytes in the reply")
            scope.cancel()
            await call.receive()
    expect(scope.cancelled_caught, True, "the call ended by being cancelled")


async def timeout_on_sleeping_server(channel: Channel) -> None:
    async def stream() -> None:
        async with service(channel).FullDuplexCall.open(timeout=0.001) as call:
            await call.send(StreamingOutputCallRequest(payload=zeros(27182)))
            await call.receive()

    error = await failure_of(stream, "FullDuplexCall")
    expect(error.status.code, StatusCode.DEADLINE_EXCEEDED, "the status")
