"""The discovery type of a cluster: endpoints from EDS, from DNS, or in other clusters (A27, A37)."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from . import protos
from .address import MAX_PORT
from .extension import extension
from .leaf_policy import LbPolicyConfig
from .validation_errors import ValidationErrors


class Eds(Struct, frozen=True, gc=False):
    """A cluster whose endpoints come from the ClusterLoadAssignment `resource_name`.

    `service_name` is the cluster's own field, empty if it has none; load reports have it as it is.
    """

    resource_name: str
    service_name: str = ""


class LogicalDns(Struct, frozen=True, gc=False):
    """A cluster with one endpoint, which has all addresses of the DNS name (A37)."""

    host: str
    port: int

    @property
    def name(self) -> str:
        """Return the name to resolve, "host:port"."""
        return f"{self.host}:{self.port}"


class Aggregate(Struct, frozen=True, gc=False):
    """A cluster of other clusters, the most preferred first; they may be aggregates too (A37).

    `lb_policy` is None if they use their own policies (A75). Only `Experiments.aggregate_lb_policy` sets it.
    """

    clusters: tuple[str, ...]
    lb_policy: LbPolicyConfig | None = None


Discovery: TypeAlias = Eds | LogicalDns | Aggregate


def parse_discovery(message: Any, problems: ValidationErrors) -> Discovery | None:
    """Return the discovery type of an envoy.config.cluster.v3.Cluster, or None after a problem."""
    match message.WhichOneof("cluster_discovery_type"):
        # A37: the type of its configuration marks an aggregate; cluster_type.name is free text.
        case "cluster_type":
            return _aggregate(message.cluster_type, problems.at("cluster_type"))
        case "type" if message.type == protos.Cluster.EDS:
            return _eds(message, problems.at("eds_cluster_config"))
        case "type" if message.type == protos.Cluster.LOGICAL_DNS:
            return _logical_dns(message, problems.at("load_assignment"))
        case _:  # unset means STATIC, which gRPC does not support either
            problems.at("type").add("unknown discovery type")
    return None


def _eds(message: Any, problems: ValidationErrors) -> Eds | None:
    if not message.HasField("eds_cluster_config"):
        problems.add("field not present")
        return None
    config = message.eds_cluster_config
    if problems.has_field(config, "eds_config") and not is_ads_or_self(config.eds_config):
        problems.at("eds_config").add("ConfigSource is not ads or self")
    if not config.service_name and message.name.startswith("xdstp:"):
        # A47: an xdstp name has its type, so the cluster's own name cannot be that of its EDS resource.
        problems.at("service_name").add("must be set if Cluster resource has an xdstp name")
    # A27: without a service_name the EDS resource has the cluster's name.
    return Eds(config.service_name or message.name, config.service_name)


def is_ads_or_self(source: Any) -> bool:
    """Return whether that config source is the ADS stream that the resource came on; gRPC has no other (A27)."""
    return source.WhichOneof("config_source_specifier") in ("ads", "self")


def _logical_dns(message: Any, problems: ValidationErrors) -> LogicalDns | None:
    """Return the DNS name: the one address of the one endpoint of the one locality."""
    if not message.HasField("load_assignment"):
        problems.add("field not present for LOGICAL_DNS cluster")
        return None
    # A37: exactly one of each. All addresses of the name are one endpoint (A61).
    locality = _only(message.load_assignment.endpoints, "endpoints", "one locality", problems)
    if locality is None:
        return None
    at = problems.at("endpoints[0]")
    endpoint = _only(locality.lb_endpoints, "lb_endpoints", "one endpoint", at)
    if endpoint is None:
        return None
    address, at = endpoint.endpoint.address, at.at("lb_endpoints[0].endpoint.address")
    if not at.has_field(address, "socket_address"):
        return None
    return _dns_name(address.socket_address, at.at("socket_address"))


def _only(messages: Any, field: str, one: str, problems: ValidationErrors) -> Any:
    if len(messages) == 1:
        return messages[0]
    problems.at(field).add(f"must contain exactly {one} for LOGICAL_DNS cluster, found {len(messages)}")
    return None


def _dns_name(address: Any, problems: ValidationErrors) -> LogicalDns:
    if address.resolver_name:
        problems.at("resolver_name").add("LOGICAL_DNS clusters must NOT have a custom resolver name set")
    if not address.address:
        problems.at("address").add("field not present")
    if problems.has_field(address, "port_value") and address.port_value > MAX_PORT:
        problems.at("port_value").add("invalid port")
    return LogicalDns(address.address, address.port_value)


def _aggregate(message: Any, problems: ValidationErrors) -> Aggregate | None:
    kind = extension(message, "typed_config", problems)
    if kind is None:
        return None
    complaints = "unknown cluster_type extension type", "can't parse aggregate cluster config"
    config = kind.parse_only(protos.AggregateConfig, *complaints)
    if config is None:
        return None
    if not config.clusters:
        kind.problems.at("clusters").add("must be non-empty")
    return Aggregate(tuple(config.clusters))
