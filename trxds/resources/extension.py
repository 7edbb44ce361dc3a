"""Extensions: the messages in an Any (A52).

A TypedStruct names the type of its content, which is JSON, because its receiver may not have that type as a message.
gRPC takes a TypedStruct for a program's own LB policies and HTTP filters only (A39, A52); elsewhere it counts as an
unsupported type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from . import protos
from .validation_errors import ValidationErrors

# One message under two names: udpa's is the older one, and A52 takes both.
_TYPED_STRUCTS = {"xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"}


class Extension(Struct, frozen=True):
    """An extension by `type_name`, without the URL's prefix. A TypedStruct of that type has `fields` and no `value`.

    `filter_name` is the name of the HTTP filter that it configures, if it does.
    """

    type_name: str
    value: bytes | None
    problems: ValidationErrors  # at the value, for its parser
    fields: Mapping[str, Any] | None = None
    filter_name: str = ""

    def parse(self, message_class: Any, undecodable: str) -> Any | None:
        """Return the message; None (and the problem `undecodable`) for bad bytes, and for a TypedStruct."""
        message = parse(message_class, self.value) if self.value is not None else None
        if message is None:
            self.problems.add(undecodable)
        return message

    def parse_only(self, message_class: Any, wrong_type: str, undecodable: str) -> Any | None:
        """Return the message if it has this type; the problem is `wrong_type` for another one."""
        if self.type_name == protos.type_name(message_class):
            return self.parse(message_class, undecodable)
        self.problems.add(wrong_type)
        return None


def parse(message_class: Any, value: bytes) -> Any | None:
    """Return the message of these bytes, or None if they cannot be parsed."""
    try:
        return message_class.FromString(value)
    except protos.DecodeError:
        return None


def extension(parent: Any, field: str, problems: ValidationErrors) -> Extension | None:
    """Return the extension in that field of `parent`; None (and a problem) if it is unset or has no type."""
    return unpack(getattr(parent, field), problems.at(field)) if problems.has_field(parent, field) else None


def unpack(packed: Any, problems: ValidationErrors) -> Extension | None:
    name = _strip_prefix(packed.type_url, problems)
    if name is None:
        return None
    below = problems.at(f"value[{name}]")
    if name not in _TYPED_STRUCTS:
        return Extension(name, packed.value, below)
    struct = parse(protos.TypedStruct, packed.value)
    if struct is None:
        below.add("could not parse")
        return None
    # A52 takes the part after the last slash; as in grpc-go and grpc-java that is all of it where there is no slash.
    inner = _strip_prefix(struct.type_url, below, needs_slash=False)
    if inner is None:
        return None
    return Extension(inner, None, below.at(f"value[{inner}]"), protos.plain(struct.value))


def _strip_prefix(type_url: str, problems: ValidationErrors, *, needs_slash: bool = True) -> str | None:
    if not type_url:
        problems.at("type_url").add("field not present")
        return None
    # protobuf leaves the prefix before the last slash to the sender.
    _, slash, name = type_url.rpartition("/")
    if not name or (needs_slash and not slash):
        problems.at("type_url").add(f'invalid value "{type_url}"')
        return None
    return name
