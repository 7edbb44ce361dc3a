"""The messages of connectconformance, made from its own .proto files, which lie in Go's module cache.

    protos = conformance_protos()
    protos.UnaryRequest(request_data=b"...")

They are compiled by grpcio-tools at run time, because they are not ours to copy. A program that is started
many times is given them compiled: `write_descriptors` them once, and name the file in the environment
(`DESCRIPTORS`). The programs on both sides of connectconformance talk in messages with their length before them.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from typing import Any, BinaryIO

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "connectrpc.conformance.v1"
SERVICE = f"{PACKAGE}.ConformanceService"
DESCRIPTORS = "CONFORMANCE_DESCRIPTORS"
"""The environment variable that names a file made by `write_descriptors`."""

_MODULE = "connectrpc.com/conformance"
_VERSION = "v1.0.7"
_GO = Path(__file__).parent.parent / "peers" / "go"  # whose go.mod pins the module, if it does
_LENGTH = struct.Struct(">I")


class ConformanceProtos:
    """Its attributes are the message classes and enums of connectrpc.conformance.v1."""

    def __init__(self, descriptors: bytes) -> None:
        self.pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(descriptors).file:  # in the order in which they need each other
            self.pool.Add(file)

    def __getattr__(self, name: str) -> Any:
        try:
            return GetMessageClass(self.pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        except KeyError:
            raise AttributeError(f"{PACKAGE} has no message {name}") from None

    @property
    def service(self) -> ServiceDescriptor:
        """The service that the server under test implements."""
        return self.pool.FindServiceByName(SERVICE)

    def message_for(self, any_message: Any) -> Any:
        """The message in a google.protobuf.Any."""
        kind = self.pool.FindMessageTypeByName(any_message.type_url.rpartition("/")[2])
        return GetMessageClass(kind).FromString(any_message.value)


def conformance_protos() -> ConformanceProtos:
    """From the file that the environment names, or compiled now; `RuntimeError` if Go or the module cannot be had."""
    if DESCRIPTORS in os.environ:
        return ConformanceProtos(Path(os.environ[DESCRIPTORS]).read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        return ConformanceProtos(write_descriptors(Path(folder)).read_bytes())


def write_descriptors(folder: Path) -> Path:
    """Compile the .proto files to one file in `folder`; `RuntimeError` if Go or the module cannot be had."""
    sources = _module_folder() / "proto"
    made = folder / "conformance.binpb"
    files = sorted(str(path.relative_to(sources)) for path in (sources / PACKAGE.replace(".", "/")).glob("*.proto"))
    flags = [f"-I{sources}", f"--descriptor_set_out={made}", "--include_imports"]
    _run([sys.executable, "-m", "grpc_tools.protoc", *flags, *files])
    return made


def _module_folder() -> Path:
    """Where Go keeps the module's source; it is downloaded if it is not there."""
    if which("go") is None:
        raise RuntimeError("Go is not installed, so the .proto files of connectconformance cannot be had")
    pinned = (_GO / "go.mod").exists() and _MODULE in (_GO / "go.mod").read_text()
    module, where = (_MODULE, _GO) if pinned else (f"{_MODULE}@{_VERSION}", None)
    return Path(json.loads(_run(["go", "mod", "download", "-json", module], where))["Dir"])


def _run(command: list[str], where: Path | None = None) -> str:
    done = subprocess.run(command, check=False, cwd=where, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# -- how connectconformance talks with the programs under test


def read_message(stream: BinaryIO, kind: Any) -> Any | None:
    """The next message of that class, which has its length before it; None at the end."""
    prefix = stream.read(_LENGTH.size)
    if not prefix:
        return None
    (size,) = _LENGTH.unpack(prefix)
    return kind.FromString(stream.read(size))


def write_message(stream: BinaryIO, message: Any) -> None:
    """Write a message with its length before it, at once."""
    data = message.SerializeToString()
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()
