"""Sessions over weighted clusters (A60) are tested rule by rule, from ADS bytes to RPCs.

Updates during an RPC are in tests/stories/test_lifetimes.py.
"""

import base64

import trio
from support.routing import routed, to

from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"
ONE_IN_A_MILLION = {"a": 1, "b": 1_000_000}


def cookie(rpcs, cluster, host_of=None):
    return [("cookie", f"session={encode(rpcs.hosts[host_of or cluster], cluster)}")]


async def test_a_session_cookie_names_the_cluster(autojump_clock):
    async with routed(to("a"), sessions=True) as rpcs:
        async with rpcs.channel.method("/s/m").open(b"") as call:
            await call.receive()
            value = call.initial_metadata.first("set-cookie").partition("=")[2].partition(";")[0]
        assert base64.b64decode(value).decode() == f"{rpcs.hosts['a']};a"


async def test_a_session_stays_in_the_cluster_that_was_drawn_first(autojump_clock):
    async with routed(to({"a": 1, "b": 1}), sessions=True) as rpcs:
        for _ in range(10):
            async with rpcs.channel.session() as session:
                assert len({await rpcs.cluster(caller=session) for _ in range(10)}) == 1


async def test_clusters_whose_names_have_quotes_keep_their_sessions(autojump_clock):
    names = ('"x"', "x", 'cluster:"x"', '"')
    async with routed(to(dict.fromkeys(names, 1)), clusters=names, sessions=True) as rpcs:
        for _ in range(20):
            async with rpcs.channel.session() as session:
                assert len({await rpcs.cluster(caller=session) for _ in range(10)}) == 1


async def test_a_cookies_cluster_in_quotes_or_with_the_prefix_is_the_bare_name(autojump_clock):
    async with routed(to(ONE_IN_A_MILLION), sessions=True) as rpcs:
        for said in ('"a"', "cluster:a", 'cluster:"a"'):
            assert await rpcs.with_metadata(cookie(rpcs, said, "a")) == "a"


async def test_the_cookies_cluster_is_taken_whatever_its_weight(autojump_clock):
    async with routed(to(ONE_IN_A_MILLION), sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a")) == "a"


async def test_a_cookies_cluster_outside_the_matched_route_is_ignored(autojump_clock):
    async with routed(to("b", path="/s/m"), to("a"), sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a"), "/s/m") == "b"
        assert await rpcs.with_metadata(cookie(rpcs, "a"), "/s/other") == "a"


async def test_a_cookies_cluster_of_weight_0_is_not_in_the_route(autojump_clock):
    async with routed(to({"a": 0, "b": 1}), sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a")) == "b"


async def test_a_cookies_cluster_may_be_a_routes_single_cluster(autojump_clock):
    async with routed(to("a"), sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a")) == "a"


async def test_the_cookie_changes_with_the_cluster_even_if_the_host_is_the_same(autojump_clock):
    async with routed(to("b"), sessions=True) as rpcs:
        rpcs.mesh.endpoints("b", [rpcs.hosts["a"]])
        await trio.sleep(1)
        async with rpcs.channel.method("/s/m").open(b"", metadata=cookie(rpcs, "a")) as call:
            await call.receive()
            value = call.initial_metadata.first("set-cookie").partition("=")[2].partition(";")[0]
        assert base64.b64decode(value).decode() == f"{rpcs.hosts['a']};b"


async def test_the_time_limit_is_the_matched_routes_with_a_cookies_cluster(autojump_clock):
    limit = {"max_stream_duration": {"max_stream_duration": "30s"}}
    routes = (to(ONE_IN_A_MILLION, path="/s/m", action=limit), to("a"))
    async with routed(*routes, sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a"), "/s/m") == "a"
        (call,) = rpcs.mesh.servers[rpcs.hosts["a"]].calls
        assert 29 < call.timeout <= 30


async def test_a_weighted_cluster_may_disable_the_session_filter(autojump_clock):
    shares = [
        {"name": "a", "weight": 1},
        {
            "name": "b",
            "weight": 1_000_000,
            "typed_per_filter_config": {"stateful_session": {"@type": PER_ROUTE, "disabled": True}},
        },
    ]
    entry = {"match": {"prefix": ""}, "route": {"weighted_clusters": {"clusters": shares}}}
    async with routed(entry, sessions=True) as rpcs:
        assert await rpcs.with_metadata(cookie(rpcs, "a")) == "b", "the filters are those of the cluster drawn"


async def test_the_later_of_two_session_filters_decides_the_cluster(autojump_clock):
    async with routed(to({"a": 1, "b": 1})) as rpcs:
        later = {**xds.stateful_session("later"), "name": "later"}
        filters = [xds.stateful_session("session"), later]
        rpcs.mesh.plane.put(xds.listener("shop", routes="routes", filters=filters))
        await trio.sleep(1)
        both = [("cookie", f"session={encode(rpcs.hosts['a'], 'a')}; later={encode(rpcs.hosts['b'], 'b')}")]
        assert {await rpcs.with_metadata(both) for _ in range(20)} == {"b"}


async def test_sessions_switched_off_by_the_variable_have_no_cookie_and_no_cluster_of_one(autojump_clock, monkeypatch):
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_ENABLE_OVERRIDE_HOST", "false")
    async with routed(to(ONE_IN_A_MILLION)) as rpcs:
        optional = {**xds.stateful_session(), "is_optional": True}
        rpcs.mesh.plane.put(xds.listener("shop", routes="routes", filters=[optional]))
        await trio.sleep(1)
        assert await rpcs.with_metadata(cookie(rpcs, "a")) == "b"
