"""Resources for two clients, ours and Envoy: what both take, what both refuse, and where they differ and why.

A listener is named "case" and asks for the routes "extra"; so are clusters "case", and routes and endpoints "extra".
"""

from support.envoy import SPEAKS_HTTP2

from trxds.testing import resources as xds

_ENVOY = "type.googleapis.com/envoy"
_FILTERS = "extensions.filters.http"
_POLICIES = "extensions.load_balancing_policies"
_UNKNOWN = {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": "type.googleapis.com/no.Such"}
_FROM_ADS = {"ads": {}, "resource_api_version": "V3"}


def _typed(name, **fields):
    return {"@type": f"{_ENVOY}.{name}", **fields}


def _listener(*filters, **manager):
    made = xds.listener("case", routes="extra", filters=filters)
    made["api_listener"]["api_listener"].update(manager)
    return made


def _filter(config, **more):
    return {"name": "a filter", "typed_config": config, **more}


def _routes(*entries):
    return xds.routes("extra", *entries)


def _hosts(*virtual_hosts):
    hosts = [{"name": f"v{number}", **each} for number, each in enumerate(virtual_hosts)]
    return _routes() | {"virtual_hosts": hosts}


def _matching(*headers, prefix="", **more):
    return _routes({"match": {"prefix": prefix, "headers": list(headers), **more}, "route": {"cluster": "cart"}})


def _path(**match):
    return _routes({"match": match, "route": {"cluster": "cart"}})


def _action(**more):
    entry = xds.route("cart")
    entry["route"].update(more)
    return _routes(entry)


def _cluster(**more):
    return xds.cluster("case", **more) | SPEAKS_HTTP2


def _balanced(*configs):
    policies = [{"typed_extension_config": {"name": "a policy", "typed_config": each}} for each in configs]
    return _cluster() | {"load_balancing_policy": {"policies": policies}}


def _dns(**more):
    return xds.logical_dns("case", "localhost", 1) | more


def _endpoints(*localities, **policy):
    made = xds.endpoints("extra", *localities)
    return made | {"policy": policy} if policy else made


def _locality(number=1, **more):
    return xds.locality(f"127.0.0.1:{number}", zone=f"z{number}") | more


def _weighted(weight):
    made = xds.locality("127.0.0.1:1", "127.0.0.1:2")
    made["lb_endpoints"][0]["load_balancing_weight"] = weight
    return _endpoints(made)


def _drops(category, numerator):
    return {"drop_overloads": [{"category": category, "drop_percentage": {"numerator": numerator}}]}


_TWO_HOSTS = _dns()
_TWO_HOSTS["load_assignment"] = {
    **_TWO_HOSTS["load_assignment"],
    "endpoints": [{"lb_endpoints": _TWO_HOSTS["load_assignment"]["endpoints"][0]["lb_endpoints"] * 2}],
}


def _copied(*policies):
    made = xds.route("cart")
    made["route"]["request_mirror_policies"] = list(policies)
    return _routes(made)


def _share(**percent):
    return {"runtime_fraction": {"default_value": percent}}


ACCEPTED = {
    "LDS: a session filter": _listener(xds.stateful_session(ttl=60, path="/shop")),
    "LDS: a session filter that is off": _listener(xds.stateful_session() | {"disabled": True}),
    "LDS: two session filters": _listener(xds.stateful_session("a"), xds.stateful_session("b") | {"name": "another"}),
    "LDS: a fault filter": _listener(_filter(_typed(f"{_FILTERS}.fault.v3.HTTPFault", abort={"grpc_status": 14}))),
    "LDS: an unknown filter that is optional": _listener(_filter(_UNKNOWN, is_optional=True)),
    "LDS: a time limit for all streams": _listener(common_http_protocol_options={"max_stream_duration": "5s"}),
    "RDS: two clusters by weight": _routes(xds.route({"cart": 80, "other": 20})),
    "RDS: copies of calls": _copied({"cluster": "other", **_share(numerator=5)}, {"cluster_header": "x-mirror"}),
    "RDS: copies of more than all calls": _copied({"cluster": "other", **_share(numerator=500)}),
    "RDS: a cluster of weight 0": _routes(xds.route({"cart": 1, "other": 0})),
    "RDS: a path": _path(path="/a.B/C"),
    "RDS: a path in any case": _matching(case_sensitive=False, prefix="/A"),
    "RDS: a regex": _path(safe_regex={"regex": "/a.*"}),
    "RDS: header matchers": _matching(
        {"name": "a", "string_match": {"exact": "x"}},
        {"name": "b", "range_match": {"start": 1, "end": 5}},
        {"name": "c", "present_match": True, "invert_match": True},
        {"name": "d", "string_match": {"safe_regex": {"regex": "x+"}}},
        {"name": "e", "string_match": {"suffix": "z", "ignore_case": True}},
    ),
    "RDS: a fraction": _matching(runtime_fraction={"default_value": {"numerator": 5, "denominator": "HUNDRED"}}),
    "RDS: hash policies": _action(
        hash_policy=[{"header": {"header_name": "user"}}, {"filter_state": {"key": "io.grpc.channel_id"}}]
    ),
    "RDS: a retry policy": _action(
        retry_policy={
            "retry_on": "unavailable,cancelled",
            "num_retries": 3,
            "retry_back_off": {"base_interval": "0.1s", "max_interval": "1s"},
        }
    ),
    "RDS: time limits": _action(
        timeout="2s", max_stream_duration={"max_stream_duration": "3s", "grpc_timeout_header_max": "0s"}
    ),
    "RDS: a route without sessions": _routes(
        xds.route("cart")
        | {
            "typed_per_filter_config": {
                "stateful_session": _typed(f"{_FILTERS}.stateful_session.v3.StatefulSessionPerRoute", disabled=True)
            }
        }
    ),
    "RDS: domains of every form": _hosts({"domains": ["*.x", "x.*", "a", "*"], "routes": [xds.route("cart")]}),
    "RDS: an action that is no gRPC": _routes({"match": {"prefix": ""}, "redirect": {"host_redirect": "x"}}),
    "RDS: no routes": _routes(),
    "RDS: no virtual hosts": _hosts(),
    "CDS: override statuses": _cluster(override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"]),
    "CDS: override statuses that are none": _cluster(override_statuses=[]),
    "CDS: an idle timeout": _cluster(idle_timeout=5),
    "CDS: an aggregate": xds.aggregate("case", "cart", "other"),
    "CDS: a DNS name": _dns(),
    "CDS: endpoints of another name": _cluster()
    | {"eds_cluster_config": {"eds_config": _FROM_ADS, "service_name": "extra"}},
    "CDS: circuit breakers": _cluster() | {"circuit_breakers": {"thresholds": [{"max_requests": 10}]}},
    "CDS: outlier detection": _cluster()
    | {"outlier_detection": {"interval": "5s", "max_ejection_percent": 50, "failure_percentage_threshold": 85}},
    "CDS: load reports": _cluster() | xds.load_reports("cpu_utilization"),
    "CDS: RING_HASH": _cluster()
    | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 16, "maximum_ring_size": 64}},
    "CDS: LEAST_REQUEST": _cluster() | {"lb_policy": "LEAST_REQUEST"},
    "CDS: round_robin": _balanced(_typed(f"{_POLICIES}.round_robin.v3.RoundRobin")),
    "CDS: ring_hash": _balanced(_typed(f"{_POLICIES}.ring_hash.v3.RingHash", hash_function="XX_HASH")),
    "CDS: least_request": _balanced(_typed(f"{_POLICIES}.least_request.v3.LeastRequest")),
    "CDS: weighted_round_robin": _balanced(
        _typed(f"{_POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin")
    ),
    "CDS: an unknown policy and one that is known": _balanced(
        _UNKNOWN, _typed(f"{_POLICIES}.round_robin.v3.RoundRobin")
    ),
    "EDS: priorities": _endpoints(_locality(1), _locality(2, priority=1)),
    "EDS: every health": _endpoints(
        xds.locality(
            *(f"127.0.0.1:{port}" for port in range(1, 5)),
            health={"127.0.0.1:1": "DRAINING", "127.0.0.1:2": "UNKNOWN", "127.0.0.1:3": "UNHEALTHY"},
        )
    ),
    "EDS: weights of localities": _endpoints(_locality(1, load_balancing_weight=3), _locality(2)),
    "EDS: weights of endpoints": _weighted(5),
    "EDS: drops": _endpoints(_locality(), **_drops("some", 5)),
    "EDS: an address of IPv6": _endpoints(xds.locality("[::1]:1")),
    "EDS: no localities": _endpoints(),
    "EDS: a locality without endpoints": _endpoints(xds.locality()),
}

