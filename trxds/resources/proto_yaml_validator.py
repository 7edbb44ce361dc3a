"""The validation of a YAML tree against a proto message, with the line and field of each error.

protobuf's own JSON parser stops at its first error and knows no lines of YAML. So the validator walks the tree along
the message's descriptor, and uses the parser for single values only.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from msgspec import Struct

from .protos import TYPE_PREFIX

PARSE_ERRORS = (json_format.ParseError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
"""The errors of `json_format.ParseDict`; all but the first leak out of it."""


_IN_RESOURCES = ("envoy.config.", "envoy.extensions.", "xds.", "udpa.")  # packages of what a resource may have
_NEAR = 0.75  # of 1: how far a name is like the one that was meant


class Problem(Struct, frozen=True, order=True):
    """One error. `line` counts from 1, and is 0 for the file as a whole.

    `field` is the path from the resource, empty for the whole resource.
    """

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.line and f"line {self.line}", self.field, self.message) if part)


class YamlNode(Struct, frozen=True):
    """A node of the YAML tree, and the path to it."""

    node: yaml.Node
    path: str

    def problem(self, message: str) -> Problem:
        return Problem(self.node.start_mark.line + 1, self.path, message)

    def below(self, key: str, node: yaml.Node) -> YamlNode:
        return YamlNode(node, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int, node: yaml.Node) -> YamlNode:
        return YamlNode(node, f"{self.path}[{index}]")


class ProtoValidator:
    """Validates one document. `value_of` returns the plain Python value of a node.

    `pool` has the messages that may be packed; None is the default pool. `mapping` is the document's word for one.
    """

    def __init__(
        self, loader: yaml.SafeLoader, pool: descriptor_pool.DescriptorPool | None = None, mapping: str = "a mapping"
    ) -> None:
        self._loader = loader
        self._pool = pool
        self._mapping = mapping

    def value_of(self, node: yaml.Node) -> Any:
        return self._loader.construct_object(node, deep=True)

    def packed(self, place: YamlNode) -> Iterator[Problem]:
        """Validate an Any in proto-JSON form: the message's fields are beside its `@type`."""
        if not isinstance(place.node, yaml.MappingNode):
            yield place.problem(f"must be {self._mapping} with '@type'")
            return
        kinds = _members(place.node, "@type")
        if not kinds:
            yield place.problem("'@type' is missing")
            return
        kind, *again = kinds
        for each in again:
            yield place.below("@type", each).problem(f"is already set on line {kind.start_mark.line + 1}")
        message = find_message(str(kind.value), self._pool)
        if message is None:
            near = _near_type(str(kind.value)) if self._pool is None else ""
            yield place.below("@type", kind).problem(f"unknown type {kind.value!r}{near}")
        elif _is_plain(message):
            yield from self.message(place, message, skip="@type")
        elif not (values := _members(place.node, "value")):
            yield place.problem("'value' is missing")
        else:
            yield from self.message(place.below("value", values[-1]), message)

    def message(self, place: YamlNode, message: Descriptor, skip: str = "") -> Iterator[Problem]:
        if message.full_name == "google.protobuf.Any":
            yield from self.packed(place)
        elif not _is_plain(message):
            yield from self._parsed_alone(place, message)
        elif not isinstance(place.node, yaml.MappingNode):
            yield place.problem(f"must be {self._mapping}, the fields of {message.full_name}")
        else:
            yield from self._fields(place, message, skip)

    def _fields(self, place: YamlNode, message: Descriptor, skip: str) -> Iterator[Problem]:
        seen: dict[str, int] = {}
        for key, value in place.node.value:
            if key.value == skip:
                continue
            field = _field_of(message, str(key.value))
            if field is None:
                yield place.below(str(key.value), key).problem(_unknown_field(message, str(key.value)))
            elif field.name in seen:
                yield place.below(field.name, key).problem(f"is already set on line {seen[field.name]}")
            else:
                seen[field.name] = key.start_mark.line + 1
                yield from self._field(place.below(field.name, value), field)

    def _field(self, place: YamlNode, field: FieldDescriptor) -> Iterator[Problem]:
        if self.value_of(place.node) is None:
            return  # null is an unset field, as in proto JSON
        if (value_field := _map_value(field)) is not None:
            yield from self._map(place, value_field)
        elif field.is_repeated:
            yield from self._list(place, field)
        else:
            yield from self._single(place, field)

    def _map(self, place: YamlNode, value_field: FieldDescriptor) -> Iterator[Problem]:
        if not isinstance(place.node, yaml.MappingNode):
            yield place.problem(f"must be {self._mapping}")
            return
        yield from repeated_keys(place)
        for key, value in place.node.value:
            yield from self._single(place.below(str(key.value), value), value_field)

    def _list(self, place: YamlNode, field: FieldDescriptor) -> Iterator[Problem]:
        if not isinstance(place.node, yaml.SequenceNode):
            yield place.problem("must be a list")
            return
        for index, node in enumerate(place.node.value):
            yield from self._single(place.item(index, node), field)

    def _single(self, place: YamlNode, field: FieldDescriptor) -> Iterator[Problem]:
        if field.message_type is not None:
            yield from self.message(place, field.message_type)
            return
        value = [self.value_of(place.node)] if field.is_repeated else self.value_of(place.node)
        if field.containing_type is not None:
            yield from _refusal(place, field.containing_type, {field.name: value}, field)

    def _parsed_alone(self, place: YamlNode, message: Descriptor) -> Iterator[Problem]:
        """Validate a type with a JSON form of its own: a duration, a wrapped number, a struct."""
        yield from _repeated_keys_within(place)
        yield from _refusal(place, message, self.value_of(place.node), message.fields_by_name.get("value"))


