"""Random resources, and calls to try them with, for two clients that must do the same (`meshes_compared.py`).

Each third or second case may have mistakes, which both clients have to refuse. Not drawn is what they do differently
on purpose, by `docs/grfc-map.md`: header matchers for pseudo-headers and for names in capitals, `ignore_case` beside a
regular expression, cookies in forms that only trxds reads, `strict` sessions, LEAST_REQUEST, a `base_interval` of 0, a
`failure_percentage_threshold` above 100, hosts whose weights come near 2**32. Nor is a valid ring_hash below
wrr_locality: grpcio's never connects there, so its calls wait until they time out.
"""

import base64
import re
from dataclasses import dataclass, replace
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


def for_grpc_go(case):
    """The case without what grpc-go does otherwise, by `docs/grfc-map.md`."""
    calls = [{**call, "metadata": [_pair_for_grpc_go(*pair) for pair in call["metadata"]]} for call in case.calls]
    return replace(case, resources=_for_grpc_go(case.resources), calls=calls)


def _pair_for_grpc_go(key, value):
    """Empty values count as none there, and a number has no blanks."""
    return key, value if key.endswith("-bin") else value.strip() or "0"


_INSTEAD = {
    # It has another engine for regular expressions, and does not compare with an empty text.
    ("regex", "\\C"): ".",
    **{(f"{kind}{ending}", ""): "1" for kind in ("prefix", "suffix", "contains") for ending in ("_match", "")},
    # Matchers see binary headers, and not the content-type.
    **{("name", header): "x-missing" for header in ("x-c-bin", "content-type")},
    # It crashes for a cluster without a name, and looks at the rest of a route whose path no call can have.
    ("cluster", ""): CLUSTERS[0],
    **{(kind, path): "/x/y" for kind in ("path", "prefix") for path in ("x", "//", "a", "/a/b/c")},
    # It accepts these, and a ring's size of 0 is none.
    **{(key, ""): "x" for key in ("header_name", "name", "key")},
    **{(key, "-1s"): "1s" for key in ("max_stream_duration", "grpc_timeout_header_max", "grpc_timeout_header_offset")},
    ("category", ""): "a",
    ("minimum_ring_size", 0): 1024,
}


def _for_grpc_go(made, within=""):
    if isinstance(made, list):
        return [_for_grpc_go(each, within) for each in made]
    if not isinstance(made, dict):
        return made
    if "load_balancing_policy" in made:  # beside which the other fields are checked too
        made = {key: value for key, value in made.items() if key not in ("lb_policy", "ring_hash_lb_config")}
    if within == "endpoint" and not _is_at_an_address(made):
        made = {"address": {"socket_address": {"address": "::1", "port_value": 1}}}
    if within == "range_match" and made["start"] > made["end"]:
        made = {"start": 1, "end": 1}
    if within == "header" and made.get("regex_rewrite", {}).get("pattern") == {"regex": ""}:
        made = {"header_name": made["header_name"]}
    if within == "typed_per_filter_config":
        made = {key: value for key, value in made.items() if key}
    return {key: _value_for_grpc_go(key, value, within) for key, value in made.items()}


def _value_for_grpc_go(key, value, within):
    if key == "domains":  # a star may stand for nothing there, and capitals count
        return [each for each in value if not _ODD_DOMAIN.fullmatch(each)] or ["other"]
    if key == "policies":  # an empty one is left out there, and a wrr_locality below another one never serves
        value = [each for each in value if each and not (within == "endpoint_picking_policy" and _is_wrr(each))]
    if isinstance(value, dict | list):
        return _for_grpc_go(value, key)
    if key == "name" and within == "clusters":
        return value or CLUSTERS[0]
    may_be_empty = key == "prefix" and within == "match" and not value
    return value if may_be_empty else _INSTEAD.get((key, value), value)


def _is_wrr(policy):
    return policy["typed_extension_config"]["typed_config"]["@type"].endswith(".WrrLocality")


_ODD_DOMAIN = re.compile(r"\*case-\d+|case-\d+\*|.*[A-Z].*")