REFUSED = {
    "LDS: an unknown filter": _listener(_filter(_UNKNOWN)),
    "LDS: a cookie without a name": _listener(xds.stateful_session("")),
    "LDS: a cookie of negative time": _listener(xds.stateful_session(ttl=-1)),
    "LDS: a filter without a name": _listener(xds.stateful_session() | {"name": ""}),
    "LDS: no router": _listener(http_filters=[xds.stateful_session()]),
    "LDS: a filter after the router": _listener(
        http_filters=[*_listener()["api_listener"]["api_listener"]["http_filters"], xds.stateful_session()]
    ),
    "RDS: copies to no cluster": _copied({}),
    "RDS: copies to two clusters": _copied({"cluster": "other", "cluster_header": "x-mirror"}),
    "RDS: copies by a bad header": _copied({"cluster_header": "x\ny"}),
    "RDS: copies with a bad authority": _copied({"cluster": "other", "host_rewrite_literal": "x\ny"}),
    "RDS: copies of a share without a value": _copied({"cluster": "other", "runtime_fraction": {"runtime_key": "x"}}),
    "RDS: copies of a share of an unknown whole": _copied({"cluster": "other", **_share(denominator=9)}),
    "RDS: a broken regex": _path(safe_regex={"regex": "("}),
    "RDS: a broken regex for a header": _matching({"name": "d", "string_match": {"safe_regex": {"regex": "("}}}),
    "RDS: weights that are all 0": _routes(xds.route({"cart": 0, "other": 0})),
    "RDS: weights that are too much": _routes(xds.route({"cart": 2**32 - 1, "other": 2**32 - 1})),
    "RDS: a virtual host without domains": _hosts({"domains": [], "routes": [xds.route("cart")]}),
    "RDS: no path matcher": _path(),
    "RDS: a cluster without a name": _routes(xds.route("")),
    "RDS: a negative time limit": _action(max_stream_duration={"max_stream_duration": "-3s"}),
    "RDS: a backoff of nothing": _action(
        retry_policy={"retry_on": "unavailable", "retry_back_off": {"base_interval": "0s"}}
    ),
    "CDS: only an unknown policy": _balanced(_UNKNOWN),
    "CDS: policies that are none": _balanced(),
    "CDS: a static cluster with EDS": _cluster() | {"type": "STATIC"},
    "CDS: no EDS config": {key: value for key, value in _cluster().items() if key != "eds_cluster_config"},
    "CDS: a ring that is larger than its limit": _cluster()
    | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 1024, "maximum_ring_size": 64}},
    "CDS: a ring without end": _cluster()
    | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 99_999_999}},
    "CDS: more ejected than all": _cluster() | {"outlier_detection": {"max_ejection_percent": 101}},
    "CDS: a negative interval": _cluster() | {"outlier_detection": {"interval": "-1s"}},
    "CDS: an aggregate of nothing": xds.aggregate("case"),
    "CDS: a DNS cluster without a name to look up": {key: value for key, value in _dns().items() if key[0] != "l"},
    "CDS: a DNS cluster of two names": _TWO_HOSTS,
    "EDS: an endpoint of weight 0": _weighted(0),
    "EDS: an address that is a name": _endpoints(xds.locality("example.com:1")),
    "EDS: a port that is none": _endpoints(xds.locality("127.0.0.1:70000")),
    "EDS: a priority over 128": _endpoints(_locality(priority=129)),
    "EDS: drops without a category": _endpoints(_locality(), **_drops("", 5)),
}

