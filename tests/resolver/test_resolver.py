"""The resolver between a fake control plane and a fake root of the tree: what is published, and when (A31, ADR 3)."""

import pytest
import trio
from support.picture import LDS, RDS, failed, has, listens, routed
from support.resolving import Rig, shop
from support.tasks import task_names

from trxds.core.metadata import EMPTY
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import unavailable
from trxds.resolver.dependency_manager import BURST, INTERVAL
from trxds.resolver.snapshot import ClusterError
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Aggregate, LogicalDns


@pytest.fixture
async def rig():
    async with Rig().running() as rig:
        yield rig


NO_SERVICE = {
    "absent": {("CDS", "a"): failed("no a", absent=True)},
    "refused": {("CDS", "a"): failed("bad a")},
    "endpoints in error": {("EDS", "a"): failed("no endpoints of a")},
    "no endpoints": has("a"),
    "aggregate without leaves": {
        ("CDS", "a"): ResourceUpdate(Cluster("a", Aggregate(("c",)))),
        ("CDS", "c"): failed("c"),
    },
    "aggregate of an empty cluster": {("CDS", "a"): ResourceUpdate(Cluster("a", Aggregate(("c",))))} | has("c"),
}


class TestPublishing:
    async def test_no_generation_starts_before_the_configuration_is_complete(self, rig):
        states = shop("a")
        endpoints = states.pop(("EDS", "a"))
        await rig.put(states)
        assert rig.sent == []
        await rig.put({("EDS", "a"): endpoints})
        assert rig.clusters == {"a"}

    async def test_before_it_runs_a_resolver_waits_for_nothing(self):
        assert Rig().resolver.describe_pending == ""

    async def test_a_configuration_about_which_the_policies_have_not_decided_is_said_to_have_come(self, rig):
        states = shop("a")
        endpoints = states.pop(("EDS", "a"))
        await rig.put(states)
        assert rig.resolver.describe_pending == "EDS a is awaited"
        await rig.put({("EDS", "a"): endpoints})
        assert rig.resolver.describe_pending == "it has come, and is about to be in force"

    async def test_no_selector_is_published_before_the_root_has_answered(self, rig):
        await rig.put(shop("a"))
        assert rig.published == []
        await rig.answer("first")
        ((selector, picker),) = rig.published
        assert (selector.choose("/s/m", EMPTY).cluster.name, picker) == ("a", "first")

    async def test_a_report_of_the_root_before_the_first_configuration_publishes_nothing(self, rig):
        await rig.report("picker", 0)
        assert rig.published == []

    async def test_a_new_selector_waits_for_a_picker_that_knows_its_clusters(self, rig):
        await rig.settle(shop("a"))
        await rig.put(shop("b"))
        assert rig.clusters == {"a", "b"}
        assert rig.chosen().cluster.name == "a"
        await rig.report("still of the generation before", rig.generation - 1)
        assert rig.chosen().cluster.name == "a"
        assert rig.published[-1][1] == "still of the generation before"
        await rig.answer("knows b")
        assert rig.chosen().cluster.name == "b"
        assert rig.published[-1][1] == "knows b"

    async def test_selector_and_picker_are_never_published_apart(self, rig):
        await rig.settle(shop("a"))
        await rig.settle(shop("b"))
        for selector, picker in rig.published:
            name = selector.choose("/s/m", EMPTY).cluster.name
            generation = int(picker.split()[-1])
            assert name in dict(rig.sent)[generation]

    async def test_a_new_picker_of_the_root_is_published_at_once(self, rig):
        await rig.settle(shop("a"))
        before = rig.published[-1][0]
        await rig.report("a host connected", rig.generation)
        assert rig.published[-1] == (before, "a host connected")

    async def test_no_host_is_retired_while_a_generation_is_pending(self, rig):
        await rig.put(shop("a"))
        assert rig.pool.changes == 1
        await rig.answer()
        assert rig.pool.changes == 0


