"""`trxds explain` shows the true reason, and the next RPC goes to its host: the conformance scenarios.

The number in a test's name is that of its scenario; tests without a number have no scenario.
"""

import pytest
import trio
from support.explained import ANY, ONE, eds, line, lines, routes, situation
from support.foretold import where
from support.sessions import b64, in_cookie, override

from trxds.testing import resources as xds

pytestmark = pytest.mark.slow

PICK_FIRST = "envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst"


def session(**more):
    return xds.stateful_session("sess", **more)


def cookie(text):
    return [("cookie", f"sess={b64(text)}")]


def policy(type_name):
    config = {"name": type_name, "typed_config": {"@type": f"type.googleapis.com/{type_name}"}}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": config}]}}


# -- routes


async def test_21_an_explanation_names_the_header_that_matched_its_route(autojump_clock):
    by_header = {"match": {"prefix": "", "headers": [{"name": "h", "exact_match": "v"}]}, "route": {"cluster": "x"}}
    resources = (routes(by_header, xds.route("y")), xds.cluster("x"), xds.cluster("y"), eds("x", 0), eds("y", 1))
    async with situation(2, *resources) as (here, (x, y)):
        told = await here.told(ANY, [("h", "v")], hosts=[x])
        assert line(told, "route 0 matches:") == 'the path is any, header h matches (wanted: "v")'
        told = await here.told(ANY, [("h", "other")], hosts=[y])
        assert line(told, "route 0 does not match:") == 'header h has 5 characters and does not match (wanted: "v")'
        assert line(told, "route 1 matches:") == "the path is any"


async def test_23_an_explanation_shows_the_first_matching_route_and_an_unsupported_action(autojump_clock):
    entries = (
        xds.route("x", prefix="/a/"),
        xds.route("y", prefix="/a/b"),
        {"match": {"prefix": "/redirect/"}, "redirect": {"host_redirect": "h"}},
    )
    resources = (routes(*entries), xds.cluster("x"), xds.cluster("y"), eds("x", 0), eds("y", 1))
    async with situation(2, *resources) as (here, (x, _)):
        await here.told("/a/b", hosts=[x])
        told, status = await here.told_it_fails("/none/M")
        assert line(told, "route 2 does not match:") == 'the path is not "/redirect/" and anything after it'
        assert "no route matches /none/M" in line(told, "UNAVAILABLE:") and "no route matches" in status.note
        told, _ = await here.told_it_fails("/redirect/M")
        assert "has an action unknown to gRPC" in lines(told)[-1]


async def test_22_an_explanation_shows_the_odds_of_a_runtime_fraction(autojump_clock):
    def fraction(prefix, numerator):
        share = {"default_value": {"numerator": numerator, "denominator": "HUNDRED"}}
        return {"match": {"prefix": prefix, "runtime_fraction": share}, "route": {"cluster": "x"}}

    entries = (fraction("/zero/", 0), fraction("/thirty/", 30), fraction("/all/", 100), xds.route("y"))
    resources = (routes(*entries), xds.cluster("x"), xds.cluster("y"), eds("x", 0), eds("y", 1))
    async with situation(2, *resources) as (here, (x, y)):
        await here.told("/zero/M", hosts=[y])
        await here.told("/all/M", hosts=[x])
        for told in await here.told_by_chance("/thirty/M", hosts=[x, y]):
            assert "of a million (wanted: below 300000)" in str(told)


# -- clusters


async def test_19_an_explanation_shows_the_odds_and_the_choice_of_a_weighted_cluster(autojump_clock):
    resources = (xds.cluster("x"), xds.cluster("y"), eds("x", 0), eds("y", 1))
    async with situation(2, routes(xds.route({"x": 80, "y": 20})), *resources) as (here, (x, y)):
        for told in await here.told_by_chance(ANY, hosts=[x, y]):
            assert line(told, f"cluster {told.chosen.cluster}:").endswith(" of 100 (x 80, y 20)")
            assert told.host == {"x": x, "y": y}[told.chosen.cluster]
        here.mesh.plane.put(routes(xds.route({"x": 0, "y": 1})))
        await trio.sleep(1)
        told = await here.told(ANY, hosts=[y])
        assert "cluster y" in lines(told)  # nothing to draw


async def test_13_an_explanation_shows_the_cookies_cluster_in_place_of_the_chosen_one(autojump_clock):
    resources = (*map(xds.cluster, ("c1", "c2", "c3")), eds("c1", 0, 1), eds("c2", 2, 3), eds("c3", 4, 5))
    split = routes(xds.route({"c1": 999_998, "c2": 1, "c3": 1}))
    async with situation(6, split, *resources, filters=[session()]) as (here, hosts):
        told = await here.told(ANY, cookie(f"{hosts[5]};c3"), hosts=[hosts[5]])
        assert line(told, "session by cookie 'sess':") == f"names {hosts[5]} and cluster c3, in place of c1"
        assert line(told, "cluster_manager sees").startswith("3 clusters; chooses c3: it is the RPC's")


async def test_13_an_explanation_shows_a_cookie_for_a_cluster_outside_the_route(autojump_clock):
    resources = (xds.cluster("c1"), xds.cluster("c2"), eds("c1", 0), eds("c2", 1))
    entries = routes(xds.route("c2", prefix="/other/"), xds.route("c1"))
    async with situation(2, entries, *resources, filters=[session()]) as (here, (first, second)):
        told = await here.told(ANY, cookie(f"{second};c2"), hosts=[first])
        assert line(told, "session by").endswith(f"names {second} and cluster c2, which the route does not have")
        assert f"{second} is no endpoint of cluster c1" in line(told, "override_host sees")


# -- sessions


