"""The parent policies cluster_manager, cds, cluster_impl and weighted_target are tested by values."""

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, channel_control, endpoints, picked, report

from trxds.core.status import OK, StatusCode, unavailable
from trxds.lb.cds import Cds
from trxds.lb.cluster_impl import ClusterImpl, max_requests_status
from trxds.lb.cluster_manager import ClusterManager
from trxds.lb.configs import CdsConfig, ClusterImplConfig, ClusterManagerConfig, Target, WeightedTargetConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Complete, Drop, Fail, PickArgs, transient_failure_picker
from trxds.lb.policy import CONNECTING as UNDECIDED
from trxds.lb.policy import PolicyInputs, PolicyState
from trxds.lb.weighted_target import WeightedTarget
from trxds.resolver.snapshot import ClusterConfig, ClusterEntry, ClusterError
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Locality, LocalityId
from trxds.resources.endpoint import DropOverload as DropShare
from trxds.resources.leaf_policy import RoundRobin

LEAF = RoundRobin()


def of(cluster, its=None, *, given_up=False):
    """Return the inputs of a cds policy, with its child's report."""
    children = {"cluster": its} if its is not None else {}
    return PolicyInputs(CdsConfig("a"), children, endpoints=ClusterEntry(cluster, given_up))


def gone(name):
    return ClusterError(name, unavailable(f"{name} is gone"))


class TestClusterManager:
    def decide(self, *names, **reports):
        config = ClusterManagerConfig(names)
        return ClusterManager(channel_control()).decide(PolicyInputs(config, reports), 0.0)

    def test_cluster_manager_picks_from_the_rpcs_cluster(self):
        picker = self.decide("a", "b", a=report(READY, "in a"), b=report(READY, "in b")).picker
        assert picked(picker, cluster="b") == ["in b"]

    def test_an_rpc_to_a_cluster_that_has_not_decided_yet_is_queued(self):
        assert self.decide("a").picker.pick(PickArgs("/s/m", cluster="a")) is QUEUE

    def test_an_rpc_to_an_unknown_cluster_is_dropped_with_internal(self):
        result = self.decide("a").picker.pick(PickArgs("/s/m", cluster="b"))
        assert isinstance(result, Drop)
        assert result.status.code is StatusCode.INTERNAL
        assert "'b'" in result.status.message

    def test_a_removed_cluster_is_deactivated(self):
        decision = self.decide("a", a=report(READY), b=report(READY))
        assert list(decision.children) == ["a"]
        assert decision.deactivate == {"b"}

    @pytest.mark.parametrize(
        ("states", "whole"),
        [
            ((READY, FAILURE), READY),
            ((CONNECTING, FAILURE), CONNECTING),
            ((IDLE, FAILURE), IDLE),
            ((FAILURE, FAILURE), FAILURE),
        ],
    )
    def test_the_state_of_cluster_manager_is_its_best_childs(self, states, whole):
        assert self.decide("a", "b", a=report(states[0]), b=report(states[1])).state is whole


