"""The generated messages of the admin services. They have a module of their own because importing them takes time."""

from __future__ import annotations

from envoy.admin.v3.config_dump_shared_pb2 import ClientResourceStatus, UpdateFailureState
from envoy.service.status.v3.csds_pb2 import ClientConfig, ClientStatusRequest, ClientStatusResponse
from udpa.annotations.sensitive_pb2 import sensitive

__all__ = [
    "ClientConfig",
    "ClientResourceStatus",
    "ClientStatusRequest",
    "ClientStatusResponse",
    "UpdateFailureState",
    "sensitive",
]
