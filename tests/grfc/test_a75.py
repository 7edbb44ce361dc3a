"""A75's two trees are tested arrow by arrow: the effect of one policy's place above another.

    cluster_manager -> cds -> outlier_detection -> cluster_impl -> override_host -> priority -> localities -> hosts
    cluster_manager -> cds -> priority -> cds (one for each cluster of an aggregate) -> as above

Stories in other files:

- outlier detection covers one cluster with all its priorities, and a priority whose hosts are all ejected
  fails over: tests/stories/test_ejection.py
- a cds above the failover of an aggregate, and sessions and limits of its leaves: tests/stories/test_aggregate.py
- SubchannelNotYetCreated: test_a_handmade_session_cookie_connects_an_idle_host
- the sweep: test_the_sweep_releases_an_idle_session_host
"""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, bidi, method, settled, spread
from support.picture import assignment

from trxds import RpcError, StatusCode
from trxds.lb.config_builder import PriorityNames, build_aggregate, build_cluster
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

JUDGED = {
    "interval": "10s",
    "base_ejection_time": "600s",
    "max_ejection_time": "600s",
    "max_ejection_percent": 100,
    "enforcing_success_rate": 0,
    "enforcing_failure_percentage": 100,
    "failure_percentage_threshold": 50,
    "failure_percentage_minimum_hosts": 1,
    "failure_percentage_request_volume": 3,
}


def cookie(host, cluster="cart"):
    return [("cookie", f"session={encode(host, cluster)}")]


FULL = "circuit breaker drop"


def judged(name):
    return {**xds.cluster(name), "outlier_detection": JUDGED}


def dropping(cluster, percent, *localities):
    """Return endpoints with a drop of this percentage of the RPCs."""
    share = {"category": "load", "drop_percentage": {"numerator": percent, "denominator": "HUNDRED"}}
    return {**xds.endpoints(cluster, *localities), "policy": {"drop_overloads": [share]}}


def limited(name, most):
    return {**xds.cluster(name), "circuit_breakers": {"thresholds": [{"max_requests": most}]}}


async def sicken(mesh, *hosts):
    async def refuse(call):
        call.abort(StatusCode.UNAVAILABLE, "not me")

    for host in hosts:
        mesh.servers[host].handlers["/shop.Cart/Add"] = refuse


async def outcomes(caller, times, **more):
    """Return the hosts that answered, and the messages of failed RPCs."""
    seen = set()
    for _ in range(times):
        try:
            seen.add(await ask(caller, **more))
        except RpcError as error:
            seen.add(error.status.message)
    return seen


@asynccontextmanager
async def aggregate(each=1):
    """Run a mesh with a route to "both", an aggregate of x and y with `each` hosts."""
    async with Mesh.run(2 * each) as mesh:
        for cluster, hosts in (("x", mesh.hosts[:each]), ("y", mesh.hosts[each:])):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, hosts)
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with mesh.channel() as channel:
            yield mesh, channel


# -- the trees themselves


def below(config):
    """Return the names of the policies from here to a host, by the first child of each."""
    children = [getattr(config, "child", None), *getattr(config, "children", {}).values()]
    children += [target.config for target in getattr(config, "targets", {}).values()]
    first = next((child for child in children if child is not None), None)
    return [config.policy, *(below(first) if first is not None else [])]


def cluster(name):
    return ClusterConfig(Cluster(name, Eds(name)), assignment(name, "10.0.0.1:80"))


def test_the_tree_of_a_cluster():
    assert below(build_cluster(cluster("x"), PriorityNames()).config) == [
        "outlier_detection_experimental",
        "xds_cluster_impl_experimental",
        "xds_override_host_experimental",
        "priority_experimental",
        "weighted_target_experimental",
        "round_robin",
    ]


def test_the_tree_of_an_aggregate():
    assert below(build_aggregate(AggregateConfig("both", (cluster("x"), cluster("y")))).config) == [
        "priority_experimental",
        "cds_experimental",
    ]


