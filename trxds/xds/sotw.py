"""The state-of-the-world variant: requests name all wanted resources, responses have all that exist (A27).

A Listener or Cluster that a response leaves out was deleted; for other types it is unchanged.
"""

from __future__ import annotations

from trxds.resources.protos import DiscoveryRequest, DiscoveryResponse

from .discovery_request import DiscoveryRequestParams
from .discovery_response import read

PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"


class SotwProtocol:
    """The protocol variant that every control plane supports."""

    path = PATH
    response = DiscoveryResponse
    remedy = "check that server_uri is an xDS server's"
    cumulative = True
    read = staticmethod(read)

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
