"""The messages of resources, and the fields in them that xDS marks as sensitive: operators must not see these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from .protos import sensitive


def parse_message(url: str, data: bytes) -> Message | None:
    """Return the message of that type URL; None for an unknown type, and for bytes that are no such message."""
    try:
        descriptor = descriptor_pool.Default().FindMessageTypeByName(url.rpartition("/")[2])
        return message_factory.GetMessageClass(descriptor).FromString(data)
    except (KeyError, DecodeError):
        return None


def is_sensitive(field: FieldDescriptor) -> bool:
    """Return whether xDS marks the field as sensitive."""
    return bool(field.GetOptions().Extensions[sensitive])


def without_sensitive_fields(url: str, data: bytes) -> bytes:
    """Return the message's bytes without its sensitive and unknown fields: as they came if it has none of these.

    For a message of an unknown type there are none.
    """
    message = parse_message(url, data)
    if message is None:
        return b""  # nobody can say which fields of it are sensitive
    is_changed, size = _clear(message), message.ByteSize()
    message.DiscardUnknownFields()  # nor of these
    return message.SerializeToString() if is_changed or message.ByteSize() != size else data


def _clear(message: Any) -> bool:
    """Clear sensitive fields, those in messages of an Any too; return whether there were any."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Any":
        inner = message.value
        message.value = without_sensitive_fields(message.type_url, inner)
        return bool(message.value != inner)
    cleared = False
    for field, value in message.ListFields():
        if is_sensitive(field):
            message.ClearField(field.name)
            cleared = True
        else:
            for each in _messages(field, value):
                cleared |= _clear(each)
    return cleared


def _messages(field: FieldDescriptor, value: Any) -> Iterable[Message]:
    if field.message_type is None:
        return ()
    if field.message_type.GetOptions().map_entry:
        return value.values() if field.message_type.fields_by_name["value"].message_type is not None else ()
    return value if field.is_repeated else (value,)
