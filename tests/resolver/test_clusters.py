"""Clusters and route tables: what lives as long as somebody may still send to it (A31, A60)."""

import pytest
import trio
from support.tasks import task_names
from trio.testing import wait_all_tasks_blocked

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resolver.clusters import Clusters, RouteTable


@pytest.fixture
def queue():
    return ConflatingQueue()


@pytest.fixture
def clusters(nursery, queue):
    return Clusters(nursery, queue)


@pytest.fixture
def table(nursery, clusters):
    def make(*names, number=1):
        return RouteTable(number, names, clusters, nursery)

    return make


def alive(clusters):
    return list(clusters.alive)


async def test_a_cluster_is_a_task_while_anybody_holds_it(clusters):
    first, second = clusters.hold("a"), clusters.hold("a")
    await wait_all_tasks_blocked()
    assert task_names().count("cluster/a") == 1
    first.release()
    await wait_all_tasks_blocked()
    assert "cluster/a" in task_names()
    second.release()
    await wait_all_tasks_blocked()
    assert "cluster/a" not in task_names()


async def test_a_cluster_is_gone_in_the_step_of_its_last_release(clusters):
    clusters.hold("a").release()
    assert alive(clusters) == []


async def test_the_end_of_a_cluster_is_a_message_to_the_resolver(clusters, queue):
    hold = clusters.hold("a")
    await wait_all_tasks_blocked()
    hold.release()
    assert "clusters" in await queue.next()


async def test_a_cluster_held_again_right_after_its_release_is_alive(clusters):
    clusters.hold("a").release()
    clusters.hold("a")
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["a"]
    assert task_names().count("cluster/a") == 1


async def test_a_route_table_holds_every_cluster_of_its_routes(clusters, table):
    table("a", "b")
    assert alive(clusters) == ["a", "b"]


async def test_a_route_table_lets_its_clusters_go_when_its_last_holder_leaves(clusters, table):
    routes = table("a", "b")
    rpc = routes.lifetime.hold()
    await wait_all_tasks_blocked()
    routes.lifetime.initial_hold.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["a", "b"]
    rpc.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == []


async def test_an_rpc_keeps_its_cluster_and_no_other(clusters, table):
    routes = table("a", "b")
    rpc = routes.lifetimes["b"].acquire()
    routes.lifetime.initial_hold.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["b"]
    rpc.release()
    assert alive(clusters) == []


async def test_a_cookie_may_name_any_cluster_until_the_table_goes(clusters, table):
    old = table("a", "b")
    rpc = old.lifetime.hold()  # between the choice of its route and its filters
    table("a", number=2)
    old.lifetime.initial_hold.release()
    await wait_all_tasks_blocked()
    pinned = old.lifetimes["b"].acquire()
    rpc.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["a", "b"]
    pinned.release()
    assert alive(clusters) == ["a"]


async def test_a_cluster_may_still_be_held_in_the_step_in_which_the_table_went(clusters, table):
    routes = table("a")
    await wait_all_tasks_blocked()
    table_hold = routes.lifetime.hold()
    routes.lifetime.initial_hold.release()
    # What an RPC does: take the cluster, then let the table go.
    pinned, _ = routes.lifetimes["a"].acquire(), table_hold.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["a"]
    pinned.release()


async def test_two_tables_share_the_clusters_they_both_name(clusters, table):
    old, _new = table("a", "b"), table("b", "c", number=2)
    shared = clusters.alive["b"]
    old.lifetime.initial_hold.release()
    await wait_all_tasks_blocked()
    assert alive(clusters) == ["b", "c"]
    assert clusters.alive["b"] is shared


async def test_a_table_can_be_seen_in_the_task_tree(table):
    table("a", number=7)
    await wait_all_tasks_blocked()
    assert "route table/7" in task_names()


async def test_no_cluster_or_table_is_left_when_the_resolvers_nursery_ends(queue):
    async with trio.open_nursery() as nursery:
        clusters = Clusters(nursery, queue)
        routes = RouteTable(1, ["a", "b"], clusters, nursery)
        rpc = routes.lifetimes["a"].acquire()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    rpc.release()
    routes.lifetime.initial_hold.release()
    assert alive(clusters) == []
