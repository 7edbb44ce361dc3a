"""State of the world: each request names all we want, each response has all that the server has of it (A27).

Of a Listener or Cluster response that is meant literally: what it leaves out was deleted.
"""

from __future__ import annotations

from trxds.resources.protos import DiscoveryRequest, DiscoveryResponse

from .discovery_request import DiscoveryRequestParams
from .discovery_response import read

PATH = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"


class SotwProtocol:
    """The dialect that every control plane speaks."""

    path = PATH
    response = DiscoveryResponse
    remedy = "check that server_uri is an xDS server's"
    cumulative = True
    read = staticmethod(read)

    @staticmethod
    def request(ask: DiscoveryRequestParams) -> DiscoveryRequest:
        """The nonce is the type's last one, also when nothing is answered: it says which names we knew of."""
        return DiscoveryRequest(
            type_url=ask.type.type_url,
            version_info=ask.version,
            response_nonce=ask.nonce,
            resource_names=ask.names,
        )