async def test_02_an_explanation_shows_a_session_on_its_host(autojump_clock):
    async with situation(3, *ONE, eds("a", 0, 1, 2), filters=[session()]) as (here, hosts):
        for host in hosts:
            told = await here.told(ANY, cookie(f"{host};a"), hosts=[host])
            assert line(told, "session by cookie 'sess':") == f"names {host} and cluster a"
            assert line(told, "override_host sees").endswith(": the session's first host that is READY")
        told = await here.told(ANY, hosts=hosts)
        assert line(told, "session by cookie 'sess':") == "none in the request"
        assert line(told, "round_robin sees").startswith("3 of 3 endpoints READY")


async def test_04_an_explanation_shows_a_session_whose_host_was_removed(autojump_clock):
    async with situation(3, *ONE, eds("a", 1, 2), filters=[session()]) as (here, (gone, *others)):
        told = await here.told(ANY, cookie(f"{gone};a"), hosts=others)
        assert line(told, "override_host sees") == (
            f"{gone} is no endpoint of cluster a; chooses what is below it: none of the session's hosts can be used"
        )


async def test_06_an_explanation_shows_a_session_on_a_draining_host(autojump_clock):
    def draining(*hosts):
        return xds.endpoints("a", xds.locality(*hosts, health={hosts[0]: "DRAINING"}))

    statuses = ["UNKNOWN", "HEALTHY", "DRAINING"]
    resources = (routes(xds.route("a")), xds.cluster("a", override_statuses=statuses), draining)
    async with situation(3, *resources, filters=[session()]) as (here, (drains, *others)):
        told = await here.told(ANY, cookie(f"{drains};a"), hosts=[drains])
        assert f"{drains} is DRAINING, not connected;" in line(told, "override_host sees")
        await here.told(ANY, hosts=others)
        here.mesh.plane.put(xds.cluster("a"))
        await trio.sleep(1)
        told = await here.told(ANY, cookie(f"{drains};a"), hosts=others)
        assert f"{drains} is DRAINING, which override_host_status does not have" in str(told)


async def test_55_an_explanation_shows_a_session_whose_host_is_down(autojump_clock):
    resources = (*ONE, eds("a", 0, 1, 2))
    async with situation(3, *resources, filters=[session()], down=[2]) as (here, (*others, down)):
        told = await here.told(ANY, cookie(f"{down};a"), hosts=others)
        assert f"{down} is HEALTHY, TRANSIENT_FAILURE;" in line(told, "override_host sees")


async def test_55_an_explanation_shows_a_session_whose_host_was_never_connected(autojump_clock):
    resources = (routes(xds.route("pf")), xds.cluster("pf") | policy(PICK_FIRST), eds("pf", 0, 1, 2))
    async with situation(3, *resources, filters=[session()]) as (here, (first, _, last)):
        told = await here.told(ANY, cookie(f"{last};pf"), hosts=[last])
        assert line(told, "so the RPC") == f"waits for {last} to connect"
        assert "it is not connected yet, so it is connected for the session" in str(told)
        await here.told(ANY, hosts=[first])


async def test_09_an_explanation_shows_why_a_cookie_is_invalid(autojump_clock):
    async with situation(2, *ONE, eds("a", 0, 1), filters=[session()]) as (here, hosts):
        for value, verdict in {
            "!!!!": "cannot be read, or is too old",
            "": "none in the request",
            b64("hello;a"): "names (no address) and cluster a",
            b64("127.9.0.1;a"): "names (no address) and cluster a",
        }.items():
            told = await here.told(ANY, [("cookie", f"sess={value}")], hosts=hosts)
            assert line(told, "session by cookie 'sess':") == verdict
            assert told.steps[-1].policy == "round_robin"


async def test_15_an_explanation_shows_a_routes_override_of_the_session_filter(autojump_clock):
    off = xds.route("a", prefix="/off/") | {"typed_per_filter_config": override(disabled=True)}
    other = xds.route("a", prefix="/other/") | {"typed_per_filter_config": override(in_cookie("other", ttl="5s"))}
    resources = (routes(off, other, xds.route("a")), xds.cluster("a"), eds("a", 0, 1))
    async with situation(2, *resources, filters=[session()]) as (here, hosts):
        its = cookie(f"{hosts[1]};a")
        told = await here.told("/off/M", its, hosts=hosts)
        assert line(told, "filter stateful_session") == "(from the route): off"
        assert line(told, "override_host sees").startswith("no session filter;")
        told = await here.told("/other/M", its, hosts=hosts)
        assert line(told, "filter stateful_session") == "(from the route): cookie 'other' for every path, for 5 s"
        assert line(told, "session by cookie 'other':") == "none in the request"
        told = await here.told(ANY, its, hosts=[hosts[1]])
        assert line(told, "filter stateful_session").startswith("(from the listener): cookie 'sess' for")


# -- hashes


async def test_38_an_explanation_shows_the_hash_of_a_header_and_its_host(autojump_clock):
    hashed = xds.route("x")
    hashed["route"]["hash_policy"] = [{"header": {"header_name": "k"}}]
    resources = (routes(xds.route("x", prefix="/none/"), hashed), xds.cluster("x") | {"lb_policy": "RING_HASH"})
    async with situation(4, *resources, eds("x", 0, 1, 2, 3)) as (here, _):
        owners = set()
        for key in ("k1", "k2", "k3", "k4", "k5"):
            owner = where(await here.channel.explain(ANY, [("k", key)]))
            told = await here.told(ANY, [("k", key)], hosts=[owner])
            assert f"hash {told.chosen.hash:#018x}" in line(told, "ring_hash sees")
            owners.add(owner)
        assert len(owners) > 1
        told = await here.channel.explain("/none/M")
        assert "drawn because no hash policy yields one" in line(told, "ring_hash sees")