def _is_at_an_address(endpoint):
    where = endpoint.get("address", {}).get("socket_address", {}).get("address", "")
    return where == "::1" or bool(re.fullmatch(r"127\.[\d.]+", where))


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


# -- sessions


def sessions_case(draw, number, addresses):
    """A listener with the session filter, up to three clusters of random hosts, and calls with random cookies."""
    draw.is_wild = False
    names = [f"c{number}-{each}" for each in range(draw.choice([1, 1, 2, 3]))]
    rest = draw.sample(addresses, len(addresses))
    resources, homes = [], {}
    for name in names:
        hosts, rest = rest[:3], rest[3:]
        homes |= dict.fromkeys(hosts, name)
        resources += _session_cluster(draw, name, hosts)
    weights = {name: 0 for name in names} | {draw.choice(names): 1}
    cookie = draw.choice(["session", "s", "a.b", "S"])
    route = xds.route(weights if len(names) > 1 or draw.chance(0.5) else names[0])
    if draw.chance(0.15):
        override = f"{_TYPES}extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
        route |= xds.filter_overrides(stateful_session={"@type": override, "disabled": True})
    made = xds.stateful_session(
        cookie,
        path=draw.choice(["", "/", "/a.B", "/a.B/", "/x", "/a.B/C"]),
        ttl=draw.choice([None, 0, 1, 120, 0.5, 1.5]),
    )
    resources += [
        xds.listener(f"case-{number}", routes=f"r-{number}", filters=[made]),
        xds.routes(f"r-{number}", route),
    ]
    paths = ["/a.B/C", "/a.B/Cx", "/a.Bx/C", "/x/y", "/x.y/z"]
    calls = [{"path": draw.choice(paths), "metadata": _cookies(draw, cookie, homes)} for _ in range(10)]
    return Case(f"case-{number}", resources, calls, times=9, warm=True)


def _session_cluster(draw, name, hosts):
    """One host at least is HEALTHY. By round robin nine calls meet all that are, or one if there is no other."""
    statuses = [None, ["HEALTHY", "UNKNOWN", "DRAINING"], ["DRAINING"], ["HEALTHY"], ["UNKNOWN"], [], ["UNHEALTHY"]]
    states = ["HEALTHY"] * 5 + ["UNKNOWN", "DRAINING", "UNHEALTHY", "TIMEOUT", "DEGRADED"]
    health = {host: draw.choice(states) for host in hosts} | {hosts[0]: "HEALTHY"}
    localities = [xds.locality(*hosts, health=health)]
    if draw.chance(0.3):
        localities = [xds.locality(*hosts[:2], health=health), xds.locality(*hosts[2:], health=health, priority=1)]
    return xds.cluster(name, override_statuses=draw.choice(statuses)), xds.endpoints(name, *localities)


def _cookies(draw, cookie, homes):
    if draw.chance(0.1):
        return []
    name = cookie if draw.chance(0.9) else draw.choice(["other", cookie.swapcase(), f"{cookie}x", f"${cookie}"])
    value = _cookie_value(draw, homes)
    form = draw.choice(["{}={}"] * 6 + ["a=b; {}={}", "{}={}; a=b", "x; {}={}", "a=b; {}={}; c"])
    return [("cookie", form.format(name, value))]


def _cookie_value(draw, homes):
    host, other = draw.choice([*homes, DEAD]), draw.choice(list(homes))
    home = homes.get(host, "gone")
    text = draw.choice(
        [
            *[f"{host};{home}"] * 5,
            *(f"{host};gone", f"{host};", f"{host},{other};{home}", f"{host},{other}", host, f"{host};{home};x"),
            *(f";{home}", f"{host} ;{home}", f" {host};{home}", f"{host},;{home}", "nonsense", "[::1]:80;x", ""),
        ]
    )
    value = base64.b64encode(text.encode()).decode()
    return draw.choice([*[value] * 12, value.rstrip("="), host, "=", "!!!!", "//4="])


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
