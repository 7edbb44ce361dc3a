"""The resources of an xDS client as CSDS messages (A40): each with its version, its state and its last error.

Fields that xDS marks as sensitive are cleared, because an operator must not see a private key. Of a message that is not
known here, or cannot be parsed, there is the type alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from trxds.core.clock import Clock
from trxds.xds.bootstrap import Node
from trxds.xds.discovery_request import set_node
from trxds.xds.discovery_response import NO_BYTES
from trxds.xds.resource import Resource, UpdateMetadata

from .protos import ClientConfig, ClientResourceStatus
from .resource_message import without_sensitive_fields

SERVICE = "/envoy.service.status.v3.ClientStatusDiscoveryService"


class CsdsEncoder(Struct, frozen=True):
    """Makes CSDS messages of resources."""

    clock: Clock
    contents: bool = True  # or only names, versions and states

    def configs(self, resources: Iterable[Resource]) -> list[Any]:
        """Return the GenericXdsConfigs of resources."""
        return list(map(self.config, resources))

    def config(self, resource: Resource) -> Any:
        """Return the GenericXdsConfig of a resource."""
        message = ClientConfig.GenericXdsConfig(
            type_url=resource.type.type_url,
            name=resource.name,
            client_status=ClientResourceStatus.Value(resource.state.name),
        )
        if resource.accepted is not None:
            self._fill(message, "xds_config", "last_updated", resource.accepted)
        if resource.failed is not None:
            error = message.error_state
            error.details = resource.failure.reason if resource.failure else ""
            self._fill(error, "failed_configuration", "last_update_attempt", resource.failed)
        if resource.stale_note:
            # CSDS has no state for it: the status is REQUESTED, and an operator has to see why there is a value.
            details = message.error_state.details
            message.error_state.details = f"{resource.stale_note}: {details}" if details else resource.stale_note
        return message

    def _fill(self, message: Any, content: str, time: str, update: UpdateMetadata) -> None:
        message.version_info = update.version
        self.clock.stamp(getattr(message, time), update.at)
        if self.contents and update.raw != NO_BYTES:
            packed = getattr(message, content)
            url, data = update.raw
            packed.type_url, packed.value = url, without_sensitive_fields(url, data)


def client_config(scope: str, node: Node) -> Any:
    """Return a ClientConfig without resources; `scope` is the target, empty for a client that is shared."""
    config = ClientConfig(client_scope=scope)
    set_node(config, node)
    return config
