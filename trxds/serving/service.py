"""Handlers for the methods of a protobuf service, by its descriptor."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from .call import Handler, bidi_streaming, client_streaming, server_streaming, unary

_KINDS = {
    (False, False): unary,
    (False, True): server_streaming,
    (True, False): client_streaming,
    (True, True): bidi_streaming,
}


def handlers_of(service: ServiceDescriptor, implementation: object) -> dict[str, Handler]:
    """A handler for each method that `implementation` has a method of that name for."""
    return {
        f"/{service.full_name}/{method.name}": _handler(method, getattr(implementation, method.name))
        for method in service.methods
        if hasattr(implementation, method.name)
    }


def _handler(method: MethodDescriptor, function: Any) -> Handler:
    kind: Any = _KINDS[bool(method.client_streaming), bool(method.server_streaming)]
    return kind(function, GetMessageClass(method.input_type).FromString, _serialize)  # type: ignore[no-any-return]


def _serialize(message: Any) -> bytes:
    return message.SerializeToString()  # type: ignore[no-any-return]
