"""Stateful session affinity (A55) is tested rule by rule, from ADS bytes to RPCs.

At the top is a list of the C++ client's tests, each with the test here, or in another file, of the same
rule. Cookies and the filter's configuration have files of their own.
"""

from pathlib import Path

import pytest
import trio
from support.mesh import METHOD, Mesh
from support.policies import CONNECTING, FAILURE, IDLE, READY
from support.session_policy import ALL, DRAINING, HEALTHY, QUEUED, UNKNOWN, Story, endpoint, three
from support.sessions import answer, b64, hosts, in_cookie, listen, override, session_filter

from trxds.testing import resources as xds

ROOT = Path(__file__).parent.parent
HERE = "grfc/test_a55.py"
A75 = "grfc/test_a75.py"

# Of the C++ client: test/core/load_balancing/xds_override_host_test.cc
UNIT_TESTS = {
    "DelegatesToChild": f"{HERE}::test_rpcs_without_the_session_filter_go_to_the_childs_host",
    # Here the types see to it: there is no node without a configuration.
    "NoConfigReportsError": "lb/test_node.py::test_a_policy_does_not_decide_before_its_first_configuration",
    "OverrideHost": f"{HERE}::test_a_cookies_host_is_picked_every_time",
    "SubchannelNotFound": f"{HERE}::test_the_child_picks_if_the_cookies_host_is_unknown",
    "SubchannelsComeAndGo": f"{HERE}::test_a_session_host_may_be_removed_and_return",
    "OverrideIsQueuedInIdle": f"{HERE}::test_an_idle_session_host_is_connected_and_waited_for",
    "...InConnecting": f"{HERE}::test_a_connecting_session_host_is_waited_for",
    "...FailedInTransientFailure": f"{HERE}::test_the_child_picks_if_the_cookies_host_has_failed",
    "DrainingState": f"{HERE}::test_a_draining_host_keeps_its_sessions_and_gets_no_other_rpcs",
    "DrainingSubchannelIsConnecting": f"{HERE}::test_a_draining_host_that_reconnects_is_waited_for",
    "DrainingToHealthy": f"{HERE}::test_a_host_that_is_no_longer_draining_gets_all_rpcs_again",
    "OverrideHostStatus": f"{HERE}::test_override_host_status_limits_the_health_statuses_of_session_hosts",
    "MultipleAddressesPerEndpoint": (
        f"{HERE}::test_an_old_cookie_finds_its_endpoint_after_a_reconnect_to_another_address"
    ),
    "ChildPolicyNeverCreatedSubchannel": (
        f"{HERE}::test_a_host_that_is_draining_from_the_start_is_connected_for_its_session"
    ),
    "ChildPolicyUnrefsSubchannelNotUsedWithinIdleThreshold": f"{HERE}::test_a_host_that_no_session_used_is_not_leased",
    "IdleTimer": "session_affinity/test_hosts.py::test_the_sweep_follows_the_idle_timer_of_a75_step_by_step",
}

# Of the C++ client: test/cpp/end2end/xds/xds_override_host_end2end_test.cc
END_TO_END_TESTS = {
    "HappyPath": f"{HERE}::test_a_cookie_pins_only_the_rpcs_that_carry_it",
    "AffinityWorksAcrossPriorities": (f"{A75}::test_a_session_stays_while_its_locality_moves_to_another_priority"),
    "AffinityWorksAcrossPrioritiesHeuristicChangesChildName": (
        f"{HERE}::test_a_session_stays_when_its_locality_moves_to_another_child"
    ),
    "DrainingIncludedFromOverrideSet": (f"{A75}::test_a_draining_host_keeps_its_session_and_gets_no_other_rpcs"),
    "DrainingExcludedFromOverrideSet": f"{A75}::test_a_draining_host_loses_its_session_by_default",
    "UnhealthyEndpoint": f"{HERE}::test_an_unhealthy_host_loses_its_session_whatever_the_statuses",
    "OverrideWithWeightedClusters": f"{HERE}::test_a_cookie_pins_cluster_and_host",
    "ClusterOverrideHonoredButHostGone": f"{HERE}::test_the_cookies_cluster_counts_when_its_host_is_removed",
    "ClusterGoneHostStays": f"{HERE}::test_the_cookies_host_counts_if_the_drawn_cluster_has_it",
    "EnabledInRouteConfig": f"{HERE}::test_a_route_may_enable_a_session_filter_that_the_listener_disables",
    "DifferentPerRoute": f"{HERE}::test_every_route_uses_its_own_cookie",
    "TTLSetsMaxAge": f"{HERE}::test_the_cookies_ttl_is_its_max_age",
    "MultipleAddressesPerEndpoint": f"{HERE}::test_an_endpoint_keeps_its_session_over_all_its_addresses",
    "OverrideHostLoadReportingTest.SubchannelNotYetCreated": (
        "stories/test_load_reports.py::test_an_override_host_counts_for_its_own_locality_in_load_reports"
    ),
}


