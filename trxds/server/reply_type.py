"""A handler's reply is checked before it is sent.

Protobuf serializes a message of another type as readily, and `bytes(3)` is three zero bytes: the client would misread
them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import iscoroutine
from typing import Any

from google.protobuf.message import Message


class ReplyTypeError(TypeError):
    """The handler of a method has replied with a value of the wrong type. The message names method and types."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"the handler of {path} {problem}")


def reply_bytes(path: str, reply: object) -> bytes:
    """Return a reply as immutable bytes; `ReplyTypeError` if it is no bytes."""
    if isinstance(reply, bytes):
        return reply
    if isinstance(reply, (bytearray, memoryview)):
        return bytes(reply)
    raise ReplyTypeError(path, f"replied with {_type_name(reply)}, not bytes")


def message_serializer(path: str, expected: type[Message]) -> Callable[[Any], bytes]:
    """Return the function from a reply to bytes; it raises `ReplyTypeError` for another type than `expected`."""
    name = expected.DESCRIPTOR.full_name

    def serialize(reply: Any) -> bytes:
        # By name: the descriptor may come from another pool than the message's class.
        if not isinstance(reply, Message) or reply.DESCRIPTOR.full_name != name:
            raise ReplyTypeError(path, f"replied with {_type_name(reply)}, not {name}")
        return reply.SerializeToString()

    return serialize


def check_awaitable(path: str, returned: object) -> Awaitable[Any]:
    """Return what a handler's function returned; `ReplyTypeError` if it cannot be awaited."""
    if isinstance(returned, Awaitable):
        return returned
    problem = "yielded; a method with one reply returns it" if isinstance(returned, AsyncIterator) else ""
    raise ReplyTypeError(path, problem or f"returned {_type_name(returned)}; write it as `async def`")


def check_async_iterator(path: str, returned: object) -> AsyncIterator[Any]:
    """Return what a handler's function returned; `ReplyTypeError` if it is no async iterator of replies."""
    if isinstance(returned, AsyncIterator):
        return returned
    if iscoroutine(returned):
        returned.close()  # otherwise Python warns that nobody awaited it
        raise ReplyTypeError(path, "does not yield; a method with a stream of replies yields each")
    raise ReplyTypeError(path, f"returned {_type_name(returned)}; write it as `async def` and yield each reply")


def _type_name(value: object) -> str:
    """Return a type's name, of protobuf messages their full name; never the value, which may be a secret."""
    return value.DESCRIPTOR.full_name if isinstance(value, Message) else type(value).__name__
