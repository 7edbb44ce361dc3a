"""A schema has the services and messages of a call: those of a descriptor set, or of the server's reflection.

Each schema has a pool of its own, so the server's messages never meet those of xds-protos, which may be other versions.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Protocol

from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from trxds.cli.exit_codes import FAILURE, USAGE

Symbol = ServiceDescriptor | MethodDescriptor | Descriptor | EnumDescriptor

# Files that servers import and may not have; an import by another name is never tried, because the server chooses it.
_BUNDLED = re.compile(r"google/(?:protobuf|rpc|api)/[a-z_]+\.proto")


class CallError(Exception):
    """The command cannot go on: the message is for the user, and `code` is the exit status."""

    def __init__(self, message: str, code: int = FAILURE) -> None:
        super().__init__(message)
        self.code = code


class Schema(Protocol):
    """The services and messages that are known, or can be asked for."""

    pool: DescriptorPool
    """What is known by now."""

    async def services(self) -> list[str]:
        """Return the full names of all services, in order."""

    async def load(self, symbol: str) -> bool:
        """Make a symbol known to the pool, with all that it needs; return whether there is such a symbol."""


class FileSchema:
    """The schema of a descriptor set."""

    def __init__(self, files: FileDescriptorSet, source: str) -> None:
        """Raises `CallError` if files are missing in the set, or contradict each other; `source` is its name."""
        self.pool = new_pool()
        found = {file.name: file for file in files.file}
        missing = [name for file in files.file for name in file.dependency if name not in found]
        found |= {name: file for name in missing if (file := bundled_file(name)) is not None}
        try:
            add_files(self.pool, found)
        except CallError as error:
            raise CallError(f"{source}: {error}; make it with protoc's --include_imports", USAGE) from None
        self._services = sorted(_full_name(file, each.name) for file in files.file for each in file.service)

    async def services(self) -> list[str]:
        return self._services

    async def load(self, symbol: str) -> bool:
        return find_symbol(self.pool, symbol) is not None


def read_descriptor_set(data: bytes, source: str) -> FileSchema:
    """Return the schema of a compiled descriptor set; `CallError` if it is none."""
    try:
        files = FileDescriptorSet.FromString(data)
    except DecodeError:
        files = FileDescriptorSet()
    if not files.file:
        remedy = "make one with protoc --include_imports --descriptor_set_out"
        raise CallError(f"{source} is no descriptor set; {remedy}", USAGE)
    return FileSchema(files, source)


def new_pool() -> DescriptorPool:
    """Return a pool that has the file of `google.protobuf.Struct`, as which unknown messages are shown."""
    pool = DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    return pool


def add_files(pool: DescriptorPool, files: Mapping[str, FileDescriptorProto]) -> None:
    """Add files to the pool, each after those that it imports. Raises `CallError`.

    An import that nobody has is left out: most are for options only. If a type of it is used, the pool refuses.
    """
    imports = {name: [each for each in file.dependency if each in files] for name, file in files.items()}
    try:
        order = tuple(TopologicalSorter(imports).static_order())
    except CycleError as error:
        raise CallError(f"these files import each other: {', '.join(error.args[1])}") from None
    for name in order:
        file = files[name]
        missing = [each for each in file.dependency if each not in files and not _has_file(pool, each)]
        if _has_file(pool, name):
            continue
        try:
            pool.AddSerializedFile(_without_imports(file, missing).SerializeToString())
        except TypeError as error:
            reason = f"it imports {', '.join(missing)}, which is missing" if missing else str(error)
            raise CallError(f"{name} cannot be used: {reason}") from None


def _without_imports(file: FileDescriptorProto, missing: Iterable[str]) -> FileDescriptorProto:
    if not missing:
        return file
    kept = [name for name in file.dependency if name not in missing]
    public = [file.dependency[number] for number in file.public_dependency]
    made = FileDescriptorProto()
    made.CopyFrom(file)
    for field in ("dependency", "public_dependency", "weak_dependency"):  # the latter two are positions in the first
        made.ClearField(field)
    made.dependency.extend(kept)
    made.public_dependency.extend(kept.index(name) for name in public if name in kept)
    return made


def bundled_file(name: str) -> FileDescriptorProto | None:
    """Return a file of Google's that is installed with protobuf or xds-protos; None for others."""
    if not _BUNDLED.fullmatch(name):
        return None
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def find_symbol(pool: DescriptorPool, name: str) -> Symbol | None:
    """Return the service, method, message or enum of that full name; None if the pool has none."""
    for find in (
        pool.FindServiceByName,
        pool.FindMethodByName,
        pool.FindMessageTypeByName,
        pool.FindEnumTypeByName,
    ):
        try:
            found: Symbol = find(name)
        except KeyError:
            continue
        return found
    return None


def _has_file(pool: DescriptorPool, name: str) -> bool:
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True


def _full_name(file: FileDescriptorProto, name: str) -> str:
    return f"{file.package}.{name}" if file.package else name
