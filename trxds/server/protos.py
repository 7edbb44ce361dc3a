"""The messages of server reflection, `grpc.reflection.v1`; v1alpha has the same ones under another name."""

from __future__ import annotations

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from trxds.resources.proto_pool import load_proto_pool

REFLECTION_POOL = load_proto_pool("trxds.server", "reflection")


def _message(name: str) -> Any:
    return GetMessageClass(REFLECTION_POOL.FindMessageTypeByName(f"grpc.reflection.v1.{name}"))


ReflectionRequest = _message("ServerReflectionRequest")
ReflectionResponse = _message("ServerReflectionResponse")

REFLECTION_PATHS = tuple(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo" for version in ("v1", "v1alpha")
)
"""The method's path in each version, the newest first."""
