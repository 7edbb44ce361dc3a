"""Traffic splitting and routing (A28, A63) are tested rule by rule, from ADS bytes to RPCs.

Reasons to refuse a resource, and every matcher by values, are in tests/resources.
"""

import pytest
import trio
from support.mesh import Mesh, ask
from support.routing import routed, to

from trxds import RpcError, StatusCode
from trxds.resources import protos
from trxds.resources.types import RDS, ParseContext
from trxds.testing import resources as xds

# -- virtual hosts


async def test_the_most_specific_domain_wins(autojump_clock):
    async with routed(to("a")) as rpcs:
        hosts = [
            {"name": str(number), "domains": [domain], "routes": [to(cluster)]}
            for number, (domain, cluster) in enumerate([("*", "a"), ("sh*", "a"), ("*op", "b"), ("*hop", "c")])
        ]
        rpcs.mesh.plane.put({**xds.routes("routes"), "virtual_hosts": hosts})
        await trio.sleep(1)
        assert await rpcs.cluster() == "c"


async def test_rpcs_without_a_virtual_host_fail_unless_they_wait_for_ready(autojump_clock):
    async with routed(to("a")) as rpcs:
        rpcs.mesh.plane.put(xds.routes("routes", to("a"), domains=["other"]))
        await trio.sleep(1)
        refusal = await rpcs.refusal()
        assert refusal.code is StatusCode.UNAVAILABLE
        assert 'no virtual host for "shop"' in refusal.message
        with trio.move_on_after(60) as scope:
            await rpcs.cluster(wait_for_ready=True)
        assert scope.cancelled_caught


# -- which route


async def test_the_first_matching_route_wins_however_exact_a_later_one_is(autojump_clock):
    async with routed(to("a", prefix="/s/"), to("b", path="/s/m")) as rpcs:
        assert await rpcs.cluster("/s/m") == "a"


async def test_routes_match_by_path_prefix_and_regular_expression(autojump_clock):
    expression = {"regex": "/[x-z]/.*"}
    async with routed(to("a", path="/s/m"), to("b", prefix="/s/"), to("c", safe_regex=expression)) as rpcs:
        assert [await rpcs.cluster(path) for path in ("/s/m", "/s/mm", "/y/m")] == ["a", "b", "c"]


async def test_a_regular_expression_of_a_route_matches_the_full_path(autojump_clock):
    async with routed(to("a", safe_regex={"regex": "/s/"}), to("b", safe_regex={"regex": "m"}), to("c")) as rpcs:
        assert await rpcs.cluster("/s/m") == "c"


async def test_a_route_may_ignore_case_in_paths_and_prefixes(autojump_clock):
    async with routed(
        to("a", path="/S/M", case_sensitive=False), to("b", prefix="/S/", case_sensitive=False), to("c")
    ) as rpcs:
        assert [await rpcs.cluster(path) for path in ("/s/m", "/s/n", "/t/m")] == ["a", "b", "c"]


async def test_routes_are_case_sensitive_by_default(autojump_clock):
    async with routed(to("a", path="/S/M"), to("b", prefix="/S/", case_sensitive=True), to("c")) as rpcs:
        assert await rpcs.cluster("/s/m") == "c"


SKIPPED = {
    "query parameters": to("a", query_parameters=[{"name": "q", "present_match": True}]),
    "a cluster_header": {"match": {"prefix": ""}, "route": {"cluster_header": "h"}},
    "an unknown cluster specifier": {"match": {"prefix": ""}, "route": {}},
}


@pytest.mark.parametrize("entry", SKIPPED.values(), ids=SKIPPED)
async def test_a_route_that_grpc_does_not_support_is_skipped(autojump_clock, entry):
    async with routed(entry, to("b")) as rpcs:
        assert await rpcs.cluster() == "b"


