"""Random resources, and calls to try them with, for two clients that must do the same (`meshes_compared.py`).

Each third or second case may have mistakes, which both clients have to refuse. Not drawn is what they do differently
on purpose, by `docs/grfc-map.md`: header matchers for pseudo-headers and for names in capitals, `ignore_case` beside a
regular expression, cookies in forms that only trxds reads, `strict` sessions, LEAST_REQUEST, a `base_interval` of 0, a
`failure_percentage_threshold` above 100, hosts whose weights come near 2**32. Nor is a valid ring_hash below
wrr_locality: grpcio's never connects there, so its calls wait until they time out.
"""

import base64
from dataclasses import dataclass
from random import Random

from trxds.testing import resources as xds

CLUSTERS = ("a", "b", "c", "d")
HOSTS = tuple(f"h{number}" for number in range(10))
DEAD = "127.0.0.1:1"

_TYPES = "type.googleapis.com/envoy."
_UNKNOWN = {"@type": "type.googleapis.com/xds.type.v3.TypedStruct", "type_url": "type.googleapis.com/no.Such"}
_PATHS = ("/a.B/C", "/a.B/c", "/A.b/C", "/x/y", "/a.B/Cx", "/foo/bar")
_EXPRESSIONS = (
    *("a.*", "/a\\.B/.*", "/[a-z.B]+/C", "(?i)/a\\.b/c", ".*", "", "a|b", "\\d+", "ab?c", "/x/y|/foo/bar", "(?i)abc"),
    *("[[:alpha:]]+", "\\C", "^abc$", "\\pL+", "(?P<n>a)bc"),
)
_BAD_EXPRESSIONS = ("[", "(?=x)", "a{1001}")
_COMMON = ("1", "5", "10", "abc", "ABC", "a,b", "xabcx")
_VALUES = (
    *_COMMON,
    *("-5", "a b", "0x10", "+5", "1.5", " 7", "", "007"),
    *("9223372036854775807", "9223372036854775808"),
)


@dataclass(frozen=True)
class Case:
    """`target` is the name after xds:///; each call is made `times` times, after some that warm the channel up."""

    target: str
    resources: list
    calls: list
    times: int = 1
    warm: bool = False

    def order(self):
        """As JSON for the program of the other client."""
        return {"target": f"xds:///{self.target}", "calls": self.calls, "times": self.times, "warm": self.warm}


class Draws(Random):
    """Draws of one seed; mistakes are made only in a case that `is_wild`."""

    is_wild = False
    joined = ()
    """The values of headers in the case's calls, as matchers see them."""

    def chance(self, share):
        return self.random() < share

    def mistake(self, share):
        return self.random() < share and self.is_wild

    def any(self, *good, bad=()):
        return self.choice([*good, *bad] if self.is_wild else good)

    def some(self, most, make):
        return [make() for _ in range(self.randint(1, most))]


# -- routes


def routes_case(draw, number):
    """A listener with random routes to `CLUSTERS`, and calls with random paths and metadata."""
    draw.is_wild = number % 3 == 0
    calls = [{"path": draw.choice(_PATHS), "metadata": _metadata(draw)} for _ in range(12)]
    draw.joined = [",".join(values) for call in calls for values in _values_by_key(call["metadata"])] or [""]
    hosts = [
        {
            "name": f"v{each}",
            "domains": [] if draw.mistake(0.02) else draw.some(2, lambda: _domain(draw, number)),
            "routes": [] if draw.mistake(0.02) else draw.some(4, lambda: _route(draw)),
        }
        for each in range(draw.choice([1, 1, 1, 2, 3]))
    ]
    routes = xds.routes(f"r-{number}") | {"virtual_hosts": hosts}
    return Case(f"case-{number}", [xds.listener(f"case-{number}", routes=f"r-{number}"), routes], calls)


def _metadata(draw):
    keys = [draw.choice(["x-a", "x-b", "x-a", "x-b", "x-c-bin"]) for _ in range(draw.choice([1, 1, 2, 3, 0]))]
    drawn = [(key, draw.choice(_COMMON if draw.chance(0.7) else _VALUES)) for key in keys]
    return [(key, base64.b64encode(text.encode()).decode() if key.endswith("-bin") else text) for key, text in drawn]


def _values_by_key(metadata):
    return [[value for key, value in metadata if key == each] for each in ("x-a", "x-b")]


