"""A protobuf service's descriptor names the methods to serve and the messages to parse."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from trxds.core.status import StatusCode

from .reply_type import message_serializer
from .server_call import Call, Handler, bidi_streaming, client_streaming, server_streaming, unary

_KINDS = {
    (False, False): unary,
    (False, True): server_streaming,
    (True, False): client_streaming,
    (True, True): bidi_streaming,
}


_SUBTYPES = ("", "proto")


def handlers_of(service: ServiceDescriptor, implementation: object) -> dict[str, Handler]:
    """Return handlers for the service's methods that `implementation` has."""
    return {
        f"/{service.full_name}/{method.name}": _handler(method, getattr(implementation, method.name))
        for method in service.methods
        if hasattr(implementation, method.name)
    }


def _handler(method: MethodDescriptor, function: Any) -> Handler:
    kind: Any = _KINDS[bool(method.client_streaming), bool(method.server_streaming)]
    path = f"/{method.containing_service.full_name}/{method.name}"
    serialize = message_serializer(path, GetMessageClass(method.output_type))
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
