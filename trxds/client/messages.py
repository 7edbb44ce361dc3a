"""Between a user's messages and the bytes on the wire.

A request of the wrong type is refused here, before anything is sent: protobuf would send a
message of another type as readily, and the server would read nonsense out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard, cast

from google.protobuf.message import Message

Serialize: TypeAlias = Callable[[Any], bytes]
Deserialize: TypeAlias = Callable[[bytes], Any]

_BYTES = (bytes, bytearray, memoryview)


def serializer(kind: type[Message] | Serialize | None, path: str) -> Serialize:
    """From a request to bytes: of a protobuf class, by a function, or bytes as they are (None)."""
    if kind is None:
        return _checked(_BYTES, "bytes", path, _own)
    if is_message(kind):
        return _checked(kind, kind.DESCRIPTOR.full_name, path, cast(Serialize, kind.SerializeToString))
    return cast(Serialize, kind)


def deserializer(kind: type[Message] | Deserialize | None) -> Deserialize:
    """From the bytes of a reply to what the caller gets; see `serializer`."""
    if kind is None:
        return _own
    if isinstance(kind, type) and issubclass(kind, Message):
        return cast(Deserialize, kind.FromString)
    return cast(Deserialize, kind)


def _own(message: bytes | bytearray | memoryview) -> bytes:
    """Bytes that nobody else can change."""
    return message if message.__class__ is bytes else bytes(message)


def is_message(kind: object) -> TypeGuard[type[Message]]:
    """Whether it is a protobuf class."""
    return isinstance(kind, type) and issubclass(kind, Message)


def _checked(expected: type | tuple[type, ...], name: str, path: str, serialize: Serialize) -> Serialize:
    def checked(message: Any) -> bytes:
        if not isinstance(message, expected):
            given = type(message)
            shown = given.DESCRIPTOR.full_name if isinstance(message, Message) else given.__name__
            raise TypeError(f"{path} takes {name}, not {shown}")
        return serialize(message)

    return checked