def _domain(draw, number):
    name = f"case-{number}"
    if draw.chance(0.6):
        return draw.choice(["*", name])
    some = ["*", name, name.upper(), "case-*", f"*-{number}", "other", "c*", "*x", f"*{name}", f"{name}*", "Case-*"]
    return draw.any(*some, bad=("ca*se", "", "**"))


def _expression(draw):
    return {"regex": draw.any(*_EXPRESSIONS, bad=_BAD_EXPRESSIONS)}


def _route(draw):
    entry = {"match": _match(draw), **_action(draw)}
    if draw.mistake(0.03):
        del entry["match"]
    if draw.mistake(0.08):
        fault = f"{_TYPES}extensions.filters.http.fault.v3.HTTPFault"
        config = f"{_TYPES}config.route.v3.FilterConfig"
        overrides = (
            *(
                {"x": _UNKNOWN},
                {"x": {"@type": config, "is_optional": True, "config": _UNKNOWN}},
                {"x": {"@type": fault}},
            ),
            *({"x": {"@type": config}}, {"": {"@type": fault, "abort": {"grpc_status": 99}}}),
        )
        entry["typed_per_filter_config"] = draw.choice(overrides)
    return entry


def _match(draw):
    kinds = ["prefix", "path", "safe_regex", *(["none", "path_separated_prefix"] if draw.mistake(0.1) else [])]
    kind = draw.choice(kinds)
    odd = ("x", "//", "a", "/a/b/c") if draw.chance(0.1) else ()
    match = {}
    if kind == "prefix":
        match[kind] = draw.choice(["", "", "/", "/", "/a.B/", "/A.B/", "/a.B", "/a.B/C", "/x/", *odd])
    elif kind == "path":
        match[kind] = draw.choice([*_PATHS, *odd])
    elif kind == "safe_regex":
        match[kind] = _expression(draw)
    elif kind == "path_separated_prefix":
        match[kind] = "/a.B"
    if draw.chance(0.25):
        match["case_sensitive"] = draw.chance(0.3)
    if headers := [_header_match(draw) for _ in range(draw.choice([0, 0, 1, 1, 2, 3]))]:
        match["headers"] = headers
    if draw.chance(0.12):  # none or all of them, so that nothing is left to chance
        match["runtime_fraction"] = {"default_value": draw.choice([{}, {"numerator": 100}, {"numerator": 1_000}])}
    if draw.chance(0.03):
        match["query_parameters"] = [{"name": "q", "present_match": True}]
    return match


def _header_match(draw):
    kinds = ["exact_match", "prefix_match", "suffix_match", "contains_match"]
    kind = draw.choice([*kinds, "safe_regex_match", "range_match", "present_match", "string_match"])
    start = draw.choice([-10, 0, 1, 5])
    match = {"name": draw.choice([*["x-a", "x-b"] * 4, "x-c-bin", "content-type", "x-missing"])}
    if kind in kinds:
        some = (*_COMMON, *_VALUES, ",a", "x", "application/grpc", "grpc")
        match[kind] = draw.choice(draw.joined if draw.chance(0.5) else some)
    elif kind == "safe_regex_match":
        match[kind] = _expression(draw)
    elif kind == "range_match":
        match[kind] = {"start": start, "end": draw.any(start, start + 5, 10, 11, bad=(start - 1,))}
    elif kind == "present_match":
        match[kind] = draw.chance(0.6)
    else:
        match[kind] = _string_match(draw)
    if draw.mistake(0.04):
        del match[kind]
    if draw.chance(0.3):
        match["invert_match"] = draw.chance(0.8)
    return match


def _string_match(draw):
    kind = draw.choice(["exact", "prefix", "suffix", "contains", "safe_regex"])
    if draw.mistake(0.05):
        return {}
    if kind == "safe_regex":
        return {kind: _expression(draw)}
    match = {kind: draw.choice([*_VALUES, "a", "bc", "application/grpc"])}
    return match | {"ignore_case": draw.chance(0.8)} if draw.chance(0.3) else match