@pytest.mark.parametrize("ignored", [{"grpc": {}}, {"tls_context": {"presented": True}}], ids=str)
async def test_a_matcher_for_servers_is_ignored_and_the_rest_of_its_route_counts(autojump_clock, ignored):
    user = {"name": "user", "exact_match": "7"}
    async with routed(to("a", headers=[user], **ignored), to("b")) as rpcs:
        assert [await rpcs.cluster(user="7"), await rpcs.cluster()] == ["a", "b"]


OLD_PATH = b"\x1a\x02/s"  # RouteMatch.regex, field 3
OLD_HEADER = b"\x0a\x01x\x2a\x01a"  # HeaderMatcher.name, and its regex_match, field 5


@pytest.mark.parametrize("field, value", [("regex", OLD_PATH), ("headers", OLD_HEADER)])
def test_deprecated_unsafe_regular_expressions_are_refused(field, value):
    config = protos.RouteConfiguration(name="routes")
    host = config.virtual_hosts.add(name="v", domains=["*"])
    entry = host.routes.add()
    entry.route.cluster = "a"
    if field == "headers":
        entry.match.prefix = ""
        entry.match.headers.add().MergeFromString(value)
    else:
        entry.match.MergeFromString(value)
    (error,) = RDS.read(protos.pack(config), ParseContext()).errors
    assert error.endswith("error:invalid path specifier" if field == "regex" else "error:invalid header matcher")


async def test_an_rpc_without_a_route_fails_even_if_it_waits_for_ready(autojump_clock):
    async with routed(to("a", prefix="/t/")) as rpcs:
        for wait in (False, True):
            refusal = await rpcs.refusal("/s/m", wait_for_ready=wait)
            assert refusal.code is StatusCode.UNAVAILABLE
            assert 'no route matches /s/m in virtual host "routes"' in refusal.note


