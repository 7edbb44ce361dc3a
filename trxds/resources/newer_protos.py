"""Messages of the xDS API that the installed xds-protos may not have yet, made from their fields.

Once a release has them, its own are taken: the same message cannot be defined twice.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "envoy.extensions.load_balancing_policies.random_subsetting.v3"
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ONE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL


def _random_subsetting() -> Any:
    """A68: `google.protobuf.UInt32Value subset_size = 1; LoadBalancingPolicy child_policy = 2`."""
    parent, _, _ = _PACKAGE.rpartition(".")
    if importlib.util.find_spec(parent) is not None:
        return importlib.import_module(f"{_PACKAGE}.random_subsetting_pb2").RandomSubsetting
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE.replace('.', '/')}/random_subsetting.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto", "envoy/config/cluster/v3/cluster.proto"],
    )
    message = file.message_type.add(name="RandomSubsetting")
    size, child = ".google.protobuf.UInt32Value", ".envoy.config.cluster.v3.LoadBalancingPolicy"
    message.field.add(name="subset_size", number=1, type=_MESSAGE, label=_ONE, type_name=size)
    message.field.add(name="child_policy", number=2, type=_MESSAGE, label=_ONE, type_name=child)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.RandomSubsetting"))


RandomSubsetting: Any = _random_subsetting()
