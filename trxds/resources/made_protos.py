"""Messages and services that no dependency has, made from a line for each, in a pool of their own.

To the default pool they are unknown, so a program that has generated ones of the same names, or of a later
version, is not disturbed.

    pool = make("my.proto", "my.pkg", {"Point": "int32 x = 1; int32 y = 2"}, {"Maps": "Find Point -> stream Point"})
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
}
_FIELD = re.compile(r"(repeated )?(\w+|map<string, (\w+)>) (\w+) = (\d+)")
_METHOD = re.compile(r"(\w+) (stream )?(\w+) -> (stream )?(\w+)")


def make(file_name: str, package: str, messages: Mapping[str, str], services: Mapping[str, str] | None = None) -> Any:
    """A pool of that one file. A field's type is a scalar, a message of the file, or a map from texts to scalars."""
    file = descriptor_pb2.FileDescriptorProto(name=file_name, package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field in _FIELD.finditer(fields):
            _add_field(message, package, field)
    for name, methods in (services or {}).items():
        service = file.service.add(name=name)
        for method, from_client, request, from_server, reply in _METHOD.findall(methods):
            service.method.add(
                name=method,
                input_type=f".{package}.{request}",
                output_type=f".{package}.{reply}",
                client_streaming=bool(from_client),
                server_streaming=bool(from_server),
            )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_field(message: Any, package: str, said: re.Match[str]) -> None:
    repeated, kind, of_map, name, number = said.groups()
    label = _Field.LABEL_REPEATED if repeated or of_map else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{_map_entry(message, name, of_map) if of_map else kind}"


def _map_entry(message: Any, name: str, values: str) -> str:
    entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=_SCALARS[values], label=_Field.LABEL_OPTIONAL)
    return f"{message.name}.{entry.name}"
