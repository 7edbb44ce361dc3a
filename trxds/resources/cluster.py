"""Cluster: the source of a cluster's endpoints, and the settings for them (CDS; A27, A29, A37, A52, A55, A75)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from . import protos
from .cooperative_parse import Slices
from .discovery import Aggregate, Discovery, parse_discovery
from .endpoint import KNOWN_HEALTH, HealthStatus
from .extension import Extension, extension
from .lb_policy import WRR_LOCALITY, WrapperPolicy, WrrLocality, parse_load_balancing_policy
from .leaf_policy import LbPolicyConfig, cluster_least_request, cluster_ring_hash, cluster_round_robin
from .outlier_detection import OutlierDetectionSettings, parse_outlier_detection
from .units import parse_duration_or, wrapped_number_or
from .upstream_tls import UpstreamTls, parse_upstream_tls
from .validation_errors import ValidationErrors

if TYPE_CHECKING:
    from .context import ParseContext


DEFAULT_OVERRIDE_STATUSES = frozenset({HealthStatus.UNKNOWN, HealthStatus.HEALTHY})
DEFAULT_IDLE_TIMEOUT = 3600.0
DEFAULT_MAX_REQUESTS = 1024

_PROXY = "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport"


class LoadReporting(Struct, frozen=True):
    """The load reports of a cluster: their server (A27), and the hosts' own metrics in them (A64, A85).

    `server` is the one that sent the cluster. `metrics` are names like `cpu_utilization`, `named_metrics.*`.
    """

    server: Hashable
    metrics: frozenset[str] = frozenset()


class Cluster(Struct, frozen=True, gc=False):
    """A parsed Cluster resource.

    `override_statuses` are the health states in which a cookie may still reach a host (A55). `idle_timeout` is how long
    an idle host that only sessions use stays connected, in seconds (A75). `lrs` is None if no load is reported.
    `ejection` is None without outlier detection (A50). `tls` is None if the cluster does not configure TLS (A29).
    With `http_connect` its endpoints may have HTTP CONNECT proxies (A86).
    `max_connections` is how many connections each host may have (A105), None if the cluster does not say.
    """

    name: str
    discovery: Discovery
    lb_policy: LbPolicyConfig = WRR_LOCALITY
    override_statuses: frozenset[HealthStatus] = DEFAULT_OVERRIDE_STATUSES
    idle_timeout: float = DEFAULT_IDLE_TIMEOUT
    max_concurrent_requests: int = DEFAULT_MAX_REQUESTS
    lrs: LoadReporting | None = None
    ejection: OutlierDetectionSettings | None = None
    tls: UpstreamTls | None = None
    max_connections: int | None = None
    http_connect: bool = False


def parse_cluster(message: Any, context: ParseContext, problems: ValidationErrors) -> Slices[Cluster | None]:
    yield from ()  # one slice, because a cluster is never long
    found = parse_discovery(message, problems)
    lb_policy: LbPolicyConfig | None = WRR_LOCALITY
    if isinstance(found, Aggregate):
        found = structs.replace(found, lb_policy=_aggregate_lb_policy(message, context, problems))
    else:
        lb_policy = _lb_policy(message, context, problems)
    tls, http_connect = _transport_socket(message, context, problems)
    idle_timeout = _idle_timeout(message, problems)
    lrs = _load_reporting(message, context, problems)
    ejection = parse_outlier_detection(message, problems)
    max_connections = None
    if context.experiments.connection_scaling:
        max_connections = _max_connections(message.circuit_breakers, problems.at("circuit_breakers"))
    # Only after all fields were read: a NACK has every error, not the first one alone.
    if found is None or lb_policy is None:
        return None
    return Cluster(
        message.name,
        found,
        lb_policy,
        _override_statuses(message.common_lb_config, context),
        idle_timeout,
        _max_requests(message.circuit_breakers),
        lrs,
        ejection,
        tls,
        max_connections,
        http_connect=http_connect,
    )


# -- load balancing


def _lb_policy(message: Any, context: ParseContext, problems: ValidationErrors) -> LbPolicyConfig | None:
    # A52: if this field is set, lb_policy and its configuration are ignored, even if they are invalid.
    if message.HasField("load_balancing_policy"):
        at = problems.at("load_balancing_policy")
        return parse_load_balancing_policy(message.load_balancing_policy, WrapperPolicy(context), at)
    match message.lb_policy:
        case protos.Cluster.ROUND_ROBIN:
            return WrrLocality(cluster_round_robin(message, context.experiments, problems))
        case protos.Cluster.RING_HASH:  # one ring over all localities (A42)
            return cluster_ring_hash(message, problems)
        case protos.Cluster.LEAST_REQUEST:
            # A48: a locality is chosen by weight, and least_request among its hosts.
            return WrrLocality(cluster_least_request(message, context.experiments, problems))
    problems.at("lb_policy").add("LB policy is not supported")
    return None


def _aggregate_lb_policy(message: Any, context: ParseContext, problems: ValidationErrors) -> LbPolicyConfig | None:
    """Return the policy of an aggregate, if the context asks for it; without that the field is not read (A75)."""
    if not context.experiments.aggregate_lb_policy:
        return None
    # Envoy demands it, and it means nothing in gRPC.
    if message.lb_policy == protos.Cluster.CLUSTER_PROVIDED and not message.HasField("load_balancing_policy"):
        return None
    return _lb_policy(message, context, problems)


def _override_statuses(common: Any, context: ParseContext) -> frozenset[HealthStatus]:
    """Return the states in which a cookie may reach a host. A list that is set and empty means none (A55)."""
    if not common.HasField("override_host_status") or not context.experiments.override_host:
        return DEFAULT_OVERRIDE_STATUSES
    # A55: other states are ignored and not rejected, so that one list serves Envoy and gRPC.
    return frozenset(KNOWN_HEALTH[each] for each in common.override_host_status.statuses if each in KNOWN_HEALTH)


# -- connections and requests


def _idle_timeout(message: Any, problems: ValidationErrors) -> float:
    # A75 has this field only, not typed_extension_protocol_options, which Envoy's users set.
    if not message.HasField("upstream_config"):
        return DEFAULT_IDLE_TIMEOUT
    config = extension(message.upstream_config, "typed_config", problems.at("upstream_config"))
    if config is None:
        return DEFAULT_IDLE_TIMEOUT
    error_texts = "unsupported upstream config type", "can't decode HttpProtocolOptions"
    options = config.parse_only(protos.HttpProtocolOptions, *error_texts)
    if options is None:
        return DEFAULT_IDLE_TIMEOUT
    at = config.problems.at("common_http_protocol_options")
    return parse_duration_or(DEFAULT_IDLE_TIMEOUT, options.common_http_protocol_options, "idle_timeout", at)


def _max_requests(circuit_breakers: Any) -> int:
    """Return the limit of the first threshold of priority DEFAULT: the others do not count (A32)."""
    for threshold in circuit_breakers.thresholds:
        if threshold.priority == protos.DEFAULT_PRIORITY:
            return wrapped_number_or(DEFAULT_MAX_REQUESTS, threshold, "max_requests")
    return DEFAULT_MAX_REQUESTS


def _max_connections(circuit_breakers: Any, problems: ValidationErrors) -> int | None:
    """Return `max_connections` of the first per-host threshold of priority DEFAULT; None if it is unset (A105)."""
    for index, threshold in enumerate(circuit_breakers.per_host_thresholds):
        # As for `thresholds` (A32), the others do not count, whatever they say.
        if threshold.priority == protos.DEFAULT_PRIORITY:
            if not threshold.HasField("max_connections"):
                return None
            if not threshold.max_connections.value:
                problems.at(f"per_host_thresholds[{index}]").at("max_connections").add("must be greater than 0")
            return int(threshold.max_connections.value)
    return None


def _load_reporting(message: Any, context: ParseContext, problems: ValidationErrors) -> LoadReporting | None:
    """Return the settings of load reports; None if the cluster has none."""
    if not message.HasField("lrs_server"):
        return None
    # A27: only `self` is allowed, so load is reported to the server that sent the cluster and to no other.
    if message.lrs_server.WhichOneof("config_source_specifier") != "self":
        problems.at("lrs_server").add("ConfigSource is not self")
    return LoadReporting(context.server, frozenset(message.lrs_report_endpoint_metrics))


# -- the transport socket: TLS (A29), and around it perhaps an HTTP CONNECT proxy (A86)


def _transport_socket(
    message: Any, context: ParseContext, problems: ValidationErrors
) -> tuple[UpstreamTls | None, bool]:
    """Return the TLS configuration, and whether the endpoints may have HTTP CONNECT proxies.

    TLS is validated even if the channel does not use it (A29). Proxies are used whatever its credentials are (A86).
    """
    # A29: not supported. To ignore it could make connections less safe than the control plane means.
    if message.transport_socket_matches:
        problems.at("transport_socket_matches").add("feature unsupported")
    config = _socket(message, problems)
    # A86: without the guard it is refused as any other type.
    if config is None or not context.experiments.http_connect or config.type_name != _PROXY:
        return _tls(config, context), False
    wrapper = config.parse(protos.Http11ProxyUpstreamTransport, "can't decode Http11ProxyUpstreamTransport")
    if wrapper is None:
        return None, True
    return _tls(_socket(wrapper, config.problems), context), True


def _socket(parent: Any, problems: ValidationErrors) -> Extension | None:
    if not parent.HasField("transport_socket"):
        return None
    return extension(parent.transport_socket, "typed_config", problems.at("transport_socket"))


def _tls(config: Extension | None, context: ParseContext) -> UpstreamTls | None:
    if config is None:
        return None
    error_texts = "unrecognized transport socket type", "can't decode UpstreamTlsContext"
    parsed = config.parse_only(protos.UpstreamTlsContext, *error_texts)
    return parse_upstream_tls(parsed, context, config.problems) if parsed is not None else None
