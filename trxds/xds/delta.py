"""The incremental protocol: a request says what we want more or less, a response what has changed (A27's other half).

With ten thousand clusters, one that changes is one resource on the wire and not ten thousand. A
server has to speak it, so it is used where the bootstrap says so, by the server feature below;
clients that do not know the feature ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trxds.resources.cooperative_parse import Slices
from trxds.resources.protos import DeltaDiscoveryRequest, DeltaDiscoveryResponse
from trxds.resources.types import ParseContext, Parsed, ResourceType

from .bootstrap import DELTA
from .discovery_request import DiscoveryRequestParams
from .discovery_response import ParsedResource, ParsedResponse, Raw, failures, read_item
from .resource_names import canonical

FEATURE = DELTA
PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"


class DeltaProtocol:
    """The dialect in which each resource has a version of its own."""

    path = PATH
    response = DeltaDiscoveryResponse
    remedy = f"check that the server speaks the incremental protocol, or take {FEATURE} out of its server_features"
    cumulative = False

    @staticmethod
    def request(ask: DiscoveryRequestParams) -> Any:
        """A nonce is there only in an answer; a request of ours alone has none."""
        asked = ask.asked or frozenset()
        return DeltaDiscoveryRequest(
            type_url=ask.type.type_url,
            resource_names_subscribe=[name for name in ask.names if name not in asked],
            resource_names_unsubscribe=sorted(asked.difference(ask.names)),
            # Only a type's first request on a stream may have any (DeltaDiscoveryRequest); later ones get none.
            initial_resource_versions=_claimed(ask.versions),
            response_nonce=ask.nonce if ask.answers else "",
        )

    @staticmethod
    def read(
        response: Any, type: ResourceType, known: Mapping[Raw, Parsed], context: ParseContext
    ) -> Slices[ParsedResponse]:
        """What `known` has is not parsed again. Whatever is left out is as it was."""
        items: list[ParsedResource] = []
        names: set[str] = set()
        for resource in response.resources:
            if resource.HasField("resource"):  # without, it only says that the resource still lives
                item = yield from read_item(resource.resource, type, known, context, names)
                items.append(_versioned(item, resource))
                yield
        return ParsedResponse(
            type,
            response.system_version_info,
            response.nonce,
            tuple(items),
            failures(response),
            tuple(map(canonical, response.removed_resources)),
            partial=True,
        )


def _claimed(versions: Mapping[str, str]) -> dict[str, str]:
    """What we tell a new stream that we have; of the first one, that we do not know which version.

    If everything is as it was the server need not say anything, and silence cannot be told from a
    server that is of no use. So there is always one thing to send.
    """
    claimed = dict(sorted(versions.items()))
    return claimed | dict.fromkeys(list(claimed)[:1], "")


def _versioned(item: ParsedResource, resource: Any) -> ParsedResource:
    """A resource that cannot be read still has the name that it was sent under."""
    parsed = item.parsed
    if parsed.name is None and resource.name:
        parsed = replace(parsed, name=canonical(resource.name))
    return ParsedResource(item.raw, parsed, resource.version)
