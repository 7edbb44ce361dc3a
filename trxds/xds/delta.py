"""The incremental variant of the xDS protocol: requests and responses have only the changes.

With ten thousand clusters, a change of one is one resource in the response and not ten thousand. A server has to
support it, so it is used where the bootstrap has the server feature `DELTA`, which other clients ignore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import DeltaDiscoveryRequest, DeltaDiscoveryResponse
from trxds.resources.types import ParseContext, Parsed, ResourceType

from .bootstrap import DELTA
from .discovery_request import DiscoveryRequestParams
from .discovery_response import ParsedResource, ParsedResponse, Raw, read_resource, read_resource_errors
from .resource_names import canonical

PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"


class DeltaProtocol:
    """The protocol variant in which each resource has a version of its own."""

    path = PATH
    response = DeltaDiscoveryResponse
    remedy = f"check that the server speaks the incremental protocol, or take {DELTA} out of its server_features"
    cumulative = False

    @staticmethod
    def request(params: DiscoveryRequestParams) -> Any:
        """Return the request. Only an ACK or NACK has a nonce; a change of the subscription alone has none."""
        requested = params.requested or frozenset()
        return DeltaDiscoveryRequest(
            type_url=params.type.type_url,
            resource_names_subscribe=[name for name in params.names if name not in requested],
            # Sorted: the same change makes the same bytes in each run.
            resource_names_unsubscribe=sorted(requested.difference(params.names)),
            # Only a type's first request on a stream may have versions (DeltaDiscoveryRequest); later ones have none.
            initial_resource_versions=_initial_versions(params.versions),
            response_nonce=params.nonce if params.is_answer else "",
        )

    @staticmethod
    def read(
        response: Any, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
    ) -> Slices[ParsedResponse]:
        """Parse a response in slices.

        Resources in `known` are not parsed again; resources that it leaves out are unchanged.
        """
        items: list[ParsedResource] = []
        names: set[str] = set()
        removed = dict.fromkeys(map(canonical, response.removed_resources))
        for resource in response.resources:
            if resource.HasField("resource"):  # without the field it is a heartbeat of a resource with a TTL
                item = yield from read_resource(resource.resource, type, known, context, names, resource.name)
                parsed = item.parsed
                if parsed.name in removed:
                    # As in Envoy: nobody can tell which of the two counts, so neither does.
                    del removed[parsed.name]
                    parsed = Parsed(None, None, (f"{parsed.name}: among the resources and among the removed ones",))
                items.append(ParsedResource(item.raw, parsed, resource.version))
                yield
        return ParsedResponse(
            type,
            response.system_version_info,
            response.nonce,
            tuple(items),
            read_resource_errors(response),
            tuple(removed),
            partial=True,
        )


def _initial_versions(versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions to send with a new stream, but the first resource without its version.

    If nothing has changed, the server need not answer, and silence cannot be told from a server that is of no use. So
    there is always one resource to send.
    """
    claimed = dict(sorted(versions.items()))
    return claimed | dict.fromkeys(list(claimed)[:1], "")
