"""This file makes the functions between a user's messages and the bytes on the wire.

A request of the wrong type is rejected here, before anything is sent: protobuf would serialize a message of another
type as readily, and the server would misread it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

if TYPE_CHECKING:
    from google.protobuf.message import Message

Serialize: TypeAlias = Callable[[Any], bytes]
Deserialize: TypeAlias = Callable[[bytes], Any]

_BYTES = (bytes, bytearray, memoryview)


def serializer(kind: type[Message] | Serialize | None, path: str) -> Serialize:
    """Return the function from a request to bytes; `kind` is a protobuf class, such a function, or bytes (None too)."""
    if kind is None or kind is bytes:
        # With the check: `bytes(3)` is three zeros.
        return _with_type_check(_BYTES, "bytes", path, bytes)
    if is_message(kind):
        return _with_type_check(kind, kind.DESCRIPTOR.full_name, path, cast(Serialize, kind.SerializeToString))
    return _with_result_check(cast(Serialize, kind), path)


def deserializer(kind: type[Message] | Deserialize | None, *, is_streamed: bool = False) -> Deserialize:
    """Return the function from the bytes of a reply to the caller's object; see `serializer`."""
    if kind is None or kind is bytes:
        return bytes  # which returns `bytes` as they are
    if is_message(kind):
        return cast(Deserialize, kind.FromString)
    return _with_none_check(cast(Deserialize, kind)) if is_streamed else cast(Deserialize, kind)


def is_message(kind: object) -> TypeGuard[type[Message]]:
    """Return whether `kind` is a protobuf class."""
    if not isinstance(kind, type):
        return False
    # Imported late: a program that sends bytes does not need protobuf.
    from google.protobuf.message import Message

    return issubclass(kind, Message)


def _with_type_check(expected: type | tuple[type, ...], name: str, path: str, serialize: Serialize) -> Serialize:
    def checked(message: Any) -> bytes:
        if not isinstance(message, expected):
            actual = type(message)
            actual_name = actual.DESCRIPTOR.full_name if is_message(actual) else actual.__name__
            raise TypeError(f"{path} takes {name}, not {actual_name}")
        return serialize(message)

    return checked


def _with_result_check(serialize: Callable[[Any], object], path: str) -> Serialize:
    def checked(message: Any) -> bytes:
        serialized = serialize(message)
        if isinstance(serialized, bytes):
            return serialized
        if not isinstance(serialized, _BYTES):
            raise TypeError(f"{path}: its serializer returned {type(serialized).__name__}, not bytes")
        return bytes(serialized)

    return checked


def _with_none_check(deserialize: Deserialize) -> Deserialize:
    def checked(payload: bytes) -> Any:
        reply = deserialize(payload)
        # Otherwise the stream would seem to end there, and the messages behind it would be lost.
        if reply is None:
            raise ValueError("its deserializer returned None, which stands for the end of a stream")
        return reply

    return checked
