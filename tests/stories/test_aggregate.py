"""Aggregate clusters fail over between their clusters, and sessions stay within each of them (A37, A75)."""

from base64 import b64decode
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import trio
from support.aggregates import fail, restore
from support.mesh import Mesh, ask, bidi, method, settled, spread
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.lb.policy_node import Node
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds

FOREVER = 20 * 60  # seconds; longer than anything is kept warm


@asynccontextmanager
async def two_leaves(each=1):
    """Route to "both", an aggregate of the clusters x and y with these numbers of hosts."""
    async with Mesh.run(2 * each) as mesh:
        xs, ys = mesh.hosts[:each], mesh.hosts[each:]
        for cluster, hosts in (("x", xs), ("y", ys)):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, hosts)
        mesh.plane.put(xds.aggregate("both", "x", "y"))
        mesh.route("both")
        async with mesh.channel() as channel:
            yield mesh, channel, xs, ys


# -- failover


async def test_the_first_cluster_of_an_aggregate_serves_and_the_second_is_not_connected(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        assert set(await spread(channel, 10)) == {x}
        assert mesh.network.attempts[y] == 0


async def test_an_aggregate_fails_over_to_its_second_cluster_and_back(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        await ask(channel)
        fail(mesh, [x])
        await settled()
        assert set(await spread(channel, 10)) == {y}
        restore(mesh, [x])
        await trio.sleep(200)
        assert set(await spread(channel, 10)) == {x}


async def test_an_aggregate_skips_a_cluster_without_endpoints_at_once(autojump_clock):
    async with two_leaves() as (mesh, channel, _, (y,)):
        mesh.endpoints("x")
        assert await ask(channel) == y
        assert trio.current_time() < 5


async def test_an_aggregate_waits_ten_seconds_for_a_connecting_first_cluster(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        mesh.network.black_hole(x)
        began = trio.current_time()
        assert await ask(channel) == y
        assert trio.current_time() - began == pytest.approx(10, abs=0.5)


async def test_clusters_of_an_aggregate_that_are_reordered_change_roles(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        assert await ask(channel) == x
        mesh.plane.put(xds.aggregate("both", "y", "x"))
        await settled()
        assert set(await spread(channel, 10)) == {y}


async def test_nested_aggregates_are_flattened(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        mesh.plane.put(xds.aggregate("both", "inner", "x"), xds.aggregate("inner", "y", "both"))
        assert await ask(channel) == y
        fail(mesh, [y])
        await settled()
        assert await ask(channel) == x


# -- missing leaves


async def test_an_aggregate_skips_a_missing_leaf_until_it_exists(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        await ask(channel)
        mesh.plane.remove("CDS", "x")
        await settled()
        assert set(await spread(channel, 10)) == {y}
        mesh.cluster("x")
        await settled()
        assert set(await spread(channel, 10)) == {x}


async def test_the_error_of_an_aggregate_names_its_missing_leaves(autojump_clock):
    async with two_leaves() as (mesh, channel, _, ys):
        mesh.plane.remove("CDS", "x")
        fail(mesh, ys)
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert failed.value.status.code is StatusCode.UNAVAILABLE
        assert "left out" in failed.value.status.message and '"x"' in failed.value.status.message


async def test_an_aggregate_without_existing_leaves_fails_with_the_reasons(autojump_clock):
    async with two_leaves() as (mesh, channel, _, _):
        mesh.plane.put(xds.aggregate("both", "nowhere"))
        await trio.sleep(20)
        with pytest.raises(RpcError) as failed:
            await ask(channel)
        assert '"both"' in failed.value.status.message and '"nowhere"' in failed.value.status.message


# -- sessions


async def test_a_session_stays_on_its_host_in_the_serving_leaf_of_an_aggregate(autojump_clock):
    async with two_leaves(each=3) as (mesh, channel, xs, ys):
        for leaf in (xs, ys):
            async with channel.session() as session:
                host = await ask(session)
                assert host in leaf
                assert set(await spread(session, 10)) == {host}
            fail(mesh, xs)
            await settled()


async def test_a_session_cookie_names_the_aggregate_and_not_the_leaf(autojump_clock):
    async with two_leaves() as (_, channel, (x,), _), bidi(channel).open(b"") as call:
        cookie = (await call.wait_initial_metadata()).first("set-cookie")
        value = cookie.removeprefix("session=").partition(";")[0]
        assert b64decode(value).decode() == f"{x};both"


async def test_a_cookie_for_a_leaf_that_does_not_serve_is_not_honoured(autojump_clock):
    async with two_leaves() as (_, channel, (x,), (y,)):
        metadata = [("cookie", f"session={encode(y, 'both')}")]
        assert set(await spread(channel, 5, metadata=metadata)) == {x}


async def test_a_session_of_the_second_leaf_moves_when_the_first_is_back(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        fail(mesh, [x])
        async with channel.session() as session:
            assert await ask(session) == y
            restore(mesh, [x])
            await trio.sleep(200)
            assert set(await spread(session, 5)) == {x}


async def test_a_session_stays_on_its_host_across_the_priorities_of_a_leaf(autojump_clock):
    async with two_leaves(each=2) as (mesh, channel, (low, high), _):
        mesh.endpoints("x", xds.locality(low, zone="a"), xds.locality(high, zone="b", priority=1))
        await ask(channel)
        metadata = [("cookie", f"session={encode(high, 'both')}")]
        assert set(await spread(channel, 5, metadata=metadata)) == {high}
        assert set(await spread(channel, 5)) == {low}


# -- one leaf, several ways to it


async def test_a_cluster_may_be_a_leaf_and_a_routes_cluster(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), _):
        mesh.route(xds.route("x", prefix="/shop.Direct/"), xds.route("both"))
        await settled()
        assert [await ask(channel), (await method(channel, "/shop.Direct/Add")(b"")).decode()] == [x, x]
        assert len(mesh.servers[x].connections) == 1, "one connection serves both ways"


async def test_a_circuit_breaker_counts_rpcs_by_aggregate_and_by_route(autojump_clock):
    async with two_leaves() as (mesh, channel, _, _):
        mesh.plane.put({**xds.cluster("x"), "circuit_breakers": {"thresholds": [{"max_requests": 1}]}})
        mesh.route(xds.route("x", prefix="/shop.Direct/"), xds.route("both"))
        async with bidi(channel, "/shop.Direct/Add").open() as call:
            await call.send(b"one")
            await call.receive()
            with pytest.raises(RpcError, match="circuit breaker drop"):
                await ask(channel)
        await ask(channel)


async def test_an_update_of_a_leaf_steps_only_its_branch_of_the_tree(autojump_clock, monkeypatch):
    async with two_leaves(each=2) as (mesh, channel, xs, ys):
        for host in xs:
            mesh.network.black_hole(host)
        await ask(channel)  # after 10 s; x goes on connecting for another 10
        await settled()
        steps = count_steps(monkeypatch)
        mesh.endpoints("y", ys[:1])
        await settled()
        x, y = "cluster_manager/both/priority/x", "cluster_manager/both/priority/y"
        assert any(path.startswith(y) for path in steps)
        assert not any(path.startswith(x) for path in steps)


def count_steps(monkeypatch):
    steps = Counter()
    step = Node._step

    def counted(self, *args):
        steps[self.path] += 1
        return step(self, *args)

    monkeypatch.setattr(Node, "_step", counted)
    return steps


# -- policies


PICK_FIRST = {
    "policies": [
        {
            "typed_extension_config": {
                "name": "pick_first",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst"
                },
            }
        }
    ]
}


@pytest.mark.parametrize(("compat", "hosts"), [("", 1), ("false", 1), ("true", 2)])
async def test_a_leafs_policy_is_used_unless_backward_compatibility_is_enabled(
    autojump_clock, monkeypatch, compat, hosts
):
    monkeypatch.setenv("GRPC_XDS_AGGREGATE_CLUSTER_BACKWARD_COMPAT", compat)
    async with two_leaves(each=2) as (mesh, channel, _, _):
        mesh.plane.put({**xds.cluster("x"), "load_balancing_policy": PICK_FIRST})
        mesh.plane.put(xds.aggregate("both", "x", "y", lb_policy="ROUND_ROBIN"))
        await ask(channel)
        await settled()
        assert len(await spread(channel, 10)) == hosts


# -- changes


async def test_no_rpc_fails_while_a_cluster_becomes_an_aggregate_and_back(nursery, autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        mesh.cluster("both")
        mesh.endpoints("both", [x])
        answers = Counter()

        async def traffic():
            while True:
                answers[await ask(channel)] += 1
                await trio.sleep(0.01)

        nursery.start_soon(traffic)
        for _ in range(5):
            await settled()
            mesh.plane.put(xds.aggregate("both", "y", "x"))
            await settled()
            mesh.cluster("both")
        nursery.cancel_scope.cancel()
    assert answers[x] > 100 and answers[y] > 100


async def test_a_leaf_removed_from_an_aggregate_ends_at_once_and_leaves_no_task(autojump_clock):
    async with two_leaves() as (mesh, channel, (x,), (y,)):
        fail(mesh, [x])
        assert await ask(channel) == y
        assert any("/both/priority/x" in name for name in task_names())
        mesh.plane.put(xds.aggregate("both", "y"))
        await settled()
        assert not any("/both/priority/x" in name for name in task_names())


async def test_an_unrouted_aggregate_leaves_no_task_and_no_watch(autojump_clock):
    async with two_leaves() as (mesh, channel, _, _):
        await ask(channel)
        mesh.route("cart")
        await trio.sleep(FOREVER)
        assert not any("/both" in name for name in task_names())
        last = {request.kind: request.names for request in mesh.plane.requests}
        assert (last["CDS"], last["EDS"]) == (("cart",), ("cart",))
