"""How a cluster finds its endpoints: what is refused with which text, and what it becomes (A37, A75)."""

from __future__ import annotations

from typing import Any

import pytest

from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Aggregate, Eds, LogicalDns
from trxds.resources.experiments import Experiments
from trxds.resources.lb_policy import WRR_LOCALITY
from trxds.resources.leaf_policy import RoundRobin
from trxds.resources.types import CDS, ParseContext
from trxds.testing import resources as xds

ROUND_ROBIN = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"
AGGREGATE = "envoy.extensions.clusters.aggregate.v3.ClusterConfig"
DNS_ADDRESS = "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address"


def of_type(name: str, **fields: Any) -> dict[str, Any]:
    return {"cluster_type": {"name": "x", "typed_config": {"@type": f"type.googleapis.com/{name}", **fields}}}


def dns(*endpoints: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "LOGICAL_DNS", "load_assignment": {"endpoints": [{"lb_endpoints": list(endpoints)}]}, **more}


def at(**address: Any) -> dict[str, Any]:
    return {"endpoint": {"address": {"socket_address": address}}}


REFUSED = {
    "aggregate without a config": (
        {"cluster_type": {"name": "envoy.clusters.aggregate"}},
        "cluster_type.typed_config error:field not present",
    ),
    "aggregate of nothing": (
        of_type(AGGREGATE),
        f"cluster_type.typed_config.value[{AGGREGATE}].clusters error:must be non-empty",
    ),
    "unknown cluster type": (
        of_type(ROUND_ROBIN),
        f"cluster_type.typed_config.value[{ROUND_ROBIN}] error:unknown cluster_type extension type",
    ),
    "DNS without endpoints": (
        {"type": "LOGICAL_DNS"},
        "load_assignment error:field not present for LOGICAL_DNS cluster",
    ),
    "DNS with two localities": (
        {"type": "LOGICAL_DNS", "load_assignment": {"endpoints": [{}, {}]}},
        "load_assignment.endpoints error:must contain exactly one locality for LOGICAL_DNS cluster, found 2",
    ),
    "DNS with no endpoint": (
        dns(),
        "load_assignment.endpoints[0].lb_endpoints error:must contain exactly one endpoint for LOGICAL_DNS cluster, "
        "found 0",
    ),
    "DNS with a pipe": (
        dns({"endpoint": {"address": {"pipe": {"path": "/x"}}}}),
        f"{DNS_ADDRESS} error:field not present",
    ),
    "DNS without a name": (dns(at(port_value=80)), f"{DNS_ADDRESS}.address error:field not present"),
    "DNS without a port": (dns(at(address="x")), f"{DNS_ADDRESS}.port_value error:field not present"),
    "DNS with too great a port": (
        dns(at(address="x", port_value=65536)),
        f"{DNS_ADDRESS}.port_value error:invalid port",
    ),
    "DNS with a resolver of its own": (
        dns(at(address="x", port_value=80, resolver_name="mine")),
        f"{DNS_ADDRESS}.resolver_name error:LOGICAL_DNS clusters must NOT have a custom resolver name set",
    ),
}


@pytest.mark.parametrize(("fields", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_source_of_endpoints_is_refused_with_its_field(read: Any, fields: dict[str, Any], error: str) -> None:
    parsed = read(CDS, {"name": "a", **fields})
    assert parsed.errors == (f"field:{error}",)


def cluster(read: Any, resource: dict[str, Any], **context: Any) -> Cluster:
    value = read(CDS, resource, ParseContext(**context)).value
    assert isinstance(value, Cluster)
    return value


def test_eds_uses_the_clusters_name_unless_a_service_name_is_set(read: Any) -> None:
    assert cluster(read, xds.cluster("a")).discovery == Eds("a")


def test_a_dns_cluster_is_a_host_and_a_port(read: Any) -> None:
    found = cluster(read, xds.logical_dns("a", "cart.example", 443)).discovery
    assert found == LogicalDns("cart.example", 443)
    assert found.name == "cart.example:443"


def test_the_port_of_a_dns_cluster_may_be_the_highest(read: Any) -> None:
    assert cluster(read, xds.logical_dns("a", "cart.example", 65535)).discovery == LogicalDns("cart.example", 65535)


def test_an_aggregate_is_the_names_of_its_clusters_in_order(read: Any) -> None:
    assert cluster(read, xds.aggregate("a", "c", "b")).discovery == Aggregate(("c", "b"))


@pytest.mark.parametrize("policy", ["CLUSTER_PROVIDED", "ROUND_ROBIN", "MAGLEV"])
def test_the_policy_of_an_aggregate_is_not_validated(read: Any, policy: str) -> None:
    assert cluster(read, xds.aggregate("a", "b", lb_policy=policy)).discovery == Aggregate(("b",))


@pytest.mark.parametrize(("policy", "imposed"), [("ROUND_ROBIN", WRR_LOCALITY), ("CLUSTER_PROVIDED", None)])
def test_an_aggregates_policy_is_read_with_the_behaviour_before_a75(read: Any, policy: str, imposed: Any) -> None:
    found = cluster(read, xds.aggregate("a", "b", lb_policy=policy), experiments=Experiments(aggregate_lb_policy=True))
    assert found.discovery == Aggregate(("b",), imposed)


def test_an_aggregates_newer_policy_is_read_whatever_the_older_field_says(read: Any) -> None:
    policy = {"typed_extension_config": {"name": "x", "typed_config": {"@type": f"type.googleapis.com/{ROUND_ROBIN}"}}}
    imposed = {"lb_policy": "CLUSTER_PROVIDED", "load_balancing_policy": {"policies": [policy]}}
    found = cluster(read, xds.aggregate("a", "b") | imposed, experiments=Experiments(aggregate_lb_policy=True))
    assert found.discovery == Aggregate(("b",), RoundRobin())


def test_an_aggregates_policy_that_is_used_has_to_be_valid(read: Any) -> None:
    ring = {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 0}}
    context = ParseContext(experiments=Experiments(aggregate_lb_policy=True))
    (error,) = read(CDS, xds.aggregate("a", "b") | ring, context).errors
    assert error.startswith("field:ring_hash_lb_config.minimum_ring_size error:value must be in the range")