class TestCds:
    def decide(self, cluster, *, given_up=False):
        return Cds(channel_control()).decide(of(cluster, given_up=given_up), 0.0)

    def test_rpcs_to_a_cluster_in_error_fail(self):
        assert isinstance(self.decide(gone("a")).picker.pick(PickArgs("/s/m")), Fail)

    def test_rpcs_to_an_unrouted_cluster_in_error_are_dropped(self):
        assert self.decide(gone("a"), given_up=True).picker.pick(PickArgs("/s/m")) == Drop(
            unavailable("a is gone; no route names cluster a any more")
        )

    def test_an_unrouted_cluster_drops_only_the_rpcs_that_its_tree_fails(self):
        """A session may still be served by a DRAINING host, or wait for it to connect."""
        cluster = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"))

        def answer(child):
            return (
                Cds(channel_control())
                .decide(of(cluster, child, given_up=True), 0.0)
                .picker.pick(PickArgs("/s/m", cluster="a"))
            )

        assert answer(PolicyState(FAILURE, transient_failure_picker(unavailable("no endpoints")))) == Drop(
            unavailable("no endpoints; no route names cluster a any more")
        )
        assert answer(UNDECIDED) is QUEUE
        assert isinstance(answer(report(READY)), Complete)

    def test_cds_builds_the_subtree_of_one_configuration_once(self):
        policy = Cds(channel_control())
        cluster = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a"))
        first, second = (policy.decide(of(cluster), 0.0).children["cluster"] for _ in range(2))
        assert first is second

    def test_priorities_of_cds_keep_their_names_over_updates(self):
        policy = Cds(channel_control())

        def names(*zones):
            priorities = tuple((Locality(LocalityId(zone=zone), 1, endpoints("x")),) for zone in zones)
            cluster = ClusterConfig(Cluster("a", Eds("a")), ClusterLoadAssignment("a", priorities))
            tree = policy.decide(of(cluster), 0.0).children["cluster"]
            return list(tree.child.child.child.children)

        assert names("z1", "z2") == list(reversed(names("z2", "z1")))


class TestClusterImpl:
    def decide(self, child=None, policy=None, **config):
        policy = policy or ClusterImpl(channel_control())
        inputs = PolicyInputs(ClusterImplConfig("a", "service", LEAF, **config), {"hosts": child or report(READY)})
        return policy.decide(inputs, 0.0)

    def test_cluster_impl_passes_on_its_childs_state_and_hosts(self):
        decision = self.decide()
        assert decision.state is READY
        assert picked(decision.picker) == ["host"]
        assert self.decide(report(FAILURE)).state is FAILURE

    def test_a_failure_below_cluster_impl_names_the_cluster(self):
        child = PolicyState(FAILURE, transient_failure_picker(unavailable("no host")))
        result = self.decide(child).picker.pick(PickArgs("/s/m", cluster="a"))
        assert result == Fail(unavailable("cluster a: no host"))

    def test_a_failure_below_the_leaf_of_an_aggregate_names_both_clusters(self):
        child = PolicyState(FAILURE, transient_failure_picker(unavailable("no host")))
        result = self.decide(child).picker.pick(PickArgs("/s/m", cluster="cart"))
        assert result == Fail(unavailable("cluster cart (a): no host"))

    def test_cluster_impl_drops_the_share_that_eds_configures(self):
        picker = self.decide(drops=(DropShare("lb", 250_000),)).picker
        results = [picker.pick(PickArgs("/s/m")) for _ in range(4000)]
        dropped = [result for result in results if isinstance(result, Drop)]
        assert 850 < len(dropped) < 1150
        assert dropped[0].status.message == "EDS-configured drop: lb"

    def test_an_rpc_that_waits_is_drawn_for_drops_once(self):
        picker = self.decide(report(CONNECTING), drops=(DropShare("lb", 250_000),)).picker
        waiting = [call for call in (PickArgs("/s/m") for _ in range(400)) if not isinstance(picker.pick(call), Drop)]
        assert 250 < len(waiting) < 350
        assert not any(isinstance(picker.pick(call), Drop) for call in waiting for _ in range(10))

    def test_an_rpc_that_waits_is_dropped_by_a_share_that_has_grown(self):
        policy, call = ClusterImpl(channel_control()), PickArgs("/s/m")
        self.decide(report(CONNECTING), policy, drops=(DropShare("lb", 0),)).picker.pick(call)
        picker = self.decide(report(CONNECTING), policy, drops=(DropShare("lb", 1_000_000),)).picker
        assert isinstance(picker.pick(call), Drop)

    def test_a_drop_share_of_0_drops_no_rpc(self):
        picker = self.decide(drops=(DropShare("lb", 0),)).picker
        assert len(picked(picker, 1000)) == 1000

    def test_a_cluster_that_drops_everything_is_ready_whatever_its_hosts_do(self):
        decision = self.decide(report(FAILURE), drops=(DropShare("lb", 1_000_000),))
        assert decision.state is READY
        assert isinstance(decision.picker.pick(PickArgs("/s/m")), Drop)

    def test_cluster_impl_drops_rpcs_above_max_requests_until_one_ends(self):
        picker = self.decide(max_requests=2).picker
        running = [picker.pick(PickArgs("/s/m")) for _ in range(2)]
        for result in running:
            result.trackers[-1].began()
        assert picker.pick(PickArgs("/s/m")) == Drop(max_requests_status(None, 2))
        running[0].trackers[-1].ended(OK)
        assert picked(picker) == ["host"]

    def test_cluster_impl_policies_of_one_cluster_and_service_share_the_call_counter(self):
        shared = channel_control()
        one, other = ClusterImpl(shared), ClusterImpl(shared)
        self.decide(policy=one, max_requests=1).picker.pick(PickArgs("/s/m")).trackers[-1].began()
        assert isinstance(self.decide(policy=other, max_requests=1).picker.pick(PickArgs("/s/m")), Drop)

    def test_a_call_counter_ends_with_its_last_user(self):
        shared = channel_control()
        policy = ClusterImpl(shared)
        self.decide(policy=policy).picker.pick(PickArgs("/s/m")).trackers[-1].began()
        del policy
        assert shared.circuit_breakers.call_counter(("a", "service")).rpcs == 0