def _action(draw):
    if draw.chance(0.06):
        return draw.choice([{"non_forwarding_action": {}}, {"redirect": {"path_redirect": "/x"}}])
    if draw.mistake(0.06):
        return draw.choice([{}, {"route": {"cluster_specifier_plugin": "p"}}])
    if draw.chance(0.03):
        return {"route": {"cluster_header": "x-a"}}
    if draw.chance(0.7):
        action = {"cluster": "" if draw.mistake(0.03) else draw.choice(CLUSTERS)}
    else:
        action = {"weighted_clusters": _weighted_clusters(draw)}
    if draw.chance(0.1):
        limit = draw.choice(["max_stream_duration", "grpc_timeout_header_max", "grpc_timeout_header_offset"])
        action["max_stream_duration"] = {limit: draw.any("0s", "5s", "10s", bad=("-1s",))}
    if draw.mistake(0.15):
        action["retry_policy"] = _retry_policy(draw)
    if draw.mistake(0.15):
        action["hash_policy"] = draw.some(2, lambda: _hash_policy(draw))
    return {"route": action}


def _weighted_clusters(draw):
    """All the weight is one cluster's, so that nothing is left to chance."""
    names = draw.sample(CLUSTERS, draw.randint(1, 3))
    shares = [{"name": name, "weight": 0} for name in names]
    one = draw.choice(shares)
    one["weight"] = draw.any(1, 100, 2**32 - 1, bad=(0,))
    if draw.mistake(0.04):
        one["name"] = ""
    if draw.mistake(0.04):
        shares.append(dict(one))
    return {"clusters": [] if draw.mistake(0.04) else shares}


def _retry_policy(draw):
    return {
        "retry_on": draw.choice(["unavailable", "cancelled,deadline-exceeded", "5xx", "", "unavailable, internal"]),
        "num_retries": draw.choice([0, 1, 3, 10]),
        "retry_back_off": draw.choice(
            [{}, {"base_interval": "0.1s"}, {"base_interval": "-1s"}, {"max_interval": "1s"}]
        ),
    }


def _hash_policy(draw):
    header = {"header_name": draw.choice(["x-a", ""])}
    if draw.chance(0.3):
        header["regex_rewrite"] = {"pattern": _expression(draw), "substitution": draw.choice(["x", "\\1", "", "\\"])}
    cookie = {"cookie": {"name": draw.choice(["c", ""])}}
    state = {"filter_state": {"key": draw.choice(["io.grpc.channel_id", "other", ""])}}
    return draw.choice([{"header": header}, cookie, state, {"connection_properties": {"source_ip": True}}, {}])


# -- clusters and endpoints


def endpoints_case(draw, number, addresses):
    """A cluster with random fields and endpoints; the same call often enough to meet all its hosts."""
    draw.is_wild = number % 2 == 1
    name = f"c{number}"
    cluster, service = _random_cluster(draw, name)
    localities, priority = [], 0
    rest = draw.sample(addresses, draw.choice([1, 2, 3, 4, 6]))
    while rest:
        size = draw.randint(1, 3)
        hosts, rest = rest[:size], rest[size:]
        localities.append(_random_locality(draw, hosts, f"z{len(localities)}", priority))
        if draw.chance(0.25):
            priority += 2 if draw.mistake(0.3) else 1
    endpoints = xds.endpoints(service, *localities)
    if draw.chance(0.1):
        share = {"numerator": draw.any(0, 0, 100, bad=(101, 2**32 - 1))}
        endpoints["policy"] = {"drop_overloads": [{"category": draw.any("a", bad=("",)), "drop_percentage": share}]}
    routes = xds.listener(f"case-{number}", routes=f"r-{number}"), xds.routes(f"r-{number}", xds.route(name))
    call = {"path": "/a/b", "metadata": []}
    return Case(f"case-{number}", [cluster, endpoints, *routes], [call], times=20, warm=True)


def _random_cluster(draw, name):
    """The cluster, and the name of its endpoints."""
    cluster, service = xds.cluster(name), name
    if draw.mistake(0.2):
        sources = ({"eds_config": {"self": {}}}, {}, {"eds_config": {"path": "/x"}})
        cluster["eds_cluster_config"] = draw.choice(sources)
    elif draw.chance(0.2):
        service = f"service-{name}"
        cluster["eds_cluster_config"]["service_name"] = service
    if draw.mistake(0.03):
        cluster["type"] = draw.choice(["STATIC", "STRICT_DNS", "ORIGINAL_DST"])
    if draw.chance(0.5):
        unknown = ("RANDOM", "MAGLEV", "CLUSTER_PROVIDED", "LOAD_BALANCING_POLICY_CONFIG")
        cluster["lb_policy"] = draw.any("ROUND_ROBIN", "RING_HASH", bad=unknown)
    if cluster.get("lb_policy") == "RING_HASH" and draw.chance(0.7):
        cluster["ring_hash_lb_config"] = {
            "minimum_ring_size": draw.any(0, 10, 1024, bad=(2**23, 2**23 + 1, 5000)),
            "maximum_ring_size": draw.any(1024, 2000, bad=(0, 1, 2**23, 2**23 + 1)),
            "hash_function": draw.any("XX_HASH", bad=("MURMUR_HASH_2",)),
        }
    if draw.mistake(0.4):
        cluster["load_balancing_policy"] = _policies(draw, 0)
    if draw.mistake(0.3):
        cluster["outlier_detection"] = _outlier_detection(draw)
    if draw.mistake(0.1):
        cluster["lrs_server"] = draw.choice([{"self": {}}, {"ads": {}}, {"path": "x"}])
    if draw.mistake(0.1):
        cluster["transport_socket"] = _transport_socket(draw)
    if draw.chance(0.2):
        cluster["circuit_breakers"] = {"thresholds": [{"max_requests": draw.any(1, 100, bad=(0,))}]}
    return cluster, service


