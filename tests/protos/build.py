"""Compile the .proto files of the package to the descriptor sets beside them, with protoc.

python tests/protos/build.py    (make protos)
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import envoy.config.cluster.v3.cluster_pb2
import grpc_tools
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

PACKAGE = Path(__file__).parent.parent.parent / "trxds"
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
# xds-protos has modules and no texts, so protoc is given what they describe.
XDS = envoy.config.cluster.v3.cluster_pb2.DESCRIPTOR


def sources() -> list[Path]:
    """Every .proto file of the package."""
    return sorted(PACKAGE.rglob("*.proto"))


def compiled(source: Path) -> FileDescriptorSet:
    """Compile one file: with the well-known types that it imports, but without what xds-protos brings."""
    with tempfile.TemporaryDirectory() as folder:
        known, result = Path(folder) / "known.binpb", Path(folder) / "result.binpb"
        imported = FileDescriptorSet()
        for each in _with_dependencies(XDS, set()):
            each.CopyToProto(imported.file.add())
        known.write_bytes(imported.SerializeToString())
        arguments = ["protoc", f"-I{source.parent}", f"--descriptor_set_out={result}"]
        if b"envoy/" in source.read_bytes():
            arguments += [f"--descriptor_set_in={known}"]
        else:
            arguments += [f"-I{WELL_KNOWN}", "--include_imports"]
        if protoc.main([*arguments, source.name]) != 0:
            raise SystemExit(f"protoc refuses {source}")
        return FileDescriptorSet.FromString(result.read_bytes())


def _with_dependencies(file: FileDescriptor, seen: set[str]) -> Iterator[FileDescriptor]:
    """What a file imports, then the file."""
    if file.name in seen:
        return
    seen.add(file.name)
    for each in file.dependencies:
        yield from _with_dependencies(each, seen)
    yield file


if __name__ == "__main__":
    for path in sources():
        path.with_suffix(".binpb").write_bytes(compiled(path).SerializeToString(deterministic=True))
        sys.stdout.write(f"{path.with_suffix('.binpb').relative_to(PACKAGE.parent)}\n")
