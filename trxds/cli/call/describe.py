"""Services, methods and messages in the words of a .proto file, and a request to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    OneofDescriptor,
    ServiceDescriptor,
)

from .schema import Symbol

MAX_DEPTH = 4  # of messages inside of each other in a template

_SCALARS = {
    value: name.removeprefix("TYPE_").lower() for name, value in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}
# Well-known types with a JSON form that is not their fields.
_JSON_FORMS: dict[str, Any] = {
    "google.protobuf.Timestamp": "2026-01-31T12:00:00Z",
    "google.protobuf.Duration": "1.5s",
    "google.protobuf.FieldMask": "",
    "google.protobuf.Struct": {},
    "google.protobuf.Value": None,
    "google.protobuf.ListValue": [],
    "google.protobuf.Any": {"@type": "type.googleapis.com/package.Message"},
}


def describe(symbol: Symbol) -> Iterator[str]:
    """Yield the lines of a symbol: a method with its request and reply, and what a message has inside of it."""
    match symbol:
        case ServiceDescriptor():
            yield f"service {symbol.full_name} {{"
            yield from (f"  {rpc_line(method)}" for method in symbol.methods)
            yield "}"
        case MethodDescriptor():
            yield rpc_line(symbol)
            for message in dict.fromkeys((symbol.input_type, symbol.output_type)):
                yield ""
                yield from describe(message)
        case Descriptor():
            yield f"message {symbol.full_name} {{"
            yield from _fields(symbol)
            yield "}"
            messages = (each for each in symbol.nested_types if not each.GetOptions().map_entry)
            nested: tuple[Descriptor | EnumDescriptor, ...] = (*messages, *symbol.enum_types)
            for each in nested:
                yield ""
                yield from describe(each)
        case EnumDescriptor():
            yield f"enum {symbol.full_name} {{"
            yield from (f"  {value.name} = {value.number};" for value in symbol.values)
            yield "}"


def rpc_line(method: MethodDescriptor) -> str:
    """Return the method's line in its service."""
    takes = f"{'stream ' if method.client_streaming else ''}{method.input_type.full_name}"
    returns = f"{'stream ' if method.server_streaming else ''}{method.output_type.full_name}"
    return f"rpc {method.name}({takes}) returns ({returns});"


def _fields(message: Descriptor) -> Iterator[str]:
    seen: set[OneofDescriptor] = set()
    for field in message.fields:
        oneof = field.containing_oneof
        if oneof is None or _is_optional(field):
            yield f"  {_field(field)}"
        elif oneof not in seen:
            seen.add(oneof)
            yield f"  oneof {oneof.name} {{"
            yield from (f"    {_field(each)}" for each in oneof.fields)
            yield "  }"


def _is_optional(field: FieldDescriptor) -> bool:
    """Return whether the field is `optional` in proto3, which makes a oneof of that one field."""
    oneof = field.containing_oneof
    return oneof is not None and oneof.name == f"_{field.name}"


def _field(field: FieldDescriptor) -> str:
    label = "repeated " if field.is_repeated else "required " if field.is_required else ""
    label = "optional " if _is_optional(field) else label
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number};"
    return f"{label}{_type(field)} {field.name} = {field.number};"


def _type(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    return str(named.full_name) if named is not None else _SCALARS[field.type]


def template(message: Descriptor, above: frozenset[str] = frozenset()) -> Any:
    """Return a request in JSON's types with every field in it; of a oneof the first, since it takes one.

    A message inside of itself is left empty, and so is one below `MAX_DEPTH` others; `above` has their names.
    """
    if message.full_name in _JSON_FORMS:
        return _JSON_FORMS[message.full_name]
    if message.full_name.startswith("google.protobuf.") and message.full_name.endswith("Value"):
        return _value(message.fields_by_name["value"], above)
    if message.full_name in above or len(above) >= MAX_DEPTH:
        return {}
    above |= {message.full_name}
    return {field.json_name: _template_of(field, above) for field in message.fields if _is_first(field)}


def _is_first(field: FieldDescriptor) -> bool:
    oneof = field.containing_oneof
    return oneof is None or oneof.fields[0] is field or oneof.fields[0].number == field.number


def _template_of(field: FieldDescriptor, above: frozenset[str]) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key = _value(entry.fields_by_name["key"], above)
        return {str(key).lower(): _value(entry.fields_by_name["value"], above)}
    return [_value(field, above)] if field.is_repeated else _value(field, above)


def _value(field: FieldDescriptor, above: frozenset[str]) -> Any:
    if field.message_type is not None:
        return template(field.message_type, above)
    if field.enum_type is not None:
        return field.enum_type.values[0].name
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return ""
        case FieldDescriptor.CPPTYPE_BOOL:
            return False
        case FieldDescriptor.CPPTYPE_INT64 | FieldDescriptor.CPPTYPE_UINT64:
            return "0"  # JSON's numbers have 53 bits, so proto JSON has these as texts
    return 0
