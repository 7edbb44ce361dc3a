"""RouteConfiguration: what is refused with which text (as the C++ client does), and what it becomes."""

from __future__ import annotations

from typing import Any

import pytest
from support.route_documents import ANY_PATH, T, only_route, routes, to, weighted

from trxds.resources import protos
from trxds.resources.filter_config import FilterConfig
from trxds.resources.matchers import Contains, Exact, HeaderMatch, Pattern, Prefix, Present, Range, Suffix
from trxds.resources.regex import Regex
from trxds.resources.route import Route, RouteConfig, VirtualHost
from trxds.resources.route_action import RouteAction, WeightedCluster
from trxds.resources.route_match import RouteMatch
from trxds.resources.stateful_session import CookieConfig, StatefulSessionConfig
from trxds.resources.types import RDS, ParseContext, unwrap


def by_header(**matcher: Any) -> dict[str, Any]:
    return to(match={**ANY_PATH, "headers": [{"name": "h", **matcher}]})


def fraction(numerator: int, denominator: int | str) -> dict[str, Any]:
    percent = {"numerator": numerator, "denominator": denominator}
    return to(match={**ANY_PATH, "runtime_fraction": {"default_value": percent}})


def hashed(**policy: Any) -> dict[str, Any]:
    return to(hash_policy=[policy])