# gRPC has what Envoy lacks, ignores what it does not use, or reads a field differently.
ONLY_OURS = {
    "CDS: pick_first": _balanced(_typed(f"{_POLICIES}.pick_first.v3.PickFirst")),
    "CDS: round_robin within localities": _balanced(
        _typed(
            f"{_POLICIES}.wrr_locality.v3.WrrLocality",
            endpoint_picking_policy=_balanced(_typed(f"{_POLICIES}.round_robin.v3.RoundRobin"))[
                "load_balancing_policy"
            ],
        )
    ),
    "RDS: a domain in two virtual hosts": _hosts(
        {"domains": ["a"], "routes": [xds.route("cart")]}, {"domains": ["a"], "routes": [xds.route("cart")]}
    ),
    "RDS: no action": _routes({"match": {"prefix": ""}}),
    "RDS: an action without a cluster": _routes({"match": {"prefix": ""}, "route": {}}),
    "EDS: a locality of weight 0": _endpoints(_locality(load_balancing_weight=0)),
    "EDS: more drops than all": _endpoints(_locality(), **_drops("some", 500)),
}

# gRPC's rules are stricter, or name fewer things that are supported.
ONLY_ENVOYS = {
    "LDS: no filters": _listener(http_filters=[]),
    "LDS: two filters of one name": _listener(xds.stateful_session("a"), xds.stateful_session("b")),
    "RDS: a star within a domain": _hosts({"domains": ["a*b"], "routes": [xds.route("cart")]}),
    "CDS: MAGLEV": _cluster() | {"lb_policy": "MAGLEV"},
    "CDS: another hash function": _cluster()
    | {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"hash_function": "MURMUR_HASH_2"}},
    "CDS: load reports to another server": _cluster() | {"lrs_server": {"ads": {}}},
    "EDS: a gap in the priorities": _endpoints(_locality(1), _locality(2, priority=2)),
    "EDS: a locality twice": _endpoints(_locality(1), xds.locality("127.0.0.1:2", zone="z1")),
    "EDS: an endpoint twice": _endpoints(_locality(1), xds.locality("127.0.0.1:1", zone="z2")),
    "EDS: weights that are too much": _endpoints(
        _locality(1, load_balancing_weight=2**32 - 1), _locality(2, load_balancing_weight=2**32 - 1)
    ),
}

# What a case has taken the place of, when it is over.
USUAL = {"RDS": _routes(xds.route("extra")), "EDS": _endpoints(_locality())}