# -- cluster_manager -> cds


async def test_a_cluster_that_cannot_be_reached_fails_its_own_rpcs_only(autojump_clock):
    async with Mesh.run(2) as mesh:
        for name, host in zip("xy", mesh.hosts, strict=True):
            mesh.cluster(name)
            mesh.endpoints(name, [host])
        mesh.route(xds.route("x", prefix="/shop.X/"), xds.route("y"))
        mesh.network.refuse(mesh.hosts[0])
        async with mesh.channel() as channel:
            assert await ask(channel) == mesh.hosts[1]
            with pytest.raises(RpcError, match="refused"):
                await method(channel, "/shop.X/Add")(b"")


# -- outlier_detection -> cluster_impl


async def test_rpcs_that_are_dropped_do_not_count_against_a_host(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.plane.put(judged("cart"), dropping("cart", 100, xds.locality(*mesh.hosts)))
        assert await outcomes(channel, 20) == {"EDS-configured drop: load"}
        await trio.sleep(15)
        mesh.endpoints("cart", mesh.hosts)
        await settled()
        assert set(await spread(channel, 10)) == set(mesh.hosts)


# -- cluster_impl -> override_host


async def test_drops_come_before_sessions(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.plane.put(dropping("cart", 100, xds.locality(*mesh.hosts)))
        assert await outcomes(channel, 5, metadata=cookie(mesh.hosts[0])) == {"EDS-configured drop: load"}


async def test_the_circuit_breaker_counts_rpcs_of_sessions(autojump_clock):
    async with Mesh.run(2) as mesh, mesh.channel() as channel:
        mesh.plane.put(limited("cart", 1))
        async with bidi(channel).open(metadata=cookie(mesh.hosts[0])) as call:
            await call.send(b"one")
            await call.receive()
            assert await outcomes(channel, 3, metadata=cookie(mesh.hosts[1])) == {FULL}


# -- override_host -> priority


async def test_a_session_of_the_second_priority_stays_when_the_first_recovers(autojump_clock):
    async with Mesh.run(2) as mesh:
        low, high = mesh.hosts
        mesh.endpoints("cart", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        mesh.network.refuse(low)
        async with mesh.channel() as channel, channel.session() as session:
            assert await ask(session) == high
            mesh.network.restore(low)
            await trio.sleep(200)
            assert set(await spread(channel, 10)) == {low}
            assert set(await spread(session, 10)) == {high}


async def test_a_session_stays_while_its_locality_moves_to_another_priority(autojump_clock):
    async with Mesh.run(2) as mesh:
        a, b = mesh.hosts
        mesh.endpoints("cart", xds.locality(a, zone="a"), xds.locality(b, zone="b"))
        async with mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            other = b if host == a else a
            zone, other_zone = ("a", "b") if host == a else ("b", "a")
            mesh.endpoints("cart", xds.locality(other, zone=other_zone), xds.locality(host, zone=zone, priority=1))
            await settled()
            assert set(await spread(session, 10)) == {host}
            assert set(await spread(channel, 10)) == {other}


async def test_a_draining_host_keeps_its_session_and_gets_no_other_rpcs(autojump_clock):
    async with Mesh.run(3) as mesh:
        mesh.cluster("cart", override_statuses=["UNKNOWN", "HEALTHY", "DRAINING"])
        async with mesh.channel() as channel, channel.session() as session:
            host = await ask(session)
            mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
            await settled()
            assert set(await spread(session, 10)) == {host}
            assert host not in await spread(channel, 20)


async def test_a_draining_host_loses_its_session_by_default(autojump_clock):
    async with Mesh.run(3) as mesh, mesh.channel() as channel, channel.session() as session:
        host = await ask(session)
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={host: "DRAINING"}))
        await settled()
        assert host not in await spread(session, 10)


async def test_a_session_outlives_the_child_policy_of_its_host(autojump_clock):
    """AffinityWorksAcrossPrioritiesHeuristicChangesChildName: the new priority is a new child."""
    async with Mesh.run(2) as mesh:
        a, b = mesh.hosts
        mesh.endpoints("cart", xds.locality(a, zone="a"), xds.locality(b, zone="b"))
        async with mesh.channel() as channel:
            assert await ask(channel, metadata=cookie(a)) == a
            # The merged child's name goes with b, which comes first now.
            mesh.endpoints("cart", xds.locality(b, zone="b"), xds.locality(a, zone="a", priority=1))
            await settled()
            assert set(await spread(channel, 10, metadata=cookie(a))) == {a}
            assert set(await spread(channel, 10)) == {b}
            assert mesh.network.attempts[a] == 1, "and on the connection that it had"


# -- priority -> localities -> hosts


async def test_a_priority_serves_while_one_of_its_localities_can(autojump_clock):
    async with Mesh.run(3) as mesh:
        one, other, high = mesh.hosts
        mesh.network.refuse(one)
        mesh.endpoints(
            "cart", xds.locality(one, zone="a"), xds.locality(other, zone="b"), xds.locality(high, zone="c", priority=1)
        )
        async with mesh.channel() as channel:
            assert set(await spread(channel, 10)) == {other}


async def test_localities_are_drawn_by_weight_and_their_hosts_picked_in_turn(autojump_clock):
    async with Mesh.run(3) as mesh:
        one, other, alone = mesh.hosts
        mesh.endpoints("cart", xds.locality(one, other, zone="a", weight=3), xds.locality(alone, zone="b", weight=1))
        async with mesh.channel() as channel:
            await ask(channel)
            await settled()
            met = await spread(channel, 400)
            assert 60 < met[alone] < 140
            assert abs(met[one] - met[other]) <= 1


# -- priority -> cds, in an aggregate


async def test_drops_of_an_aggregates_cluster_are_its_own_and_cause_no_failover(autojump_clock):
    async with aggregate() as (mesh, channel):
        mesh.plane.put(dropping("x", 100, xds.locality(mesh.hosts[0])))
        assert await outcomes(channel, 5) == {"EDS-configured drop: load"}
        mesh.endpoints("x")
        await settled()
        assert await outcomes(channel, 5) == {mesh.hosts[1]}


async def test_an_aggregates_cluster_has_its_own_circuit_breaker(autojump_clock):
    async with aggregate() as (mesh, channel):
        mesh.plane.put(limited("x", 1), limited("y", 2))
        async with bidi(channel).open() as call:
            await call.send(b"one")
            await call.receive()
            assert await outcomes(channel, 3) == {FULL}
            mesh.endpoints("x")
            await settled()
            assert await outcomes(channel, 3) == {mesh.hosts[1]}


async def test_an_aggregates_cluster_with_all_hosts_ejected_fails_over_to_the_next(autojump_clock):
    async with aggregate(each=2) as (mesh, channel):
        mesh.plane.put(judged("x"))
        await sicken(mesh, *mesh.hosts[:2])
        assert await outcomes(channel, 20) == {"not me"}
        await trio.sleep(11)
        assert set(await spread(channel, 10)) == set(mesh.hosts[2:])


@pytest.mark.parametrize("honoured", [True, False])
async def test_an_aggregates_cluster_has_its_own_override_host_status(autojump_clock, honoured):
    async with aggregate(each=2) as (mesh, channel):
        draining, other, *_ = mesh.hosts
        with_draining, without = (["HEALTHY", "DRAINING"], ["HEALTHY"])
        mesh.cluster("x", override_statuses=with_draining if honoured else without)
        mesh.cluster("y", override_statuses=without if honoured else with_draining)
        mesh.endpoints("x", xds.locality(draining, other, health={draining: "DRAINING"}))
        met = await spread(channel, 5, metadata=cookie(draining, "both"))
        assert set(met) == ({draining} if honoured else {other})
