"""Cluster: what is refused with which text, and what it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.extensions.load_balancing_policies.maglev.v3 import maglev_pb2  # noqa: F401 its type is used

from trxds.resources.cluster import Cluster, LoadReporting
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import HealthStatus
from trxds.resources.experiments import Experiments
from trxds.resources.lb_policy import WrrLocality
from trxds.resources.leaf_policy import LbPolicyConfig, RoundRobin
from trxds.resources.types import CDS, ParseContext

T = "type.googleapis.com/"
ADS = {"ads": {}}
HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
ROUND_ROBIN = "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin"
WRR_LOCALITY = "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality"
MAGLEV = "envoy.extensions.load_balancing_policies.maglev.v3.Maglev"


def cds(**more: Any) -> dict[str, Any]:
    return {"name": "a", "type": "EDS", "eds_cluster_config": {"eds_config": ADS}, **more}


def typed(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": "x", "typed_config": {"@type": T + name, **fields}}


def idle(timeout: str) -> dict[str, Any]:
    return cds(upstream_config=typed(HTTP, common_http_protocol_options={"idle_timeout": timeout}))


def policies(*names: str, **fields: Any) -> dict[str, Any]:
    return {"policies": [{"typed_extension_config": typed(name, **fields)} for name in names]}


def nested(depth: int) -> dict[str, Any]:
    """Round robin inside of so many locality policies."""
    policy = policies(ROUND_ROBIN)
    for _ in range(depth):
        policy = policies(WRR_LOCALITY, endpoint_picking_policy=policy)
    return policy


REFUSED = {
    "no type": ({"name": "a"}, "type error:unknown discovery type"),
    "static": ({"name": "a", "type": "STATIC"}, "type error:unknown discovery type"),
    "no EDS config": ({"name": "a", "type": "EDS"}, "eds_cluster_config error:field not present"),
    "no EDS source": (cds(eds_cluster_config={}), "eds_cluster_config.eds_config error:field not present"),
    "EDS from a file": (
        cds(eds_cluster_config={"eds_config": {"path": "/x"}}),
        "eds_cluster_config.eds_config error:ConfigSource is not ads or self",
    ),
    "xdstp name without a service name": (
        cds(name="xdstp://auth/envoy.config.cluster.v3.Cluster/a"),
        "eds_cluster_config.service_name error:must be set if Cluster resource has an xdstp name",
    ),
    "unsupported policy": (cds(lb_policy="MAGLEV"), "lb_policy error:LB policy is not supported"),
    "only unsupported policies": (
        cds(load_balancing_policy=policies(MAGLEV)),
        "load_balancing_policy error:no supported load balancing policy config found",
    ),
    "no policies": (
        cds(load_balancing_policy={}),
        "load_balancing_policy error:no supported load balancing policy config found",
    ),
    "policy without a config": (
        cds(load_balancing_policy={"policies": [{}]}),
        "load_balancing_policy.policies[0].typed_extension_config error:field not present",
    ),
    "policy without a typed config": (
        cds(load_balancing_policy={"policies": [{"typed_extension_config": {"name": "x"}}]}),
        "load_balancing_policy.policies[0].typed_extension_config.typed_config error:field not present",
    ),
    "locality policy without a child": (
        cds(load_balancing_policy=policies(WRR_LOCALITY)),
        "load_balancing_policy.policies[0].typed_extension_config.typed_config"
        f".value[{WRR_LOCALITY}].endpoint_picking_policy error:field not present",
    ),
    "idle timeout below 0": (
        idle("-1s"),
        f"upstream_config.typed_config.value[{HTTP}].common_http_protocol_options.idle_timeout.seconds "
        "error:value must be in the range [0, 315576000000]",
    ),
    "upstream config without a config": (
        cds(upstream_config={"name": "x"}),
        "upstream_config.typed_config error:field not present",
    ),
    "upstream config of another type": (
        cds(upstream_config=typed(ROUND_ROBIN)),
        f"upstream_config.typed_config.value[{ROUND_ROBIN}] error:unsupported upstream config type",
    ),
    "unknown transport socket": (
        cds(transport_socket=typed(ROUND_ROBIN)),
        f"transport_socket.typed_config.value[{ROUND_ROBIN}] error:unrecognized transport socket type",
    ),
    "transport sockets by endpoint": (
        cds(transport_socket_matches=[{"name": "a"}]),
        "transport_socket_matches error:feature unsupported",
    ),
    "load reports to another server": (cds(lrs_server=ADS), "lrs_server error:ConfigSource is not self"),
}


@pytest.mark.parametrize(("resource", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_cluster_is_refused_with_its_field(read: Any, resource: dict[str, Any], error: str) -> None:
    parsed = read(CDS, resource)
    assert parsed.errors == (f"field:{error}",)
    assert parsed.name == resource["name"] and parsed.value is None


def test_every_error_of_a_cluster_is_reported(read: Any) -> None:
    bad = {"name": "a", "lb_policy": "MAGLEV", "lrs_server": ADS, "upstream_config": {"name": "x"}}
    assert len(read(CDS, bad).errors) == 4


def cluster(read: Any, resource: dict[str, Any], context: ParseContext | None = None) -> Cluster:
    value = read(CDS, resource, context).value
    assert isinstance(value, Cluster)
    return value


def test_a_plain_cluster_has_the_defaults(read: Any) -> None:
    assert cluster(read, cds()) == Cluster(
        name="a",
        discovery=Eds("a"),
        lb_policy=WrrLocality(RoundRobin()),
        override_statuses=frozenset({HealthStatus.UNKNOWN, HealthStatus.HEALTHY}),
        idle_timeout=3600.0,
        max_concurrent_requests=1024,
        lrs=None,
    )


def test_a_cluster_with_an_xdstp_name_takes_its_endpoints_from_its_service_name(read: Any) -> None:
    eds = {"eds_config": {"ads": {}}, "service_name": "xdstp://auth/envoy.config.endpoint.v3.ClusterLoadAssignment/a"}
    cluster = read(CDS, cds(name="xdstp://auth/envoy.config.cluster.v3.Cluster/a", eds_cluster_config=eds)).value
    assert cluster.discovery.resource_name == eds["service_name"]


def test_endpoints_may_come_under_another_name_and_from_self(read: Any) -> None:
    resource = cds(eds_cluster_config={"eds_config": {"self": {}}, "service_name": "s"})
    assert cluster(read, resource).discovery == Eds("s", "s")


@pytest.mark.parametrize(
    ("statuses", "kept"),
    [
        (["HEALTHY", "DRAINING"], {HealthStatus.HEALTHY, HealthStatus.DRAINING}),
        (["UNKNOWN", "UNHEALTHY", "TIMEOUT", "DEGRADED"], {HealthStatus.UNKNOWN}),
        (["DEGRADED"], set()),
        ([], set()),
    ],
)
def test_override_statuses_are_those_grpc_knows(read: Any, statuses: list[str], kept: set[HealthStatus]) -> None:
    resource = cds(common_lb_config={"override_host_status": {"statuses": statuses}})
    assert cluster(read, resource).override_statuses == kept


@pytest.mark.parametrize("statuses", [["HEALTHY", "DRAINING"], ["HEALTHY"], []])
def test_override_statuses_are_not_read_without_session_affinity(read: Any, statuses: list[str]) -> None:
    resource = cds(common_lb_config={"override_host_status": {"statuses": statuses}})
    off = ParseContext(experiments=Experiments(override_host=False))
    assert cluster(read, resource, off) == cluster(read, cds(), off)


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0.0), ("1.5s", 1.5), ("315576000000s", 315576000000.0)])
def test_the_idle_timeout_is_the_upstream_configs(read: Any, text: str, seconds: float) -> None:
    assert cluster(read, idle(text)).idle_timeout == seconds


@pytest.mark.parametrize(
    "more",
    [
        {"upstream_config": typed(HTTP)},
        {"upstream_config": typed(HTTP, common_http_protocol_options={})},
        {
            "typed_extension_protocol_options": {
                HTTP: {"@type": T + HTTP, "common_http_protocol_options": {"idle_timeout": "3s"}}
            }
        },
    ],
)
def test_the_idle_timeout_is_an_hour_unless_said_there(read: Any, more: dict[str, Any]) -> None:
    assert cluster(read, cds(**more)).idle_timeout == 3600.0


@pytest.mark.parametrize(
    ("thresholds", "limit"),
    [
        ([{"max_requests": 7}, {"max_requests": 9}], 7),
        ([{"max_requests": 0}], 0),
        ([{"priority": "HIGH", "max_requests": 3}], 1024),
        ([{"priority": "HIGH", "max_requests": 3}, {"max_requests": 5}], 5),
        ([{"max_retries": 1}], 1024),
        ([], 1024),
    ],
)
def test_the_circuit_breaker_limit_is_the_first_threshold_of_default_priority(
    read: Any, thresholds: list[dict[str, Any]], limit: int
) -> None:
    assert cluster(read, cds(circuit_breakers={"thresholds": thresholds})).max_concurrent_requests == limit


@pytest.mark.parametrize(
    ("thresholds", "number"),
    [
        ([{"max_connections": 7}, {"max_connections": 9}], 7),
        ([{"priority": "HIGH", "max_connections": 0}], None),
        ([{"priority": "HIGH", "max_connections": 3}, {"max_connections": 5}], 5),
        ([{"max_requests": 1}, {"max_connections": 5}], None),
        ([], None),
    ],
)
def test_the_connections_of_a_host_are_the_first_per_host_threshold_of_default_priority(
    read: Any, thresholds: list[dict[str, Any]], number: int | None
) -> None:
    resource = cds(circuit_breakers={"per_host_thresholds": thresholds})
    context = ParseContext(experiments=Experiments(connection_scaling=True))
    assert cluster(read, resource, context).max_connections == number


def test_load_is_reported_to_the_server_that_says_self(read: Any) -> None:
    resource = cds(lrs_server={"self": {}}, lrs_report_endpoint_metrics=["named_metrics.*", "cpu_utilization"])
    context = ParseContext(server="10.0.0.5:18000")
    metrics = frozenset({"named_metrics.*", "cpu_utilization"})
    assert cluster(read, resource, context).lrs == LoadReporting("10.0.0.5:18000", metrics)


# -- policies


def test_the_first_known_policy_is_taken(read: Any) -> None:
    resource = cds(load_balancing_policy=policies(MAGLEV, ROUND_ROBIN), lb_policy="MAGLEV")
    assert cluster(read, resource).lb_policy == RoundRobin()


def test_policies_nest_sixteen_deep_and_no_deeper(read: Any) -> None:
    policy: LbPolicyConfig = cluster(read, cds(load_balancing_policy=nested(15))).lb_policy
    depth = 0
    while isinstance(policy, WrrLocality):
        policy, depth = policy.child, depth + 1
    assert (policy, depth) == (RoundRobin(), 15)
    (error,) = read(CDS, cds(load_balancing_policy=nested(16))).errors
    assert error.endswith("endpoint_picking_policy error:exceeded max recursion depth of 16")


def test_a_policy_in_a_typed_struct_is_passed_over(read: Any) -> None:
    struct = typed("xds.type.v3.TypedStruct", type_url=T + ROUND_ROBIN, value={})
    both = {"policies": [{"typed_extension_config": struct}, *policies(WRR_LOCALITY, **child())["policies"]]}
    assert cluster(read, cds(load_balancing_policy=both)).lb_policy == WrrLocality(RoundRobin())


def child() -> dict[str, Any]:
    return {"endpoint_picking_policy": policies(ROUND_ROBIN)}
