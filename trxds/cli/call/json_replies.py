"""Replies, and the details of errors, as JSON. A packed message of an unknown type is shown as bytes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import google.rpc.error_details_pb2  # noqa: F401  # puts the usual details of errors into the default pool
from google.protobuf import descriptor_pool, json_format
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

MAX_DEPTH = 50  # of packed messages inside of each other; protobuf has no limit for them, and Python's stack has one

_ANY = "google.protobuf.Any"
_STRUCT_URL = "type.googleapis.com/google.protobuf.Struct"
_UNKNOWN = ("@type", "@bytes")
# JSON allows these characters as they are; terminals obey some of them, or show the text in another order.
_OBEYED = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def as_json(data: Any, indent: int | None = 2) -> str:
    """Return JSON for a terminal; on one line if `indent` is None."""
    separators = None if indent else (",", ":")
    text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=False)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def reply_data(message: Message, pool: DescriptorPool, with_defaults: bool = False) -> Any:
    """Return the message in JSON's types; a packed message that the pool does not know has `@type` and `@bytes`."""
    _hide_unknown(message, pool)
    try:
        data = json_format.MessageToDict(
            message, always_print_fields_with_no_presence=with_defaults, descriptor_pool=pool
        )
    except (json_format.Error, ValueError):
        # A valid message may have no JSON form: a time after the year 9999, a Value that is infinite.
        packed = base64.b64encode(message.SerializeToString()).decode()
        return {"@type": message.DESCRIPTOR.full_name, "@bytes": packed}
    return _show_hidden(data)


def detail_data(packed: AnyProto, pool: DescriptorPool) -> Any:
    """Return one of the details of an error; Google's own types of details need not be in the pool."""
    known = pool if _unpacked(packed, pool) is not None else descriptor_pool.Default()
    return reply_data(packed, known)


def unknown_types(message: Message, pool: DescriptorPool, depth: int = MAX_DEPTH) -> set[str]:
    """Return the full names of the packed messages that the pool does not know."""
    found: set[str] = set()
    for packed in packed_messages(message):
        inside = _unpacked(packed, pool)
        if inside is None:
            found.add(packed.type_url.rpartition("/")[2])
        elif depth:
            found |= unknown_types(inside, pool, depth - 1)
    return found


def packed_messages(message: Message) -> Iterator[Any]:
    """Yield each `google.protobuf.Any` in the message, but not those inside of another."""
    if message.DESCRIPTOR.full_name == _ANY:
        yield message
        return
    for field, value in message.ListFields():
        for each in _messages(field, value):
            yield from packed_messages(each)


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()
    elif field.is_repeated:
        yield from value
    else:
        yield value


def _unpacked(packed: Any, pool: DescriptorPool) -> Message | None:
    """Return a packed message; None if the pool does not know its type, or its bytes are none of it."""
    try:
        kind = GetMessageClass(pool.FindMessageTypeByName(packed.type_url.rpartition("/")[2]))
        return kind.FromString(packed.value)
    except (KeyError, DecodeError):
        return None


def _hide_unknown(message: Message, pool: DescriptorPool, depth: int = MAX_DEPTH) -> None:
    """Hide the packed messages that cannot be shown, also those inside of others."""
    for packed in packed_messages(message):
        inside = _unpacked(packed, pool) if depth else None
        if inside is None:
            _hide(packed)
        elif any(packed_messages(inside)):
            _hide_unknown(inside, pool, depth - 1)
            packed.value = inside.SerializeToString()


def _hide(packed: Any) -> None:
    """Put a Struct, which JSON has a form for, in the place of bytes that cannot be read."""
    data = Struct()
    data.update({"@type": packed.type_url, "@bytes": base64.b64encode(packed.value).decode()})
    packed.type_url, packed.value = _STRUCT_URL, data.SerializeToString()


def _show_hidden(data: Any) -> Any:
    if isinstance(data, list):
        return [_show_hidden(each) for each in data]
    if not isinstance(data, dict):
        return data
    inside = data.get("value")
    if data.get("@type") == _STRUCT_URL and isinstance(inside, dict) and inside.keys() == set(_UNKNOWN):
        return {key: inside[key] for key in _UNKNOWN}  # a Struct has no order
    return {key: _show_hidden(each) for key, each in data.items()}
