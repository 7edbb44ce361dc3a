"""The messages of `grpc.channelz.v1`. They are built here because the package that has them depends on grpcio."""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from trxds.resources.proto_pool import load_proto_pool

POOL = load_proto_pool("trxds.admin.channelz", "channelz")
_FILE = POOL.FindFileByName("channelz.proto")
_CLASSES = {name: GetMessageClass(descriptor) for name, descriptor in _FILE.message_types_by_name.items()}

NAMES = tuple(_CLASSES)


def message(name: str) -> Any:
    """Return the message class of that name."""
    return _CLASSES[name]
