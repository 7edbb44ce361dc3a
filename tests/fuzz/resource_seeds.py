"""Good resources with as many fields as there are, for the fuzzer to break; between them they reach every parser.

`tests/fuzz/test_targets.py` holds that: a parser that no seed reaches is hardly found by changing bytes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from trxds.resources.types import CDS, EDS, LDS, RDS, ResourceType
from trxds.testing import resources as xds

Json: TypeAlias = dict[str, Any]

_ENVOY = "type.googleapis.com/envoy"
_POLICIES = f"{_ENVOY}.extensions.load_balancing_policies"
_HALF = {"numerator": 50, "denominator": "HUNDRED"}


def _any(url: str, **fields: Any) -> Json:
    return {"@type": url, **fields}


def _extension(name: str, config: Json) -> Json:
    return {"name": name, "typed_config": config}


# -- listeners

_FAULT = _any(
    f"{_ENVOY}.extensions.filters.http.fault.v3.HTTPFault",
    delay={"fixed_delay": "0.1s", "percentage": _HALF},
    abort={"grpc_status": 14, "percentage": _HALF},
    max_active_faults=5,
)
_SESSION_IN_A_HEADER = _any(
    f"{_ENVOY}.extensions.filters.http.stateful_session.v3.StatefulSession",
    session_state=_extension(
        "envoy.http.stateful_session.header",
        _any(
            f"{_ENVOY}.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
            name="x-session",
        ),
    ),
    strict=True,
)

_OWN_FILTERS = [
    xds.custom_filter("own", "test.Filter", share=0.5, names=["a", None]),
    xds.custom_filter("typed", "google.protobuf.FileOptions", java_package="a"),
]
_LISTENERS = [
    xds.listener("own", routes="r", filters=_OWN_FILTERS),
    xds.listener("shop", routes="r", filters=[xds.stateful_session(path="/shop", ttl=60)]),
    xds.listener("faults", routes="r", filters=[_extension("fault", _FAULT), _extension("ssa", _SESSION_IN_A_HEADER)]),
]

# -- routes

_TEXTS = ({"prefix": "a"}, {"suffix": "b", "ignore_case": True}, {"contains": "c"}, {"safe_regex": {"regex": "d+"}})
_HEADERS = [
    *({"name": "user", "string_match": text} for text in (*_TEXTS, {"exact": "e"})),
    {"name": "user", "exact_match": "anna"},
    {"name": "user", "prefix_match": "a", "invert_match": True},
    {"name": "n", "range_match": {"start": 1, "end": 7}},
    {"name": "x", "present_match": True},
]
_RETRY = {
    "retry_on": "unavailable,internal",
    "num_retries": 3,
    "retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"},
}
_HASH = [
    {
        "header": {
            "header_name": "user",
            "regex_rewrite": {"pattern": {"regex": "([a-z]+)-.*"}, "substitution": "\\1"},
        },
        "terminal": True,
    },
    {"filter_state": {"key": "io.grpc.channel_id"}},
]
_PER_ROUTE = _any(f"{_ENVOY}.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute", disabled=True)
_OPTIONAL = _any(f"{_ENVOY}.config.route.v3.FilterConfig", is_optional=True, config=_PER_ROUTE)
_PLUGIN = {
    "extension": _extension("p", _any("type.googleapis.com/google.protobuf.Struct", value={})),
    "is_optional": True,
}


def _route(to: str | Json, **match: Any) -> Json:
    action = {"cluster": to} if isinstance(to, str) else to
    return {"match": match, "route": action}


_RICH = {
    "cluster": "a",
    "hash_policy": _HASH,
    "retry_policy": _RETRY,
    "timeout": "15s",
    "max_stream_duration": {"max_stream_duration": "5s", "grpc_timeout_header_max": "0s"},
    "auto_host_rewrite": True,
}
_ROUTES = xds.routes(
    "r",
    _route(_RICH, prefix="/shop.", headers=_HEADERS, runtime_fraction={"default_value": _HALF}),
    _route("a", path="/shop.Cart/Add", case_sensitive=False),
    _route("a", safe_regex={"regex": "/shop.*"}) | {"typed_per_filter_config": {"ssa": _OPTIONAL}},
    _route({"cluster_specifier_plugin": "p"}, prefix="/p."),
    {"match": {"prefix": "/none."}, "non_forwarding_action": {}},
    xds.route("a") | xds.filter_overrides(own=xds.typed_struct("test.Filter", share=1)),
    xds.route({"a": 1, "b": 2}),
)
_ROUTES["cluster_specifier_plugins"] = [_PLUGIN]
_ROUTES["virtual_hosts"].append(
    {
        "name": "other",
        "domains": ["shop.example", "*.example", "shop.*"],
        "routes": [xds.route("a")],
        "retry_policy": _RETRY,
        "typed_per_filter_config": {"ssa": _PER_ROUTE},
    }
)

# -- clusters

_SLOW_START = {
    "slow_start_window": "30s",
    "aggression": {"default_value": 2, "runtime_key": "a"},
    "min_weight_percent": {"value": 20},
}


def _policy(name: str, **fields: Any) -> Json:
    config = _any(f"{_POLICIES}.{name}", **fields)
    return {"typed_extension_config": _extension(name, config)}


def _policies(*policies: Json) -> Json:
    return {"policies": list(policies)}


_STRUCT = _any(
    "type.googleapis.com/xds.type.v3.TypedStruct",
    type_url="type.googleapis.com/test.Custom",
    value={"header": "tenant", "size": 3},
)
_STRUCT_OF_OURS = _any(
    "type.googleapis.com/xds.type.v3.TypedStruct",
    type_url="type.googleapis.com/ring_hash_experimental",
    value={"minRingSize": 10},
)
_LEAVES = [
    _policy("round_robin.v3.RoundRobin"),
    _policy("pick_first.v3.PickFirst", shuffle_address_list=True),
    _policy(
        "ring_hash.v3.RingHash",
        hash_function="XX_HASH",
        minimum_ring_size="10",
        maximum_ring_size="100",
    ),
    _policy("least_request.v3.LeastRequest", choice_count=3, slow_start_config=_SLOW_START),
    _policy(
        "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
        enable_oob_load_report=True,
        oob_reporting_period="10s",
        blackout_period="1s",
        weight_expiration_period="180s",
        weight_update_period="1s",
        error_utilization_penalty=1.5,
        metric_names_for_computing_utilization=["named_metrics.queue", "cpu_utilization"],
    ),
    _policy(
        "random_subsetting.v3.RandomSubsetting",
        subset_size=3,
        child_policy=_policies(_policy("round_robin.v3.RoundRobin")),
    ),
    {"typed_extension_config": _extension("custom", _STRUCT)},
    {"typed_extension_config": _extension("built-in", _STRUCT_OF_OURS)},
]
_OUTLIERS = {
    "interval": "1s",
    "base_ejection_time": "30s",
    "max_ejection_time": "300s",
    "max_ejection_percent": 50,
    "enforcing_success_rate": 100,
    "success_rate_stdev_factor": 1900,
    "enforcing_failure_percentage": 100,
    "failure_percentage_threshold": 85,
    "failure_percentage_minimum_hosts": 3,
}
_TLS = _any(
    f"{_ENVOY}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    sni="shop.example",
    auto_host_sni=True,
    common_tls_context={
        "tls_certificate_provider_instance": {"instance_name": "mesh"},
        "validation_context": {
            "ca_certificate_provider_instance": {"instance_name": "mesh"},
            "match_subject_alt_names": list(_TEXTS),
        },
    },
)
_SYSTEM_ROOTS = _any(
    f"{_ENVOY}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    common_tls_context={"validation_context": {"system_root_certs": {}}},
)
_PROXIED_TLS = _any(
    f"{_ENVOY}.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport",
    transport_socket=_extension("tls", _TLS),
)
_BREAKERS = {
    "thresholds": [{"priority": "DEFAULT", "max_requests": 10}],
    "per_host_thresholds": [{"priority": "DEFAULT", "max_connections": 3}],
}


def _cluster(**fields: Any) -> Json:
    return xds.cluster("c", override_statuses=["HEALTHY", "DRAINING"], idle_timeout=60) | fields


_CLUSTERS = [
    _cluster(outlier_detection=_OUTLIERS, circuit_breakers=_BREAKERS, **xds.load_reports("cpu_utilization")),
    *(_cluster(transport_socket=_extension("tls", each)) for each in (_TLS, _SYSTEM_ROOTS, _PROXIED_TLS)),
    *(
        _cluster(
            load_balancing_policy=_policies(
                _policy("wrr_locality.v3.WrrLocality", endpoint_picking_policy=_policies(leaf))
            )
        )
        for leaf in _LEAVES
    ),
    _cluster(load_balancing_policy=_policies(*_LEAVES)),
    _cluster(lb_policy="RING_HASH", ring_hash_lb_config={"minimum_ring_size": 10, "maximum_ring_size": 100}),
    _cluster(lb_policy="LEAST_REQUEST", least_request_lb_config={"choice_count": 3}),
    xds.aggregate("both", "a", "b"),
    xds.logical_dns("d", "cart.example", 443),
]

# -- endpoints

_ENDPOINTS = xds.endpoints(
    "c", xds.locality("10.0.0.1:443", "[::1]:443"), xds.locality("10.0.0.2:443", zone="b", priority=1, weight=3)
)
_ENDPOINTS["policy"] = {"drop_overloads": [{"category": "lb", "drop_percentage": _HALF}]}
_ENDPOINTS["endpoints"][0]["lb_endpoints"][0]["endpoint"] |= {
    "hostname": "a.example",
    "additional_addresses": [{"address": {"socket_address": {"address": "10.1.0.1", "port_value": 443}}}],
}
_ENDPOINTS["endpoints"][0]["lb_endpoints"][1]["load_balancing_weight"] = 3

_PROXY = {"socket_address": {"address": "10.9.0.1", "port_value": 3128}}
_PROXIED = xds.endpoints("c", xds.locality("10.0.0.1:443"))
_PROXIED["endpoints"][0]["metadata"] = {
    "typed_filter_metadata": {
        "envoy.http11_proxy_transport_socket.proxy_address": {
            "@type": "type.googleapis.com/envoy.config.core.v3.Address",
            **_PROXY,
        }
    }
}

SEEDS: dict[ResourceType, list[Json]] = {LDS: _LISTENERS, RDS: [_ROUTES], CDS: _CLUSTERS, EDS: [_ENDPOINTS, _PROXIED]}
