"""The content of a discovery request, whichever variant of the xDS protocol it is sent in (A27)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from trxds.core.status import StatusCode
from trxds.core.version import VERSION
from trxds.resources.cooperative_parse import Slices
from trxds.resources.types import ParseContext, Parsed, ResourceType

from .bootstrap import Node
from .discovery_response import ParsedResponse, Raw

USER_AGENT_NAME = "trxds"
# A27: gRPC ignores overprovisioning_factor, and servers should know. The second feature means that resources may come
# in the Resource wrapper in state of the world too.
CLIENT_FEATURES = ("envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw")


class DiscoveryRequestParams(Struct, frozen=True):
    """The content of one request. With `is_answer` it is the ACK or NACK of the response with that nonce."""

    type: ResourceType
    names: Collection[str]  # all wanted resources
    requested: frozenset[str] | None  # the names of the type's last request on this stream; None before the first
    version: str  # the type's last accepted version
    versions: Mapping[str, str]  # the version of each cached resource; "" if it is not from this server
    nonce: str
    is_answer: bool


class ProtocolVariant(Protocol):
    """One of the two variants of the xDS protocol. Messages are `Any`: the generated classes have no types."""

    path: str
    response: Any
    remedy: str
    """The advice for a server that does not support it."""
    cumulative: bool
    """Whether each request has all names, and its nonce answers all responses up to that one."""

    def request(self, params: DiscoveryRequestParams) -> Any: ...

    def read(
        self, response: Any, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
    ) -> Slices[ParsedResponse]: ...


def set_node(request: Any, node: Node) -> None:
    """Set the node: the identity of the client, and the xDS features that it supports beyond the baseline."""
    to = request.node
    to.id, to.cluster = node.id, node.cluster
    to.locality.region, to.locality.zone = node.locality.region, node.locality.zone
    to.locality.sub_zone = node.locality.sub_zone
    to.metadata.update(node.metadata)
    to.user_agent_name, to.user_agent_version = USER_AGENT_NAME, VERSION
    to.client_features.extend(CLIENT_FEATURES)


def set_nack(request: Any, errors: tuple[str, ...]) -> None:
    """Make the request a NACK, with the text of the C++ client."""
    request.error_detail.code = StatusCode.INVALID_ARGUMENT
    request.error_detail.message = f"xDS response validation errors: [{'; '.join(errors)}]"