def repeated_keys(place: YamlNode) -> Iterator[Problem]:
    """Yield a problem for each key that a mapping has again; without it the last one would count, without a word."""
    seen: dict[str, yaml.Node] = {}
    for key, _ in place.node.value:
        if (first := seen.setdefault(str(key.value), key)) is not key:
            yield place.below(str(key.value), key).problem(f"is already set on line {first.start_mark.line + 1}")


def _repeated_keys_within(place: YamlNode) -> Iterator[Problem]:
    if isinstance(place.node, yaml.SequenceNode):
        for index, node in enumerate(place.node.value):
            yield from _repeated_keys_within(place.item(index, node))
    elif isinstance(place.node, yaml.MappingNode):
        yield from repeated_keys(place)
        for key, node in place.node.value:
            yield from _repeated_keys_within(place.below(str(key.value), node))


def find_message(type_url: str, pool: descriptor_pool.DescriptorPool | None = None) -> Descriptor | None:
    """Return the message of a type URL; None if the pool, the default one for None, does not have it."""
    try:
        return (pool or descriptor_pool.Default()).FindMessageTypeByName(type_url.rpartition("/")[2])
    except KeyError:
        return None


def _near_type(type_url: str) -> str:
    """Return the question whether another type was meant; empty if none of the imported messages is like it.

    Packages are much alike, and Envoy has many types that trxds does not know: the message's own name has to be near.
    """
    prefix, slash, name = type_url.rpartition("/")
    # A module of such a name may be a package, or another thread may be about to import it.
    found = [getattr(module, "DESCRIPTOR", None) for path, module in list(sys.modules.items()) if path.endswith("_pb2")]
    files = [file for file in found if isinstance(file, FileDescriptor)]
    messages = [each.full_name for file in files for each in file.message_types_by_name.values()]
    known = [each for each in messages if each.startswith(_IN_RESOURCES)]
    near = difflib.get_close_matches(_own_name(name), {_own_name(each) for each in known}, n=1, cutoff=_NEAR)
    best = difflib.get_close_matches(name, [each for each in known if _own_name(each) in near], n=1, cutoff=0.0)
    return f"; did you mean {(prefix + slash if slash else TYPE_PREFIX) + best[0]!r}?" if best else ""


def _own_name(full_name: str) -> str:
    """Return a message's name without its package, in small letters."""
    return full_name.rpartition(".")[2].lower()


def _refusal(place: YamlNode, message: Descriptor, value: Any, field: FieldDescriptor | None) -> Iterable[Problem]:
    """Return protobuf's error about the value, if any, without the path that protobuf puts before it.

    `field` is the field that the value is for, if any.
    """
    try:
        json_format.ParseDict(value, message_factory.GetMessageClass(message)())
    except PARSE_ERRORS as error:
        first_line = str(error).partition("\n")[0]
        reason = first_line.rpartition("field: ")[2].partition(" at ")[0].rstrip(".")
        if field is not None and field.cpp_type in _WANTED and any(words in reason for words in _OF_PYTHON):
            reason = f"is {_shown(place.node)}; write {_WANTED[field.cpp_type]}"
        return [place.problem(reason or first_line)]
    return []


_OF_PYTHON = ("invalid literal", "bytes-like", "unhashable")  # words of Python's own, which tell nobody what to write

_WANTED = {
    FieldDescriptor.CPPTYPE_INT32: "a whole number",
    FieldDescriptor.CPPTYPE_INT64: "a whole number",
    FieldDescriptor.CPPTYPE_UINT32: "a whole number from 0 on",
    FieldDescriptor.CPPTYPE_UINT64: "a whole number from 0 on",
    FieldDescriptor.CPPTYPE_ENUM: "the name of a value",
    FieldDescriptor.CPPTYPE_STRING: "a string, in quotes if it looks like something else",
}


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _is_plain(message: Descriptor) -> bool:
    """Return whether the message's JSON form has its fields, unlike that of protobuf's well-known types."""
    return not message.full_name.startswith("google.protobuf.") or not message.fields


def _members(node: yaml.MappingNode, name: str) -> list[yaml.Node]:
    """Return the values of that key; more than one if it is written twice."""
    return [value for key, value in node.value if key.value == name]


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the value field of a map field; None for a field that is no map."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None


def _field_of(message: Descriptor, name: str) -> FieldDescriptor | None:
    """Return the field of that name, in either form that proto-JSON allows."""
    return message.fields_by_name.get(name) or message.fields_by_camelcase_name.get(name)


def _unknown_field(message: Descriptor, name: str) -> str:
    text = f"{message.full_name} has no such field"
    near = difflib.get_close_matches(name, [*message.fields_by_name, *message.fields_by_camelcase_name], n=1)
    return f"{text}; did you mean {near[0]!r}?" if near else text
