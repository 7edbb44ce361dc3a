"""Messages as plain data for people: proto-JSON, in which unknown extensions and secrets do not stop or tell anything.

`json_format` raises an error if one Any in the message has a type that the program does not know. Control planes send
such types, for servers.
"""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ..resource_message import is_sensitive, parse_message

HIDDEN = "(hidden)"


def message_data(url: str, data: bytes) -> dict[str, Any]:
    """Return the message of that type URL in proto-JSON's types, with `@type`."""
    message = parse_message(url, data)
    if message is None:
        return {"@type": url, "bytes": f"{len(data)} bytes that this program cannot read"}
    plain = _message(message)
    return {"@type": url, **(plain if isinstance(plain, dict) else {"value": plain})}


def _message(message: Message) -> Any:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Any":
        return message_data(message.type_url, message.value)  # type: ignore[attr-defined]  # an Any has both
    if name.startswith("google.protobuf."):  # Duration, Struct, wrappers: each has a form of its own
        return json_format.MessageToDict(message)
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def _field(field: FieldDescriptor, value: Any) -> Any:
    if is_sensitive(field):
        return HIDDEN
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name["value"]
        return {str(key): _single(entry, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