def _policies(draw, depth):
    return {"policies": [] if draw.mistake(0.05) else draw.some(3, lambda: _policy(draw, depth))}


def _policy(draw, depth):
    policies = f"{_TYPES}extensions.load_balancing_policies."
    hashes = ["MURMUR_HASH_2"] if depth else ["XX_HASH", "MURMUR_HASH_2"]  # see the head of this file
    ring = {"@type": f"{policies}ring_hash.v3.RingHash", "hash_function": draw.choice(hashes)}
    locality = {"@type": f"{policies}wrr_locality.v3.WrrLocality"}
    if depth < 3:
        locality["endpoint_picking_policy"] = _policies(draw, depth + 1)
    config = draw.choice(
        [
            *[{"@type": f"{policies}round_robin.v3.RoundRobin"}] * 3,
            {"@type": f"{policies}client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"},
            *(ring, ring | {"minimum_ring_size": draw.choice([0, 10, 5000, 2**23 + 1])}, locality, locality, _UNKNOWN),
            _UNKNOWN | {"type_url": f"type.googleapis.com/{draw.choice(['round_robin', 'no_such'])}", "value": {}},
        ]
    )
    return {} if draw.chance(0.03) else {"typed_extension_config": {"name": "p", "typed_config": config}}


def _outlier_detection(draw):
    durations = ["0s", "1s", "0.5s", "-1s", "315576000000s", "-0.5s"]
    shares = ("max_ejection_percent", "enforcing_success_rate", "enforcing_failure_percentage")
    fields = {name: draw.choice(durations) for name in ("interval", "base_ejection_time", "max_ejection_time")}
    fields |= {name: draw.choice([0, 50, 100, 101]) for name in shares}
    return {name: value for name, value in fields.items() if draw.chance(0.3)}


def _transport_socket(draw):
    tls = {"@type": f"{_TYPES}extensions.transport_sockets.tls.v3.UpstreamTlsContext"}
    trust = {"validation_context_certificate_provider_instance": {"instance_name": "none"}}
    configs = ({}, {"typed_config": tls}, {"typed_config": tls | {"common_tls_context": trust}})
    return {"name": "envoy.transport_sockets.tls"} | draw.choice(configs)


def _random_locality(draw, hosts, zone, priority):
    states = ["HEALTHY"] * 8 + ["UNKNOWN"] * 3 + ["DRAINING", "UNHEALTHY"]
    made = xds.locality(*hosts, zone=zone, priority=priority, health={host: draw.choice(states) for host in hosts})
    mistakes = (
        *({"load_balancing_weight": None}, {"load_balancing_weight": 2**32 - 1}, {"locality": {"zone": "z0"}}),
        *({"locality": None}, {"lb_endpoints": []}, {"priority": 128}, {"lb_endpoints": made["lb_endpoints"] * 2}),
    )
    if draw.mistake(0.2):
        made |= draw.choice(mistakes)
    for each in made["lb_endpoints"]:
        if draw.mistake(0.08):
            each["load_balancing_weight"] = draw.choice([1, 2])
        if draw.mistake(0.06):
            each["endpoint"] = _odd_endpoint(draw)
    return {name: value for name, value in made.items() if value is not None}


def _odd_endpoint(draw):
    addresses = ("localhost", "", "not an ip", "256.1.1.1", "::1")
    where = {"address": draw.choice(addresses), "port_value": draw.choice([1, 0, 65_536])}
    return draw.choice([{"address": {"socket_address": where}}, {"address": {"pipe": {"path": "/tmp/x"}}}, {}])