@pytest.mark.parametrize("counterpart", [*UNIT_TESTS.values(), *END_TO_END_TESTS.values()])
def test_every_session_test_of_the_cpp_client_has_a_counterpart(counterpart):
    file, _, name = counterpart.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text("utf-8")


# -- the policy's own tests, by values


def test_rpcs_without_the_session_filter_go_to_the_childs_host():
    assert Story(*three()).hosts_without_filter() == {"a", "b", "c"}


def test_a_cookies_host_is_picked_every_time():
    story = Story(*three())
    assert [story.pick("b") for _ in range(3)] == [("b", "b")] * 3


def test_the_child_picks_if_the_cookies_host_is_unknown():
    story = Story(*three())
    assert sorted(story.pick("no such host") for _ in range(3)) == [("a", "a"), ("b", "b"), ("c", "c")]


def test_a_session_host_may_be_removed_and_return():
    story = Story(*three())
    assert story.hosts("b") == {"b"}
    story.update(endpoint("a"), endpoint("c"))
    assert story.hosts("b") == {"a", "c"}
    story.update(*three())
    assert story.hosts("b") == {"b"}


def test_an_idle_session_host_is_connected_and_waited_for():
    story = Story(*three())
    story.becomes("b", IDLE)
    assert story.hosts_without_filter() == {"a", "c"}
    assert story.pick("b") == QUEUED
    assert story.to_connect == {"b"}
    story.step()
    assert story.decision.connect == ("b",)


def test_a_connecting_session_host_is_waited_for():
    story = Story(*three())
    story.becomes("b", CONNECTING)
    assert story.pick("b") == QUEUED
    assert story.to_connect == set()


def test_the_child_picks_if_the_cookies_host_has_failed():
    story = Story(*three())
    story.becomes("b", FAILURE)
    assert story.hosts("b") == {"a", "c"}


def test_a_draining_host_keeps_its_sessions_and_gets_no_other_rpcs():
    story = Story(*three())
    story.pick("b")
    story.update(*three(b=DRAINING))
    assert story.hosts("b") == {"b"}
    assert story.hosts_without_filter() == {"a", "c"}
    story.update(endpoint("a"), endpoint("c"))
    assert story.hosts("b") == {"a", "c"}


def test_a_draining_host_that_reconnects_is_waited_for():
    story = Story(*three())
    story.pick("b")
    story.update(*three(b=DRAINING))
    story.becomes("b", IDLE)
    assert story.pick("b") == QUEUED
    story.step()
    assert story.pool["b"].state is CONNECTING
    assert story.pick("b") == QUEUED
    story.becomes("b", READY)
    assert story.hosts("b") == {"b"}
    assert story.hosts_without_filter() == {"a", "c"}


def test_a_host_that_is_no_longer_draining_gets_all_rpcs_again():
    story = Story(*three())
    story.pick("b")
    story.update(*three(b=DRAINING))
    story.update(*three())
    assert story.hosts("b") == {"b"}
    assert story.hosts_without_filter() == {"a", "b", "c"}