REFUSED = {
    "bad path regex": (
        to(match={"safe_regex": {"regex": "a("}}),
        "match error:error creating path matcher: Invalid regex string specified in matcher: missing ): a(",
    ),
    "bad header regex": (
        by_header(safe_regex_match={"regex": "a["}),
        "match.headers[0] error:cannot create header matcher: Invalid regex string specified in matcher: missing ]: [",
    ),
    "bad string regex": (
        by_header(string_match={"safe_regex": {"regex": "a["}}),
        "match.headers[0].string_match error:cannot create string matcher: "
        "Invalid regex string specified in matcher: missing ]: [",
    ),
    "string matcher without a kind": (
        by_header(string_match={}),
        "match.headers[0].string_match error:invalid string matcher",
    ),
    "header matcher without a kind": (by_header(), "match.headers[0] error:invalid header matcher"),
    "range that ends before its start": (
        by_header(range_match={"start": 9, "end": 3}),
        "match.headers[0] error:cannot create header matcher: "
        "Invalid range specifier specified: end cannot be smaller than start.",
    ),
    "no match": ({"route": {"cluster": "a"}}, "match error:field not present"),
    "no path": (to(match={}), "match error:invalid path specifier"),
    "unknown path specifier": (to(match={"connect_matcher": {}}), "match error:invalid path specifier"),
    "unknown denominator": (
        fraction(1, 7),
        "match.runtime_fraction.default_value.denominator error:unknown denominator type",
    ),
    "no cluster name": (to(""), "route.cluster error:must be non-empty"),
    "no weighted clusters": (weighted(), "route.weighted_clusters error:no valid clusters specified"),
    "all weights 0": (
        weighted({"name": "a", "weight": 0}, {"name": "b", "weight": 0}),
        "route.weighted_clusters error:no valid clusters specified",
    ),
    "weights beyond 32 bits": (
        weighted({"name": "a", "weight": 2**32 - 1}, {"name": "b", "weight": 1}),
        "route.weighted_clusters error:sum of cluster weights exceeds uint32 max",
    ),
    "weighted cluster without a name": (
        weighted({"name": "", "weight": 1}),
        "route.weighted_clusters.clusters[0].name error:must be non-empty",
    ),
    "weighted cluster without a weight": (
        weighted({"name": "a"}),
        "route.weighted_clusters.clusters[0].weight error:field not present",
    ),
    "negative max_stream_duration": (
        to(max_stream_duration={"max_stream_duration": "-5s"}),
        "route.max_stream_duration.max_stream_duration.seconds error:value must be in the range [0, 315576000000]",
    ),
    "negative grpc_timeout_header_max": (
        to(max_stream_duration={"grpc_timeout_header_max": "-0.5s"}),
        "route.max_stream_duration.grpc_timeout_header_max.nanos error:value must be in the range [0, 999999999]",
    ),
    "no retries": (
        to(retry_policy={"retry_on": "unavailable", "num_retries": 0}),
        "route.retry_policy.num_retries error:must be greater than 0",
    ),
    "retry back-off without a base": (
        to(retry_policy={"retry_on": "unavailable", "retry_back_off": {"max_interval": "1s"}}),
        "route.retry_policy.retry_back_off.base_interval error:field not present",
    ),
    "retry back-off of 0": (
        to(retry_policy={"retry_on": "unavailable", "retry_back_off": {"base_interval": "0s"}}),
        "route.retry_policy.retry_back_off.base_interval error:must be greater than 0",
    ),
    "retry back-off with a base below 0": (
        to(retry_policy={"retry_back_off": {"base_interval": "-1s", "max_interval": "1s"}}),
        "route.retry_policy.retry_back_off.base_interval.seconds error:value must be in the range [0, 315576000000]",
    ),
    "retry back-off with a limit below 0": (
        to(retry_policy={"retry_back_off": {"base_interval": "1s", "max_interval": "-1s"}}),
        "route.retry_policy.retry_back_off.max_interval.seconds error:value must be in the range [0, 315576000000]",
    ),
    "retry back-off that shrinks": (
        to(retry_policy={"retry_back_off": {"base_interval": "2s", "max_interval": "1s"}}),
        "route.retry_policy.retry_back_off.max_interval error:must not be less than base_interval",
    ),
    "hash of no header": (
        hashed(header={"header_name": ""}),
        "route.hash_policy[0].header.header_name error:must be non-empty",
    ),
    "bad regex in a hash": (
        hashed(header={"header_name": "h", "regex_rewrite": {"pattern": {"regex": "a("}}}),
        "route.hash_policy[0].header.regex_rewrite.pattern.regex error:errors compiling regex: missing ): a(",
    ),
    "hash rewrite without a pattern": (
        hashed(header={"header_name": "h", "regex_rewrite": {"substitution": "x"}}),
        "route.hash_policy[0].header.regex_rewrite.pattern error:field not present",
    ),
    "hash rewrite with an empty pattern": (
        hashed(header={"header_name": "h", "regex_rewrite": {"pattern": {}}}),
        "route.hash_policy[0].header.regex_rewrite.pattern.regex error:must be non-empty",
    ),
    "unknown cluster specifier plugin": (
        {"match": ANY_PATH, "route": {"cluster_specifier_plugin": "none"}},
        'route.cluster_specifier_plugin error:unknown cluster specifier plugin name "none"',
    ),
    "cluster specifier plugin without a name": (
        {"match": ANY_PATH, "route": {"cluster_specifier_plugin": ""}},
        "route.cluster_specifier_plugin error:must be non-empty",
    ),
    "override of an unknown filter": (
        {**to(), "typed_per_filter_config": {"x": {"@type": T + "google.protobuf.Duration", "value": "1s"}}},
        "typed_per_filter_config[x].value[google.protobuf.Duration] error:unsupported filter type; mark it "
        "is_optional, or give the channel a filter for it (http_filters)",
    ),
}