class TestSnapshots:
    async def test_an_update_of_endpoints_keeps_the_selector_and_its_table(self, rig):
        await rig.settle(shop("a"))
        selector = rig.published[-1][0]
        await rig.settle(has("a", "2.2.2.2:2"))
        assert rig.published[-1][0] is selector
        assert rig.generation == 2
        assert rig.tables() == ["route table/1"]

    async def test_the_newest_configuration_that_came_during_a_generation_wins(self, rig):
        await rig.put(shop("a"))
        await rig.put(shop("b"))
        await rig.put(shop("c"))
        assert rig.generation == 1, "one generation at a time"
        await rig.answer()
        assert rig.generation == 2
        assert rig.clusters == {"a", "c"}

    async def test_a_snapshot_that_was_superseded_gets_no_route_table(self, rig):
        await rig.put(shop("a"))
        await rig.put(shop("b"))
        await rig.put(shop("c"))
        await rig.settle()
        assert all("b" not in entries for _, entries in rig.sent)
        assert rig.tables() == ["route table/2"]
        assert rig.chosen().cluster.name == "c"

    async def test_the_configuration_stays_while_the_next_one_is_incomplete(self, rig):
        await rig.settle(shop("a"))
        await rig.put(routed("b"))
        assert rig.generation == 1
        assert rig.chosen().cluster.name == "a"

    async def test_a_route_change_that_the_tree_does_not_feel_needs_no_answer(self, rig):
        states = shop("a", "b")
        await rig.settle(states)
        await rig.put(routed("b", "a"))
        assert rig.generation == 1
        assert rig.chosen().cluster.name == "b"
        assert rig.published[-1][1] == "picker 1", "with the picker that the tree gave last"

    async def test_only_resources_of_the_configuration_are_watched(self, rig):
        await rig.settle(shop("a"))
        await rig.settle(shop("b"))
        assert set(rig.source.watching) == {LDS, RDS, ("CDS", "b"), ("EDS", "b")}

    async def test_watches_of_one_kind_begin_in_the_order_of_the_names(self, rig):
        await rig.put(listens(), routed("d", "b", {"c": 1, "a": 2}))
        assert [name for kind, name in rig.source.watching if kind == "CDS"] == ["a", "b", "c", "d"]

    async def test_the_tree_gets_the_same_entry_for_a_cluster_that_has_not_changed(self, rig):
        await rig.settle(shop("a"))
        await rig.settle(routed("a", "b"), has("b", "1.1.1.1:1"))
        (_, first), (_, second) = rig.sent
        assert second["a"] is first["a"]

    async def test_a_cluster_that_is_routed_to_again_is_not_used_as_it_was_before(self, rig):
        await rig.settle(shop("a"))
        await rig.settle(shop("b"))
        del rig.source.states["CDS", "a"], rig.source.states["EDS", "a"]
        await rig.put(routed("a"))
        assert rig.chosen().cluster.name == "b"
        assert rig.clusters == {"b"}

    async def test_after_a_burst_of_changes_only_the_newest_takes_effect_after_a_while(self, rig, autojump_clock):
        await rig.settle(shop("a"))
        for weight in range(2, BURST + 12):
            await rig.put(routed({"a": weight}))
        assert len(rig.published) == BURST
        await trio.sleep(INTERVAL)
        assert len(rig.published) == BURST + 1
        assert rig.chosen().route.route.action.clusters[0].weight == weight

    async def test_a_resource_that_comes_again_is_no_change_of_a_burst(self, rig):
        states = shop("a", "b")
        await rig.settle(states)
        for each in range(BURST):
            await rig.put({LDS: ResourceUpdate(states[LDS].value, ambient=unavailable(f"error {each}"))})
        await rig.put(routed("b", "a"))
        assert rig.chosen().cluster.name == "b"


