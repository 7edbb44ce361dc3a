"""A protobuf service's descriptor names the methods to serve and the messages to parse."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from trxds.core.status import StatusCode

from .reply_type import message_serializer
from .server_call import Call, Handler, bidi_streaming, client_streaming, server_streaming, unary
from .servicer import functions_of

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
