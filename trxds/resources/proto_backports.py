"""Messages of the xDS API that the installed xds-protos may not have yet.

If xds-protos has a message, its own is used: the same message cannot be defined twice.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from .proto_pool import load_descriptor_files

_PACKAGE = "envoy.extensions.load_balancing_policies.random_subsetting.v3"


def _random_subsetting() -> Any:
    """Return the class of the configuration message of A68's policy."""
    parent, _, _ = _PACKAGE.rpartition(".")
    if importlib.util.find_spec(parent) is not None:
        return importlib.import_module(f"{_PACKAGE}.random_subsetting_pb2").RandomSubsetting
    # It has to be in the default pool, because it refers to messages of xds-protos.
    pool = descriptor_pool.Default()
    (file,) = load_descriptor_files("trxds.resources", "random_subsetting")
    file.name = f"{_PACKAGE.replace('.', '/')}/random_subsetting.proto"
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.RandomSubsetting"))


RandomSubsetting: Any = _random_subsetting()