ACTIONS = {
    "redirect": {"redirect": {"host_redirect": "other"}},
    "direct response": {"direct_response": {"status": 204}},
    "non-forwarding": {"non_forwarding_action": {}},
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
async def test_a_route_to_anything_but_clusters_fails_its_rpcs(autojump_clock, action):
    async with routed({"match": {"path": "/s/m"}, **action}, to("b")) as rpcs:
        for wait in (False, True):
            assert (await rpcs.refusal("/s/m", wait_for_ready=wait)).code is StatusCode.UNAVAILABLE
        assert await rpcs.cluster("/s/n") == "b"


# -- headers

EXACT_A = {"name": "x", "exact_match": "a"}
MATCHERS = {  # the matcher; values that it takes; values that it leaves
    "exact": (EXACT_A, ["a"], ["A", "aa", ""]),
    "prefix": ({"name": "x", "prefix_match": "a"}, ["a", "ab"], ["ba"]),
    "suffix": ({"name": "x", "suffix_match": "a"}, ["a", "ba"], ["ab"]),
    "contains": ({"name": "x", "contains_match": "a"}, ["bab"], ["A"]),
    "regex": ({"name": "x", "safe_regex_match": {"regex": "a+"}}, ["aa"], ["ab"]),
    "range": (
        {"name": "x", "range_match": {"start": 3, "end": 9}},
        ["3", "+3", " 8", "08"],
        ["9", "-3", "3.5", "x", ""],
    ),
    "present": ({"name": "x", "present_match": True}, ["", "a"], [None]),
    "absent": ({"name": "x", "present_match": False}, [None], ["", "a"]),
    "inverted": ({**EXACT_A, "invert_match": True}, ["b"], ["a", None]),
    "inverted presence": ({"name": "x", "present_match": True, "invert_match": True}, [None], ["a"]),
    "string": ({"name": "x", "string_match": {"exact": "aB", "ignore_case": True}}, ["Ab"], ["abc"]),
    "several values": ({"name": "x", "exact_match": "a,b"}, [("a", "b"), "a,b"], [("b", "a"), "a"]),
}


def pairs(value):
    """Return the metadata for a value: None is no header, a tuple is one header for each value."""
    values = value if isinstance(value, tuple) else (value,)
    return [("x", each) for each in values if each is not None]


@pytest.mark.parametrize("matcher, takes, leaves", MATCHERS.values(), ids=MATCHERS)
async def test_routes_match_headers_by_all_header_matchers(autojump_clock, matcher, takes, leaves):
    async with routed(to("a", headers=[matcher]), to("b")) as rpcs:
        assert [await rpcs.with_metadata(pairs(value)) for value in takes] == ["a"] * len(takes)
        assert [await rpcs.with_metadata(pairs(value)) for value in leaves] == ["b"] * len(leaves)


async def test_all_headers_of_a_route_must_match(autojump_clock):
    async with routed(to("a", headers=[EXACT_A, {"name": "y", "exact_match": "b"}]), to("b")) as rpcs:
        assert [await rpcs.cluster(x="a", y="b"), await rpcs.cluster(x="a")] == ["a", "b"]


async def test_a_header_matcher_sees_grpcs_content_type(autojump_clock):
    async with routed(to("a", headers=[{"name": "content-type", "exact_match": "application/grpc"}]), to("b")) as rpcs:
        assert await rpcs.cluster() == "a"


async def test_a_header_matcher_does_not_see_binary_headers(autojump_clock):
    there = {"name": "x-bin", "present_match": True}
    absent = {"name": "x-bin", "present_match": False}
    async with routed(to("a", headers=[there]), to("b", headers=[absent]), to("c")) as rpcs:
        assert await rpcs.with_metadata([("x-bin", b"1")]) == "b"


@pytest.mark.parametrize("name", [":method", ":authority", "te", "user-agent", "grpc-accept-encoding"])
async def test_a_header_matcher_does_not_see_transport_headers(autojump_clock, name):
    async with routed(to("a", headers=[{"name": name, "present_match": True}]), to("b")) as rpcs:
        assert await rpcs.cluster() == "b"


# -- shares


def fraction(numerator, denominator="MILLION"):
    return {"runtime_fraction": {"default_value": {"numerator": numerator, "denominator": denominator}}}


async def test_a_fraction_of_0_never_matches_and_one_of_100_percent_always(autojump_clock):
    async with routed(to("a", **fraction(0)), to("b", **fraction(100, "HUNDRED")), to("c")) as rpcs:
        assert {await rpcs.cluster() for _ in range(200)} == {"b"}


async def test_a_routes_fraction_matches_its_share_of_rpcs(autojump_clock):
    async with routed(to("a", **fraction(2_500, "TEN_THOUSAND")), to("b")) as rpcs:
        taken = [await rpcs.cluster() for _ in range(400)].count("a")
        assert 60 < taken < 140


async def test_weighted_clusters_are_drawn_by_weight(autojump_clock):
    async with routed(to({"a": 1, "b": 3, "c": 0})) as rpcs:
        drawn = [await rpcs.cluster() for _ in range(400)]
        assert set(drawn) == {"a", "b"}
        assert 60 < drawn.count("a") < 140


async def test_the_total_weight_of_weighted_clusters_is_ignored(autojump_clock):
    shares = [{"name": "a", "weight": 1}, {"name": "b", "weight": 1}]
    entry = {"match": {"prefix": ""}, "route": {"weighted_clusters": {"clusters": shares, "total_weight": 77}}}
    async with routed(entry) as rpcs:
        assert {await rpcs.cluster() for _ in range(50)} == {"a", "b"}


# -- clusters that cannot be reached


async def test_the_draw_of_a_cluster_ignores_connectivity(autojump_clock):
    async with routed(to({"a": 1, "b": 1})) as rpcs:
        rpcs.mesh.network.refuse(rpcs.hosts["a"])
        rpcs.mesh.network.cut(rpcs.hosts["a"])
        await trio.sleep(1)
        failed = 0
        for _ in range(40):
            try:
                await rpcs.cluster()
            except RpcError:
                failed += 1
        assert 5 < failed < 35


async def test_a_route_whose_cluster_still_connects_keeps_its_rpcs_queued(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.network.black_hole(mesh.hosts[0])
        async with mesh.channel() as channel:
            with trio.move_on_after(5) as scope:
                await ask(channel)
            assert scope.cancelled_caught
