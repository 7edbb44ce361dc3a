"""Messages that no dependency has, read from descriptor sets that protoc made of the .proto files beside them.

`make protos` compiles them after a change; a test fails while a descriptor set is older than its source.
"""

from __future__ import annotations

from collections.abc import Iterator
from pkgutil import get_data

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool


def load_descriptor_files(package: str, name: str) -> Iterator[FileDescriptorProto]:
    """Yield the files of `name`.binpb in the package, each after those that it imports."""
    # Not importlib.resources, which takes 3 ms to import; protobuf has imported pkgutil already.
    data = get_data(package, f"{name}.binpb")
    assert data is not None
    yield from FileDescriptorSet.FromString(data).file


def load_proto_pool(package: str, name: str) -> DescriptorPool:
    """Return a pool that has `name`.proto of the package, and what that imports, and nothing else.

    The default pool does not know these messages, so a program may have generated ones of the same names, or of a
    later version.
    """
    pool = DescriptorPool()
    for file in load_descriptor_files(package, name):
        pool.AddSerializedFile(file.SerializeToString())
    return pool