@pytest.mark.parametrize("excluded", [UNKNOWN, HEALTHY, DRAINING])
def test_override_host_status_limits_the_health_statuses_of_session_hosts(excluded):
    hosts = {"a": UNKNOWN, "b": HEALTHY, "c": DRAINING}
    endpoints = [endpoint(name, health=health) for name, health in hosts.items()]
    story = Story(*endpoints, statuses=ALL)
    story.pick("c")
    story.becomes("c", READY)
    story.update(*endpoints, statuses=ALL - {excluded})
    pinned = {name for name in hosts if story.hosts(name) == {name}}
    assert pinned == {name for name, health in hosts.items() if health is not excluded}


def test_an_old_cookie_finds_its_endpoint_after_a_reconnect_to_another_address():
    story = Story(endpoint("a", "a2"), endpoint("b", "b2"))
    for second in ("a2", "b2"):
        story.becomes(second, IDLE)
    story.becomes("a", FAILURE)
    story.becomes("a2", READY)
    assert story.pick("a", "a2") == ("a2", "a2,a")


def test_a_host_that_is_draining_from_the_start_is_connected_for_its_session():
    story = Story(*three(a=DRAINING))
    assert "a" not in story.pool
    assert story.pick("a") == QUEUED
    story.step()
    assert story.pool["a"].state is CONNECTING
    assert story.pick("a") == QUEUED
    story.becomes("a", READY)
    assert story.pick("a") == ("a", "a")
    assert story.hosts_without_filter() == {"b", "c"}


def test_a_host_that_no_session_used_is_not_leased():
    story = Story(*three())
    story.hosts_without_filter()
    story.update(*three(b=DRAINING))
    assert "b" not in story.pool


# -- the end-to-end tests


async def test_a_cookie_pins_only_the_rpcs_that_carry_it(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter(state=in_cookie()))
        first = await answer(channel)
        assert first.cookies == [f"session={b64(f'{first.host};cart')}; HttpOnly"]
        await trio.sleep(1)
        for path in (METHOD, "/shop.Other/Method"):
            assert await hosts(channel, first.said, path=path) == {first.host}
        assert await hosts(channel) == set(mesh.hosts)


async def test_a_session_stays_when_its_locality_moves_to_another_child(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        a, b = mesh.hosts
        mesh.endpoints("cart", xds.locality(a, zone="a"), xds.locality(b, zone="b"))
        assert await hosts(channel, f"{b};cart") == {b}
        # Of the two localities of the first priority, "a" keeps the child; "b" is given a new one.
        mesh.endpoints("cart", xds.locality(a, zone="a"), xds.locality(b, zone="b", priority=1))
        await trio.sleep(1)
        assert await hosts(channel, f"{b};cart") == {b}
        assert await hosts(channel) == {a}
        assert mesh.network.attempts[b] == 1


async def test_an_unhealthy_host_loses_its_session_whatever_the_statuses(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DEGRADED", "UNHEALTHY"])
        host, *others = mesh.hosts
        assert await hosts(channel, f"{host};cart") == {host}
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "UNHEALTHY"}))
        await trio.sleep(1)
        assert await hosts(channel, f"{host};cart") == set(others)


def two_clusters(mesh, weights):
    """Configure clusters x and y with two hosts each; return the hosts of each."""
    for cluster, its in (("x", mesh.hosts[:2]), ("y", mesh.hosts[2:])):
        mesh.cluster(cluster)
        mesh.endpoints(cluster, its)
    mesh.route(weights)
    return mesh.hosts[:2], mesh.hosts[2:]


async def test_a_cookie_pins_cluster_and_host(autojump_clock):
    async with Mesh.run(4) as mesh, mesh.channel() as channel:
        (_, host), _ = two_clusters(mesh, {"x": 1, "y": 3})
        await trio.sleep(1)
        assert await hosts(channel, f"{host};x", times=30) == {host}
        assert (await answer(channel, f"{host};x")).cookies == []


async def test_the_cookies_cluster_counts_when_its_host_is_removed(autojump_clock):
    async with Mesh.run(4) as mesh, mesh.channel() as channel:
        (host, other), _ = two_clusters(mesh, {"x": 1, "y": 3})
        mesh.endpoints("x", [other])
        await trio.sleep(1)
        assert await hosts(channel, f"{host};x", times=30) == {other}
        assert (await answer(channel, f"{host};x")).said == f"{other};x"


