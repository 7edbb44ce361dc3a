"""The state-of-the-world variant: requests name all wanted resources, responses have all that exist (A27).

A Listener or Cluster that a response leaves out was deleted; for other types it is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import DiscoveryRequest, DiscoveryResponse
from trxds.resources.types import ParseContext, Parsed, ResourceType

from .discovery_request import DiscoveryRequestParams
from .discovery_response import ParsedResource, ParsedResponse, Raw, read_resource, read_resource_errors

PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"


class SotwProtocol:
    """The protocol variant that every control plane supports."""

    path = PATH
    response = DiscoveryResponse
    remedy = "check that server_uri is an xDS server's"
    cumulative = True

    @staticmethod
    def request(params: DiscoveryRequestParams) -> DiscoveryRequest:
        """Return the request.

        It has the type's last nonce even if it answers nothing, to say which names it is based on.
        """
        return DiscoveryRequest(
            type_url=params.type.type_url,
            version_info=params.version,
            response_nonce=params.nonce,
            resource_names=params.names,
        )

    @staticmethod
    def read(
        response: DiscoveryResponse, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
    ) -> Slices[ParsedResponse]:
        """Parse a response in slices; resources in `known` are not parsed again."""
        items: list[ParsedResource] = []
        names: set[str] = set()
        for resource in response.resources:
            items.append((yield from read_resource(resource, type, known, context, names)))
            yield
        return ParsedResponse(type, response.version_info, response.nonce, tuple(items), read_resource_errors(response))