class TestWeightedTarget:
    def decide(self, weights, policy=None, **reports):
        config = WeightedTargetConfig({name: Target(weight, LEAF) for name, weight in weights.items()})
        return (policy or WeightedTarget(channel_control())).decide(PolicyInputs(config, reports), 0.0)

    def test_weighted_target_draws_by_weight_among_ready_targets(self):
        picker = self.decide({"a": 3, "b": 1, "c": 9}, a=report(READY, "a"), b=report(READY, "b")).picker
        chosen = picked(picker, 4000)
        assert 2850 < chosen.count("a") < 3150
        assert "c" not in chosen

    def test_weighted_target_queues_while_a_target_is_connecting(self):
        decision = self.decide({"a": 1, "b": 1}, a=report(FAILURE), b=report(CONNECTING))
        assert decision.picker.pick(PickArgs("/s/m")) is QUEUE

    def test_weighted_target_fails_with_the_last_error_when_all_have_failed(self):
        decision = self.decide({"a": 1, "b": 1}, a=report(FAILURE, "a"), b=report(FAILURE, "b"))
        assert decision.state is FAILURE
        assert picked(decision.picker) == ["b"]

    def test_a_failed_target_counts_as_failed_until_it_is_ready(self):
        policy = WeightedTarget(channel_control())
        self.decide({"a": 1}, policy, a=report(FAILURE))
        assert self.decide({"a": 1}, policy, a=report(CONNECTING)).state is FAILURE
        assert self.decide({"a": 1}, policy, a=report(READY)).state is READY

    def test_a_target_of_weight_zero_is_never_drawn(self):
        picker = self.decide({"a": 1, "b": 0}, a=report(READY, "a"), b=report(READY, "b")).picker
        assert set(picked(picker, 50)) == {"a"}

    def test_a_removed_target_is_deactivated(self):
        assert self.decide({"a": 1}, a=report(READY), b=report(READY)).deactivate == {"b"}

    def test_without_targets_the_last_ones_are_deactivated_and_not_ended(self):
        assert self.decide({}, a=report(READY), b=report(FAILURE)).deactivate == {"a", "b"}

    def test_weighted_target_without_targets_fails_with_the_reason(self):
        decision = WeightedTarget(channel_control()).decide(
            PolicyInputs(WeightedTargetConfig({}), endpoints=Endpoints(note="no localities")), 0.0
        )
        assert decision.picker.pick(PickArgs("/s/m")).status.message == "no localities"