@pytest.mark.parametrize(("entry", "error"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_route_is_refused_with_its_field(read: Any, entry: dict[str, Any], error: str) -> None:
    parsed = read(RDS, routes(entry))
    assert parsed.errors == (f"field:virtual_hosts[0].routes[0].{error}",)
    assert parsed.name == "routes" and parsed.value is None


@pytest.mark.parametrize(
    ("host", "error"),
    [
        ({"domains": []}, "domains error:must be non-empty"),
        ({"domains": ["a", ""]}, 'domains[1] error:invalid domain pattern ""'),
        ({"domains": ["a*b"]}, 'domains[0] error:invalid domain pattern "a*b"'),
        ({"retry_policy": {"num_retries": 0}}, "retry_policy.num_retries error:must be greater than 0"),
    ],
)
def test_a_bad_virtual_host_is_refused_with_its_field(read: Any, host: dict[str, Any], error: str) -> None:
    assert read(RDS, routes(to(), **host)).errors == (f"field:virtual_hosts[0].{error}",)


def test_every_error_of_a_resource_is_reported(read: Any) -> None:
    bad = routes(to(""), to(match={}), by_header(), domains=[])
    assert [text.split(" error:")[0] for text in read(RDS, bad).errors] == [
        "field:virtual_hosts[0].domains",
        "field:virtual_hosts[0].routes[0].route.cluster",
        "field:virtual_hosts[0].routes[1].match",
        "field:virtual_hosts[0].routes[2].match.headers[0]",
    ]


# -- what is accepted, though odd


def test_a_route_becomes_a_value(read: Any) -> None:
    route = Route(RouteMatch(Prefix("")), RouteAction((WeightedCluster("a", 1),)))
    assert read(RDS, routes(to("a"))).value == RouteConfig("routes", (VirtualHost("vh", ("*",), (route,)),))


@pytest.mark.parametrize(
    "entry",
    [
        to(match={"prefix": "abc"}),
        to(match={"prefix": "/a/b/c"}),
        to(match={"prefix": "/a/b/"}),
        to(match={"prefix": "//"}),
        to(match={"path": "/abc"}),
        to(match={"path": ""}),
        to(match={"path": "a/b"}),
        to(match={"path": "//b"}),
        to(match={"path": "/a/"}),
        to(match={"path": "/a/b/c"}),
        to(match={**ANY_PATH, "query_parameters": [{"name": "q", "present_match": True}]}),
        to(match={"query_parameters": [{"name": "q"}]}),
        {"match": ANY_PATH, "route": {"cluster_header": "h"}},
        {"match": ANY_PATH, "route": {}},
    ],
    ids=str,
)
def test_a_route_that_grpc_does_not_support_is_skipped(read: Any, entry: dict[str, Any]) -> None:
    parsed = read(RDS, routes(entry, to("other")))
    assert [route.action.clusters[0].name for route in parsed.value.virtual_hosts[0].routes] == ["other"]


@pytest.mark.parametrize("prefix", ["", "/", "/a", "/a/", "/a/b"])
def test_a_prefix_that_some_method_can_have_is_kept(read: Any, prefix: str) -> None:
    assert only_route(read(RDS, routes(to(match={"prefix": prefix}))).value).match.path == Prefix(prefix)


@pytest.mark.parametrize("action", [{}, {"redirect": {}}, {"direct_response": {}}, {"non_forwarding_action": {}}])
def test_an_action_grpc_does_not_have_is_kept_for_rpcs_to_fail(read: Any, action: dict[str, Any]) -> None:
    assert only_route(read(RDS, routes({"match": ANY_PATH, **action})).value).action is None


@pytest.mark.parametrize(
    "resource",
    [
        {"name": "routes"},
        routes(),
        routes(to(), domains=["*a*"]),
        routes(to(match={**ANY_PATH, "grpc": {}})),
        routes(hashed(cookie={"name": "c"})),
        routes(weighted({"name": "a", "weight": 1}, {"name": "a", "weight": 2}, total_weight=5)),
        routes(to(timeout="-1s")),
    ],
    ids=str,
)
def test_an_odd_but_valid_route_is_accepted(read: Any, resource: dict[str, Any]) -> None:
    assert read(RDS, resource).errors == ()


def test_virtual_hosts_may_share_a_domain(read: Any) -> None:
    hosts = [{"name": name, "domains": ["svc"], "routes": [to()]} for name in "pq"]
    assert not read(RDS, {"name": "routes", "virtual_hosts": hosts}).errors


# -- matches


@pytest.mark.parametrize(
    ("match", "path"),
    [
        ({"path": "/a/b"}, Exact("/a/b")),
        ({"path": "/a/b", "case_sensitive": True}, Exact("/a/b")),
        ({"path": "/a/b", "case_sensitive": False}, Exact("/a/b", ignore_case=True)),
        ({"prefix": "/a", "case_sensitive": False}, Prefix("/a", ignore_case=True)),
        ({"safe_regex": {"regex": "/a/.*"}, "case_sensitive": False}, Pattern(Regex("/a/.*"))),
    ],
)
def test_paths_become_matchers(read: Any, match: dict[str, Any], path: object) -> None:
    assert only_route(read(RDS, routes(to(match=match))).value).match.path == path


@pytest.mark.parametrize(
    ("matcher", "test"),
    [
        ({"exact_match": "v"}, Exact("v")),
        ({"prefix_match": "v"}, Prefix("v")),
        ({"suffix_match": "v"}, Suffix("v")),
        ({"contains_match": "v"}, Contains("v")),
        ({"safe_regex_match": {"regex": "v+"}}, Pattern(Regex("v+"))),
        ({"range_match": {"start": -3, "end": 3}}, Range(-3, 3)),
        ({"range_match": {"start": 3, "end": 3}}, Range(3, 3)),
        ({"present_match": True}, Present(True)),
        ({"present_match": False}, Present(False)),
        ({"string_match": {"exact": "v"}}, Exact("v")),
        ({"string_match": {"prefix": "v", "ignore_case": True}}, Prefix("v", True)),
        ({"string_match": {"suffix": "v", "ignore_case": True}}, Suffix("v", True)),
        ({"string_match": {"contains": "v", "ignore_case": True}}, Contains("v", True)),
        ({"string_match": {"safe_regex": {"regex": "v"}, "ignore_case": True}}, Pattern(Regex("v"))),
    ],
)
def test_headers_become_matchers(read: Any, matcher: dict[str, Any], test: Any) -> None:
    for invert in (False, True):
        (header,) = only_route(read(RDS, routes(by_header(**matcher, invert_match=invert))).value).match.headers
        assert header == HeaderMatch("h", test, invert)


def test_the_name_of_a_header_is_taken_in_lower_case(read: Any) -> None:
    entry = to(match={**ANY_PATH, "headers": [{"name": "X-Env", "exact_match": "v"}]})
    assert only_route(read(RDS, routes(entry)).value).match.headers[0].name == "x-env"


@pytest.mark.parametrize(
    ("numerator", "denominator", "per_million"),
    [(25, "HUNDRED", 250_000), (25, "TEN_THOUSAND", 2_500), (25, "MILLION", 25), (0, "HUNDRED", 0), (200, 0, 10**6)],
)
def test_fractions_are_counted_per_million(read: Any, numerator: int, denominator: int | str, per_million: int) -> None:
    assert only_route(read(RDS, routes(fraction(numerator, denominator))).value).match.fraction == per_million


def test_a_fraction_without_a_default_is_none(read: Any) -> None:
    entry = to(match={**ANY_PATH, "runtime_fraction": {"runtime_key": "k"}})
    assert only_route(read(RDS, routes(entry)).value).match.fraction is None


# -- overrides


SESSION = T + "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
COOKIE = T + "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState"


def session(name: str) -> dict[str, Any]:
    state = {"name": "cookie", "typed_config": {"@type": COOKIE, "cookie": {"name": name}}}
    return {"session": {"@type": SESSION, "stateful_session": {"session_state": state}}}


def test_filter_overrides_stay_in_their_scope(read: Any) -> None:
    entry = weighted({"name": "a", "weight": 1, "typed_per_filter_config": session("of-weight")})
    entry["typed_per_filter_config"] = session("of-route")
    (host,) = read(RDS, routes(entry, typed_per_filter_config=session("of-host"))).value.virtual_hosts
    (route,) = host.routes
    assert (host.filter_overrides, route.filter_overrides, route.action.clusters[0].filter_overrides) == (
        session_config("of-host"),
        session_config("of-route"),
        session_config("of-weight"),
    )


def session_config(name: str) -> dict[str, FilterConfig]:
    return {"session": StatefulSessionConfig(CookieConfig(name))}


# -- size


def test_a_long_table_is_parsed_in_slices() -> None:
    table = routes(*[to(match={"path": f"/s/{number}"}) for number in range(1000)])
    packed = protos.from_json({"@type": RDS.type_url, **table})
    assert 10 <= sum(1 for _ in RDS.read_in_slices(unwrap(packed), ParseContext())) <= 20


def test_many_virtual_hosts_are_parsed_in_slices() -> None:
    hosts = [{"name": str(number), "domains": [f"host-{number}"]} for number in range(1000)]
    packed = protos.from_json({"@type": RDS.type_url, "name": "r", "virtual_hosts": hosts})
    assert 10 <= sum(1 for _ in RDS.read_in_slices(unwrap(packed), ParseContext())) <= 20


def test_the_repr_of_a_route_config_counts_virtual_hosts_and_routes() -> None:
    assert repr(RouteConfig("r", (VirtualHost("v", ("*",)),))) == "<RouteConfig r: 1 virtual hosts, 0 routes>"
