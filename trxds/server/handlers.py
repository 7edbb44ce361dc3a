"""Handlers made from simpler functions: one for a kind of call, or all of a protobuf service.

`parse` and `serialize` turn bytes into messages and back. A protobuf service's descriptor names the methods to serve,
and the messages to parse.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from typing import Any, TypeAlias

import trio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from trxds.core.status import Status, StatusCode

from .reply_type import check_async_iterator, check_awaitable, message_serializer
from .server_call import Abort, Call, Handler
from .servicer import functions_of

Parse: TypeAlias = Callable[[bytes], Any]
Serialize: TypeAlias = Callable[[Any], bytes]


def _unchanged(message: bytes) -> bytes:
    return message


def unary(
    function: Callable[[Any, Call], Awaitable[Any]],
    parse: Parse = bytes,
    serialize: Serialize = _unchanged,
) -> Handler:
    """Return a handler from `async def function(request, call) -> reply`."""

    async def handler(call: Call) -> None:
        returned = function(await _receive_single(call, parse), call)
        await call.send(serialize(await check_awaitable(call.path, returned)))

    return handler


def server_streaming(
    function: Callable[[Any, Call], AsyncIterator[Any]], parse: Parse = bytes, serialize: Serialize = _unchanged
) -> Handler:
    """Return a handler from `async def function(request, call)`, which yields replies."""

    async def handler(call: Call) -> None:
        await _send_all(call, function(await _receive_single(call, parse), call), serialize)

    return handler


def client_streaming(
    function: Callable[[AsyncIterator[Any], Call], Awaitable[Any]],
    parse: Parse = bytes,
    serialize: Serialize = _unchanged,
) -> Handler:
    """Return a handler from `async def function(requests, call) -> reply`."""

    async def handler(call: Call) -> None:
        async with aclosing(_parsed(message, parse) async for message in call) as requests:
            reply = await check_awaitable(call.path, function(requests, call))
        await call.send(serialize(reply))

    return handler


def bidi_streaming(
    function: Callable[[AsyncIterator[Any], Call], AsyncIterator[Any]],
    parse: Parse = bytes,
    serialize: Serialize = _unchanged,
) -> Handler:
    """Return a handler from `async def function(requests, call)`, which yields replies."""

    async def handler(call: Call) -> None:
        async with aclosing(_parsed(message, parse) async for message in call) as requests:
            await _send_all(call, function(requests, call), serialize)

    return handler


async def _receive_single(call: Call, parse: Parse) -> Any:
    message = await call.receive()
    # statuscodes.md, "request cardinality violation".
    if message is None:
        call.abort(StatusCode.UNIMPLEMENTED, "the client sent no message where the method has one")
    # A second message is as wrong. The end of the client's half, which mostly has come, excludes it.
    if not call.has_all:
        if await call.receive() is not None:
            call.abort(StatusCode.UNIMPLEMENTED, "the client sent a second message where the method has one")
        await trio.lowlevel.checkpoint_if_cancelled()  # a call that was reset must not reach the handler's function
    return _parsed(message, parse)


async def _send_all(call: Call, returned: AsyncIterator[Any], serialize: Serialize) -> None:
    replies = check_async_iterator(call.path, returned)
    # Closes a cancelled generator here, not in the garbage collector; other iterators have nothing to close.
    async with aclosing(replies) if isinstance(replies, AsyncGenerator) else nullcontext():
        async for reply in replies:
            await call.send(serialize(reply))


def _parsed(message: bytes, parse: Parse) -> Any:
    try:
        return parse(message)
    except Exception as error:
        # statuscodes.md: a request that cannot be parsed is INTERNAL. It is the client's error, so it is not logged.
        text = f"the request cannot be parsed: {type(error).__name__}: {error}"
        raise Abort(Status(StatusCode.INTERNAL, text)) from None


# -- a protobuf service

_KINDS = {
    (False, False): unary,
    (False, True): server_streaming,
    (True, False): client_streaming,
    (True, True): bidi_streaming,
}
_SUBTYPES = ("", "proto")


def handlers_of(service: ServiceDescriptor, implementation: object) -> dict[str, Handler]:
    """Return handlers for the service's methods that `implementation` has; `TypeError` if it cannot serve them."""
    functions = functions_of(service, implementation)
    return {
        _path(method): _handler(method, functions[method.name])
        for method in service.methods
        if method.name in functions
    }


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _handler(method: MethodDescriptor, function: Any) -> Handler:
    kind: Any = _KINDS[bool(method.client_streaming), bool(method.server_streaming)]
    serialize = message_serializer(_path(method), GetMessageClass(method.output_type))
    handler: Handler = kind(function, GetMessageClass(method.input_type).FromString, serialize)

    def protobuf_only(call: Call) -> Awaitable[None]:
        # Without a subtype the messages are protobuf, as in every gRPC implementation.
        if call.content_subtype not in _SUBTYPES:
            subtype = call.content_subtype
            call.abort(
                StatusCode.UNIMPLEMENTED, f"no messages of the subtype {subtype!r} here; use application/grpc+proto"
            )
        return handler(call)

    return protobuf_only
