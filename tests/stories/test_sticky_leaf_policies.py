"""A call to another leaf of an aggregate passes that leaf's policies: outlier detection, drops, limits and load."""

from contextlib import asynccontextmanager

import pytest
import trio
from support.aggregates import fail, fail_back, fail_over, restore, settled, two_leaves
from support.mesh import METHOD, Mesh, ask, bidi, method, spread
from support.watching import Watcher
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError, StatusCode
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

ONE_AT_A_TIME = {"circuit_breakers": {"thresholds": [{"max_requests": 1}]}}
DROP_ALL = {"policy": {"drop_overloads": [{"category": "lb", "drop_percentage": {"numerator": 100}}]}}
LEAST = "type.googleapis.com/envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest"
LEAST_CONFIG = {"name": "least", "typed_config": {"@type": LEAST, "choice_count": 10}}
LEAST_REQUEST = {"load_balancing_policy": {"policies": [{"typed_extension_config": LEAST_CONFIG}]}}
EJECTION = {
    "outlier_detection": {
        "interval": "10s",
        "base_ejection_time": "30s",
        "enforcing_success_rate": 0,
        "enforcing_failure_percentage": 100,
        "failure_percentage_threshold": 50,
        "failure_percentage_minimum_hosts": 1,
        "failure_percentage_request_volume": 3,
    }
}


@asynccontextmanager
async def in_the_fallback_leaf():
    """Yield a session in the leaf y, while the primary serves again."""
    async with two_leaves() as (mesh, channel, xs, ys), channel.session() as session:
        host = await fail_over(mesh, session, xs)
        assert host in ys
        await fail_back(mesh, xs)
        yield mesh, channel, session, host


async def refuse(call):
    call.abort(StatusCode.UNAVAILABLE, "not me")


async def test_outlier_detection_of_the_leaf_counts_and_ejects_the_host_of_a_session(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, host):
        for name in "xy":
            mesh.plane.put({**xds.cluster(name), **EJECTION})
        await settled()
        watcher = Watcher()
        mesh.servers[host].handlers[METHOD] = refuse
        with channel.observed_by(watcher):
            for _ in range(5):
                with pytest.raises(RpcError, match="not me"):
                    await ask(session)
            await trio.sleep(11)
        assert [(each.policy, each.addresses) for each in watcher.outliers] == [
            ("cluster_manager/both/sticky_priority/y/outlier_detection", (host,))
        ]
        del mesh.servers[host].handlers[METHOD]
        assert await ask(session) == host, "an ejected host still serves its sessions"


async def test_drops_of_the_leaf_apply_to_its_sessions_and_to_no_other_call(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, _):
        mesh.plane.put(xds.endpoints("y", xds.locality(*mesh.hosts[2:])) | DROP_ALL)
        await settled()
        with pytest.raises(RpcError, match="EDS-configured drop: lb"):
            await ask(session)
        assert set(await spread(channel, 4)) == set(mesh.hosts[:2])


async def test_drops_of_the_primary_do_not_apply_to_a_session_in_another_leaf(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, host):
        mesh.plane.put(xds.endpoints("x", xds.locality(*mesh.hosts[:2])) | DROP_ALL)
        await settled()
        assert set(await spread(session, 4)) == {host}
        with pytest.raises(RpcError, match="EDS-configured drop: lb"):
            await ask(channel)


async def test_the_circuit_breaker_of_the_leaf_counts_the_calls_of_its_sessions(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, host):
        mesh.plane.put({**xds.cluster("y"), **ONE_AT_A_TIME})
        await settled()
        async with bidi(session).open() as call:
            await call.send(b"one")
            await call.receive()
            assert call.peer == host
            with pytest.raises(RpcError, match="circuit breaker drop"):
                await ask(session)
            assert await ask(channel) in mesh.hosts[:2]
        assert await ask(session) == host


async def test_the_load_report_of_the_leaf_has_the_calls_of_its_sessions(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, _):
        mesh.plane.load.ask(interval=10.0)
        for name in "xy":
            mesh.plane.put(xds.cluster(name) | xds.load_reports())
        await settled()
        await spread(session, 5)
        await spread(channel, 3)
        clusters = (await mesh.plane.load.next_report()).clusters
        issued = {
            name: sum(each.total_issued_requests for each in stats.upstream_locality_stats)
            for name, stats in clusters.items()
        }
        assert issued == {"x": 3, "y": 5}


async def test_the_policy_of_the_leaf_that_balances_sees_the_calls_of_its_sessions(autojump_clock):
    async with in_the_fallback_leaf() as (mesh, channel, session, host):
        mesh.plane.put({**xds.cluster("y"), **LEAST_REQUEST})
        await settled()
        async with bidi(session).open() as call:
            await call.send(b"one")
            await call.receive()
            fail(mesh, mesh.hosts[:2])
            await settled()
            # Ten draws with replacement (A48) find only the busy host once in a thousand picks.
            assert (await spread(channel, 40))[host] <= 2


async def test_a_session_stays_in_a_logical_dns_leaf(autojump_clock):
    async with Mesh.run(2) as mesh:
        x, y = mesh.hosts
        mesh.cluster("x")
        mesh.endpoints("x", [x])
        mesh.network.names["cart.example"] = [y.rpartition(":")[0]]
        mesh.plane.put(xds.logical_dns("y", "cart.example", 50051), xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with mesh.channel(sticky_aggregates=True) as channel, channel.session() as session:
            assert await ask(channel, metadata=[("cookie", f"session={encode(y, 'both')}")]) == y
            assert await fail_over(mesh, session, [x]) == y
            await fail_back(mesh, [x])
            assert set(await spread(session, 4)) == {y}
            assert set(await spread(channel, 4)) == {x}
            mesh.network.names["cart.example"] = []
            fail(mesh, [y])
            await settled()
            assert await ask(session) == x


async def test_a_session_stays_in_a_lower_priority_of_another_leaf(autojump_clock):
    async with two_leaves() as (mesh, channel, xs, (low, high)), channel.session() as session:
        mesh.endpoints("y", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        fail(mesh, [low])
        assert await fail_over(mesh, session, xs) == high
        restore(mesh, [low])
        await fail_back(mesh, xs)
        assert await ask(session) == high
        assert await ask(channel) in xs


async def test_a_host_of_two_leaves_is_used_in_the_first_that_can_use_it(autojump_clock):
    async with two_leaves(each=1) as (mesh, channel, (x,), (y,)):
        mesh.endpoints("x", [x, y])
        mesh.plane.put({**xds.cluster("x"), **ONE_AT_A_TIME})
        cookie = {"metadata": [("cookie", f"session={encode(y, 'both')}")]}
        assert await ask(channel, **cookie) == y
        async with method(channel).open(b"", **cookie) as call:
            await wait_all_tasks_blocked()
            assert await call.receive() == y.encode()
        async with bidi(channel).open(b"") as call:
            await call.receive()
            with pytest.raises(RpcError, match="circuit breaker drop"):
                await ask(channel, **cookie)
