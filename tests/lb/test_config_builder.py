"""The config builder makes a cluster's subtree, and priority names survive updates (A75)."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trxds.lb.config_builder import PriorityNames, build_cluster
from trxds.resolver.snapshot import ClusterConfig
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, HealthStatus, Locality, LocalityId
from trxds.resources.lb_policy import RoundRobin


def names_over(*updates):
    """Return the names after each update, given as the localities of its priorities, one letter each: ["ab", "c"]."""
    names = PriorityNames()
    return [names.assign(update) for update in updates][-1]


class TestNames:
    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [
            (["a", "b"], ["a", "b"], [0, 1]),
            (["a", "b"], ["b", "a"], [1, 0]),
            (["a", "b"], ["b"], [1]),
            (["a", "b"], ["x", "a", "b"], [2, 0, 1]),
            (["a", "b", "c"], ["b", "c"], [1, 2]),
        ],
        ids=["nothing changes", "a swap", "the first goes", "one before", "the rest moves up"],
    )
    def test_a_priority_name_follows_its_locality(self, before, after, expected):
        assert names_over(before, after) == expected

    @pytest.mark.parametrize("after", [["a", "b"], ["b", "a"]])
    def test_the_first_half_of_a_split_priority_keeps_the_name(self, after):
        assert names_over(["ab"], after) == [0, 1]

    @pytest.mark.parametrize(("after", "expected"), [(["ab"], [0]), (["ba"], [1])])
    def test_a_merged_priority_has_the_name_of_its_first_locality(self, after, expected):
        assert names_over(["a", "b"], after) == expected

    def test_the_name_of_a_merged_priority_is_not_given_to_another_one(self):
        assert names_over(["a", "b"], ["ab", "b"]) == [0, 2]

    def test_a_locality_that_returns_after_an_update_without_it_is_new(self):
        assert names_over(["a", "b"], ["a"], ["a", "b"]) == [0, 2]

    def test_numbers_of_priorities_are_never_reused(self):
        assert names_over(["a"], ["b"], ["c"], ["a"]) == [3]

    def test_an_empty_priority_has_a_name(self):
        assert names_over([""]) == [0]


PLACES = st.sampled_from("abcdef")
# A locality may stand in several priorities: only within one is that invalid.
HISTORIES = st.lists(st.lists(st.lists(PLACES, unique=True, max_size=4), max_size=5), min_size=1, max_size=6)
SINGLES = st.lists(st.lists(PLACES, unique=True, max_size=6), min_size=2, max_size=6)


@given(HISTORIES)
def test_priority_names_are_unique_within_an_update(history):
    names = PriorityNames()
    for update in history:
        assigned = names.assign(update)
        assert len(set(assigned)) == len(assigned) == len(update)


@given(SINGLES)
def test_a_locality_alone_in_its_priority_keeps_its_name_while_it_stays(history):
    names = PriorityNames()
    before = {}
    for update in history:
        now = dict(zip(update, names.assign(update), strict=True))
        assert {place: now[place] for place in now.keys() & before.keys()} == {
            place: before[place] for place in now.keys() & before.keys()
        }
        before = now


@given(SINGLES)
def test_localities_that_merge_and_split_have_unique_priority_names(history):
    names = PriorityNames()
    for update in history:
        for shape in (update, [update], update):
            assigned = names.assign(shape)
            assert len(set(assigned)) == len(shape)


# -- the subtree

UNKNOWN, HEALTHY, DRAINING = HealthStatus.UNKNOWN, HealthStatus.HEALTHY, HealthStatus.DRAINING


def locality(zone, *endpoints, weight=1):
    return Locality(LocalityId(zone=zone), weight, endpoints)


def endpoint(address, health=HEALTHY):
    return Endpoint((address,), health)


def planned(*priorities, names=None, note="", **fields):
    assignment = ClusterLoadAssignment("hosts", priorities)
    return build_cluster(
        ClusterConfig(Cluster("cart", Eds("hosts"), **fields), assignment, note), names or PriorityNames()
    )


def priorities_of(plan):
    """Return the configuration and the endpoints of each priority."""
    return [(its, plan.endpoints.part(name)) for name, its in plan.config.child.child.child.children.items()]


class TestSubtree:
    def test_the_subtree_is_outlier_detection_cluster_impl_override_host_priority_localities(self):
        plan = planned((locality("z", endpoint("a")),))
        tree = plan.config
        chain = [tree, tree.child, tree.child.child, tree.child.child.child]
        ((priority, _),) = priorities_of(plan)
        (target,) = priority.targets.values()
        assert [config.policy for config in (*chain, priority, target.config)] == [
            "outlier_detection_experimental",
            "xds_cluster_impl_experimental",
            "xds_override_host_experimental",
            "priority_experimental",
            "weighted_target_experimental",
            "round_robin",
        ]

    def test_priorities_are_named_after_the_cluster(self):
        tree = planned((locality("a", endpoint("a")),), (locality("b", endpoint("b")),))
        assert list(tree.config.child.child.child.children) == [
            "{cluster=cart, child_number=0}",
            "{cluster=cart, child_number=1}",
        ]

    def test_localities_become_targets_with_their_weights(self):
        tree = planned((locality("a", endpoint("a"), weight=3), locality("b", endpoint("b"))))
        ((priority, _),) = priorities_of(tree)
        assert {name: target.weight for name, target in priority.targets.items()} == {
            '{region="", zone="a", sub_zone=""}': 3,
            '{region="", zone="b", sub_zone=""}': 1,
        }

    def test_a_policy_without_localities_has_all_endpoints(self):
        tree = planned((locality("a", endpoint("a")), locality("b", endpoint("b"))), lb_policy=RoundRobin())
        ((_, its),) = priorities_of(tree)
        assert [each.addresses for each in its] == [("a",), ("b",)]

    @pytest.mark.parametrize("statuses", [{UNKNOWN, HEALTHY}, {UNKNOWN, HEALTHY, DRAINING}, set()])
    def test_draining_endpoints_never_reach_the_child_of_override_host(self, statuses):
        place = locality("z", endpoint("a"), endpoint("b", DRAINING), endpoint("c", UNKNOWN))
        tree = planned((place,), override_statuses=frozenset(statuses))
        ((priority, its),) = priorities_of(tree)
        (part,) = (its.part(name) for name in priority.targets)
        assert [each.addresses for each in its] == [each.addresses for each in part] == [("a",), ("c",)]
        assert tree.endpoints.all == place.endpoints

    def test_a_locality_with_only_draining_endpoints_is_no_target(self):
        tree = planned((locality("a", endpoint("a", DRAINING)), locality("b", endpoint("b"))))
        ((priority, _),) = priorities_of(tree)
        assert list(priority.targets) == ['{region="", zone="b", sub_zone=""}']

    def test_override_host_has_the_endpoints_of_all_priorities_and_the_clusters_settings(self):
        statuses = frozenset({HEALTHY})
        plan = planned(
            (locality("a", endpoint("a")),),
            (locality("b", endpoint("b")),),
            override_statuses=statuses,
            idle_timeout=7.0,
        )
        override = plan.config.child.child
        assert [each.addresses for each in plan.endpoints] == [("a",), ("b",)]
        assert (override.cluster, override.statuses, override.idle_timeout) == ("cart", statuses, 7.0)

    def test_a_cluster_without_endpoints_has_one_empty_priority_with_the_reason(self):
        ((priority, its),) = priorities_of(planned())
        assert priority.targets == {}
        assert 'EDS resource "hosts": it has no locality with a load_balancing_weight' in its.note

    def test_a_cluster_with_only_draining_hosts_gives_that_reason(self):
        ((_, its),) = priorities_of(planned((locality("a", endpoint("a", DRAINING)),)))
        assert 'EDS resource "hosts"' in its.note and "DRAINING" in its.note

    def test_an_eds_error_is_the_reason_for_missing_endpoints(self):
        tree = build_cluster(ClusterConfig(Cluster("cart", Eds("hosts")), None, "EDS is in error"), PriorityNames())
        assert [its.note for _, its in priorities_of(tree)] == ["EDS is in error"]

    def test_equal_resources_make_an_equal_subtree(self):
        names = PriorityNames()
        first, second = (planned((locality("a", endpoint("a")),), names=names) for _ in range(2))
        assert first == second

    def test_the_garbage_collector_visits_no_value_of_a_subtree(self):
        tree = planned((locality("a", endpoint("a")),))
        override = tree.config.child.child
        values = [
            tree,
            tree.config,
            tree.config.child,
            override,
            override.child,
            tree.endpoints,
            *tree.endpoints.localities,
        ]
        assert not any(map(gc.is_tracked, values))