async def test_the_cookies_host_counts_if_the_drawn_cluster_has_it(autojump_clock):
    async with Mesh.run(4) as mesh, mesh.channel() as channel:
        (host, _), ys = two_clusters(mesh, {"x": 1, "y": 1})
        mesh.cluster("z")
        mesh.endpoints("z", [host, *ys])
        mesh.route({"y": 1, "z": 1})
        await trio.sleep(1)
        answers = [await answer(channel, f"{host};x") for _ in range(60)]
        assert {one.host for one in answers if one.said.endswith(";z")} == {host}
        assert {one.host for one in answers if one.said.endswith(";y")} == set(ys)


async def test_a_route_may_enable_a_session_filter_that_the_listener_disables(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter())
        mesh.route({**xds.route("cart", prefix="/on/"), "typed_per_filter_config": override(in_cookie())}, "cart")
        host = mesh.hosts[0]
        await trio.sleep(1)
        assert await hosts(channel, f"{host};cart", path="/on/m") == {host}
        assert await hosts(channel, f"{host};cart", path="/off/m") == set(mesh.hosts)
        assert (await answer(channel, path="/on/m")).cookies
        assert (await answer(channel, path="/off/m")).cookies == []


async def test_every_route_uses_its_own_cookie(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter(state=in_cookie("inherited")))
        mesh.route(
            {**xds.route("cart", prefix="/off/"), "typed_per_filter_config": override(disabled=True)},
            {**xds.route("cart", prefix="/own/"), "typed_per_filter_config": override(in_cookie("own"))},
            xds.route("cart"),
        )
        host = f"{mesh.hosts[0]};cart"
        await trio.sleep(1)
        honoured = {
            (path, name): len(await hosts(channel, host, path=f"/{path}/m", name=name)) == 1
            for path in ("off", "own", "other")
            for name in ("inherited", "own")
        }
        assert [pair for pair, yes in honoured.items() if yes] == [("own", "own"), ("other", "inherited")]


@pytest.mark.parametrize(
    ("fields", "attributes"),
    [
        ({"ttl": "42s"}, "HttpOnly; Max-Age=42"),
        ({"ttl": "0s"}, "HttpOnly"),
        ({"ttl": "1.5s"}, "HttpOnly; Max-Age=1"),
        ({"ttl": "0.5s"}, "HttpOnly; Max-Age=0"),
        ({"ttl": "16777216.999999999s"}, "HttpOnly; Max-Age=16777216"),
        ({"path": "/"}, "HttpOnly; Path=/"),
        ({"path": "/shop.Cart", "ttl": "7s"}, "HttpOnly; Path=/shop.Cart; Max-Age=7"),
        ({"attributes": [{"name": "Secure"}]}, "HttpOnly"),
    ],
)
async def test_the_cookies_ttl_is_its_max_age(autojump_clock, fields, attributes):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        listen(mesh, session_filter(state=in_cookie(**fields)))
        (cookie,) = (await answer(channel)).cookies
        assert cookie.partition("; ")[2] == attributes


async def test_an_endpoint_keeps_its_session_over_all_its_addresses(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel:
        first, second, other = mesh.hosts  # two addresses of one backend, and another backend
        place = xds.locality(first, other)
        ip, _, port = second.partition(":")
        also = {"address": {"socket_address": {"address": ip, "port_value": int(port)}}}
        place["lb_endpoints"][0]["endpoint"]["additional_addresses"] = [also]
        mesh.endpoints("cart", place)
        mesh.network.refuse(first)
        pinned = f"{second},{first};cart"
        assert await hosts(channel, f"{first},{second};cart") == {second}
        assert (await answer(channel, f"{first},{second};cart")).said == pinned
        assert (await answer(channel, pinned)).cookies == []
        mesh.network.refuse(second)
        mesh.network.cut(second)
        mesh.network.restore(first)
        await trio.sleep(5)
        assert await hosts(channel, pinned) == {first}
        assert (await answer(channel, pinned)).said == f"{first},{second};cart"