class TestLifetimes:
    async def test_a_table_is_released_when_its_successor_is_in_force(self, rig):
        await rig.settle(shop("a"))
        await rig.put(shop("b"))
        assert rig.tables() == ["route table/1", "route table/2"]
        await rig.answer()
        assert rig.tables() == ["route table/2"]

    async def test_a_cluster_without_holders_leaves_the_tree_in_a_generation_of_its_own(self, rig):
        await rig.settle(shop("a"))
        await rig.settle(shop("b"))
        assert [set(entries) for _, entries in rig.sent] == [{"a"}, {"a", "b"}, {"b"}]

    async def test_a_cluster_held_by_an_rpc_keeps_its_child_and_its_watch(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b"))
        assert rig.clusters == {"a", "b"}
        assert ("CDS", "a") in rig.source.watching
        hold.release()
        await rig.settle()
        assert rig.clusters == {"b"}
        assert ("CDS", "a") not in rig.source.watching

    async def test_a_held_cluster_follows_its_resources(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b"))
        await rig.settle(has("a", "9.9.9.9:9"))
        cluster = rig.sent[-1][1]["a"].cluster
        assert cluster.endpoints.priorities[0][0].endpoints[0].addresses == ("9.9.9.9:9",)
        await rig.settle({("CDS", "a"): failed("a was deleted", absent=True)})
        assert isinstance(rig.sent[-1][1]["a"].cluster, ClusterError)
        hold.release()

    async def test_a_cluster_that_is_routed_to_again_is_the_same(self, rig):
        await rig.settle(shop("a"))
        hold = rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b"))
        await rig.settle(shop("a"))
        hold.release()
        await rig.settle()
        assert rig.clusters == {"a"}

    async def test_a_table_held_by_an_rpc_keeps_all_its_clusters(self, rig):
        await rig.settle(shop("a", "b"))
        hold = rig.chosen().table.lifetime.hold()
        await rig.settle(shop("c"))
        assert rig.clusters == {"a", "b", "c"}
        hold.release()
        await rig.settle()
        assert rig.clusters == {"c"}

    @pytest.mark.parametrize("why", NO_SERVICE.values(), ids=NO_SERVICE)
    async def test_a_held_cluster_out_of_the_routes_is_given_up_if_it_cannot_serve(self, rig, why):
        await rig.settle(shop("a"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(why)
        assert rig.given_up == set(), "a route names it"
        await rig.settle(shop("b"))
        assert rig.given_up == {"a"}

    @pytest.mark.parametrize("why", NO_SERVICE.values(), ids=NO_SERVICE)
    async def test_a_held_cluster_is_given_up_as_soon_as_it_cannot_serve_any_more(self, rig, why):
        await rig.settle(shop("a"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b"))
        assert rig.given_up == set(), "it has a host"
        await rig.settle(why)
        assert rig.given_up == {"a"}

    async def test_a_held_cluster_is_given_up_even_if_nothing_else_changed_in_the_tree(self, rig):
        await rig.settle(shop("a", "b"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle({("CDS", "a"): failed("no a", absent=True)})
        await rig.settle(routed("b"))
        assert rig.given_up == {"a"}

    async def test_a_held_cluster_that_can_serve_again_is_given_up_no_longer(self, rig):
        await rig.settle(shop("a"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b") | has("a"))
        assert rig.given_up == {"a"}
        await rig.settle(has("a", "1.1.1.1:1"))
        assert rig.given_up == set()

    async def test_no_cluster_is_given_up_while_the_listener_or_the_routes_are_in_error(self, rig):
        await rig.settle(shop("a"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle(shop("b") | has("a"))
        for states in ({LDS: failed("gone")}, listens() | {RDS: failed("bad")}):
            await rig.settle(states)
            assert rig.given_up == set()

    async def test_a_cluster_is_not_given_up_before_the_routes_without_it_are_in_force(self, rig):
        await rig.settle(shop("a"))
        rig.chosen().table.lifetimes["a"].acquire()
        await rig.settle({("CDS", "a"): failed("no a", absent=True)})
        await rig.put(shop("b"))
        assert rig.given_up == set()
        await rig.answer()
        assert rig.given_up == {"a"}

    async def test_routes_whose_tree_ended_before_it_answered_hold_nothing_any_more(self, rig):
        await rig.settle(shop("a"))
        await rig.put(shop("b"))
        rig.resolver.reset()
        await rig.settle()
        assert rig.tables() == ["route table/3"]
        assert rig.pool.changes == 0

    async def test_routes_in_force_are_held_although_the_tree_ended_before_it_answered(self, rig):
        await rig.settle(shop("a"))
        await rig.put(has("a", "2.2.2.2:2"))
        rig.resolver.reset()
        await rig.settle()
        assert rig.tables() == ["route table/1"]

    @pytest.mark.parametrize("why", ["an idle channel gets a new tree", "a connection's host is out of date"])
    async def test_names_are_looked_up_again_when(self, why, autojump_clock):
        looked_up = []

        async def look_up(host, port):
            looked_up.append(host)
            return (f"1.1.1.1:{port}",)

        async with Rig(look_up).running() as rig:
            dns = {("CDS", "a"): ResourceUpdate(Cluster("a", LogicalDns("a.example", 443)))}
            await rig.settle(listens(), routed("a"), dns)
            await trio.sleep(3600)
            if why == "an idle channel gets a new tree":
                rig.resolver.reset()
            else:
                rig.resolver.re_resolve_all()
            await rig.settle()
        assert looked_up == ["a.example"] * 2

    async def test_no_watch_or_cluster_is_left_when_the_resolver_ends(self):
        async with Rig().running() as rig:
            await rig.settle(shop("a"))
            rig.chosen().table.lifetimes["a"].acquire()
        assert rig.source.watching == {}
        assert [name for name in task_names() if name.startswith(("cluster/", "route table/", "resolver"))] == []
