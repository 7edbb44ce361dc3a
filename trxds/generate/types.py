"""The place of each .proto message in Python: its module, and the names that lead to it in the module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from msgspec import Struct

from .names import are_identifiers, module_of


class Place(Struct, frozen=True):
    """The place of one message in Python. `typed`: a type checker can know the class."""

    proto: str
    names: tuple[str, ...]
    typed: bool

    @property
    def module(self) -> str:
        return module_of(self.proto, "_pb2")

    def expression(self, module: str) -> str:
        """Return the expression for the message's class, if its module is called `module`."""
        if self.typed:
            return ".".join((module, *self.names))
        for name in self.names:
            module = f'getattr({module}, "{name}")'
        return module


def places_of(files: Iterable[FileDescriptorProto]) -> Mapping[str, Place]:
    """Return the place of every message by its full name with a leading dot.

    `files` come after the files that they import.
    """
    places = {}
    typed: dict[str, bool] = {}
    for file in files:
        package = f".{file.package}" if file.package else ""
        found = [names for message in file.message_type for names in _messages(message, ())]
        # What a file imports publicly stands in its .pyi by name.
        public = (file.dependency[n] for n in file.public_dependency)
        typed[file.name] = _typed(file, found) and all(typed[each] for each in public)
        for names in found:
            places[".".join((package, *names))] = Place(file.name, names, typed[file.name])
    return places


def _messages(message: DescriptorProto, outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    names = (*outer, message.name)
    yield names
    for nested in message.nested_type:
        yield from _messages(nested, names)


def _typed(file: FileDescriptorProto, messages: Iterable[tuple[str, ...]]) -> bool:
    # protoc writes `class class(Message):` into its .pyi as readily as any name, and then no line of
    # that file can be read. And a module whose name is a keyword can be imported, but not named as a type.
    names = [name for each in messages for name in each] + [enum.name for enum in file.enum_type]
    return are_identifiers(*names, *module_of(file.name, "_pb2").split("."))
