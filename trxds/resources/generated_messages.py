"""The only file that imports generated envoy code, except for `orca_messages.py` and what only `trxds.admin` needs.

Their import takes time. So other files get these names from `protos.py`, which imports this file when the first of them
is used; a name is here only if a parser, the xDS client or `from_json` needs it. Message classes come without types: to
mypy they are `Any`.
"""

from __future__ import annotations

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.address_pb2 import Address
from envoy.config.core.v3.base_pb2 import DEFAULT as DEFAULT_PRIORITY
from envoy.config.core.v3.base_pb2 import Locality, Node
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
from envoy.config.endpoint.v3.load_report_pb2 import ClusterStats, UpstreamLocalityStats
from envoy.config.listener.v3.listener_pb2 import Listener
from envoy.config.route.v3.route_components_pb2 import FilterConfig
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from envoy.extensions.clusters.aggregate.v3.cluster_pb2 import ClusterConfig as AggregateConfig
from envoy.extensions.filters.http.fault.v3.fault_pb2 import HTTPFault
from envoy.extensions.filters.http.router.v3.router_pb2 import Router
from envoy.extensions.filters.http.stateful_session.v3.stateful_session_pb2 import (
    StatefulSession,
    StatefulSessionPerRoute,
)
from envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2 import (
    HttpConnectionManager,
)
from envoy.extensions.http.stateful_session.cookie.v3.cookie_pb2 import CookieBasedSessionState
from envoy.extensions.http.stateful_session.header.v3.header_pb2 import HeaderBasedSessionState
from envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3 import (
    client_side_weighted_round_robin_pb2,
)
from envoy.extensions.load_balancing_policies.least_request.v3.least_request_pb2 import LeastRequest
from envoy.extensions.load_balancing_policies.pick_first.v3.pick_first_pb2 import PickFirst
from envoy.extensions.load_balancing_policies.ring_hash.v3.ring_hash_pb2 import RingHash
from envoy.extensions.load_balancing_policies.round_robin.v3.round_robin_pb2 import RoundRobin
from envoy.extensions.load_balancing_policies.wrr_locality.v3.wrr_locality_pb2 import WrrLocality
from envoy.extensions.transport_sockets.http_11_proxy.v3.upstream_http_11_connect_pb2 import (
    Http11ProxyUpstreamTransport,
)
from envoy.extensions.transport_sockets.tls.v3.tls_pb2 import UpstreamTlsContext
from envoy.extensions.upstreams.http.v3.http_protocol_options_pb2 import HttpProtocolOptions
from envoy.service.discovery.v3.discovery_pb2 import (
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Resource,
    ResourceError,
    ResourceName,
)
from envoy.service.load_stats.v3.lrs_pb2 import LoadStatsRequest, LoadStatsResponse
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyProto
from google.rpc.status_pb2 import Status
from udpa.type.v1.typed_struct_pb2 import TypedStruct as UdpaTypedStruct
from xds.type.v3.typed_struct_pb2 import TypedStruct

from .orca_messages import DecodeError, OrcaLoadReport, OrcaLoadReportRequest
from .proto_backports import RandomSubsetting

ClientSideWeightedRoundRobin = client_side_weighted_round_robin_pb2.ClientSideWeightedRoundRobin
