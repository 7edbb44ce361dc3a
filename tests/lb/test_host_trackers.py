"""Policies attach trackers to hosts, which are called for sessions' RPCs that their pickers did not choose."""

import pytest
from support.policies import CONNECTING, READY, channel_control, endpoint_set, hosts
from support.tree import Wants

from trxds.lb.circuit_breakers import CallCounter
from trxds.lb.custom_policy import make_checked_factory
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.least_request import LeastRequest
from trxds.lb.pick import QUEUE_PICKER, PickArgs
from trxds.lb.policy import Decision, PolicyInputs, SubtreeSettings
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.resources.endpoint import Endpoint
from trxds.resources.lb_policy import CustomPolicy
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin as Rules
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig


class TestNodes:
    def leaf(self, text="leaf", **trackers):
        return Wants(text, trackers=trackers)

    async def test_trackers_of_all_policies_below_reach_the_policy_that_collects_them(self, tree):
        sessions, one, other = HostTrackers(), CallCounter(), CallCounter()
        leaves = Wants("localities", {"x": self.leaf("x", a=one), "y": self.leaf("y", a=other, b=other)})
        await tree.configure(Wants("root", {"below": leaves}, collects=sessions))
        assert set(sessions.of("a")) == {one, other}
        assert sessions.of("b") == (other,)
        assert sessions.of("c") == ()

    async def test_the_trackers_of_a_policy_end_with_it(self, tree):
        sessions = HostTrackers()
        await tree.configure(Wants("root", {"x": self.leaf(a=CallCounter())}, collects=sessions))
        assert sessions.of("a")
        await tree.configure(Wants("root", collects=sessions))
        assert sessions.of("a") == ()

    async def test_the_trackers_of_a_deactivated_policy_are_still_called(self, tree):
        sessions = HostTrackers()
        await tree.configure(Wants("root", {"x": self.leaf(a=CallCounter())}, collects=sessions))
        await tree.configure(Wants("root", deactivate=frozenset("x"), collects=sessions))
        assert sessions.of("a")

    async def test_new_trackers_replace_a_policys_earlier_ones(self, tree):
        sessions, second = HostTrackers(), CallCounter()
        await tree.configure(Wants("root", {"x": self.leaf("one", a=CallCounter())}, collects=sessions))
        await tree.configure(Wants("root", {"x": self.leaf("two", a=second)}, collects=sessions))
        assert sessions.of("a") == (second,)
        await tree.configure(Wants("root", {"x": self.leaf("three")}, collects=sessions))
        assert sessions.of("a") == ()

    async def test_trackers_of_one_cluster_do_not_reach_another(self, tree):
        here, there = HostTrackers(), HostTrackers()
        cluster = Wants("one", {"x": self.leaf(a=CallCounter())}, collects=here)
        other = Wants("other", {"x": self.leaf("empty")}, collects=there)
        await tree.configure(Wants("root", {"one": cluster, "other": other}))
        assert here.of("a") and there.of("a") == ()

    async def test_trackers_without_a_collecting_policy_are_ignored(self, tree):
        await tree.configure(Wants("root", {"x": self.leaf(a=CallCounter())}))
        assert tree.reports


class TestPolicies:
    def decision(self, make, config, its=None, **states):
        inputs = PolicyInputs(config, hosts=hosts(**states), endpoints=its or endpoint_set("ab"))
        return make(channel_control()).decide(inputs, 0.0)

    def test_least_request_attaches_its_counts_to_every_address(self):
        its = Endpoints((Endpoint(("a", "a2")), Endpoint(("b",))))
        decision = self.decision(LeastRequest, LeastRequestConfig(2), its, a=READY, b=CONNECTING)
        assert decision.trackers.keys() == {"a", "a2", "b"}
        assert decision.trackers["a"] is decision.trackers["a2"] is not decision.trackers["b"]
        assert decision.picker.pick(PickArgs("/s/m")).trackers == (decision.trackers["a"],)

    def test_weighted_round_robin_attaches_its_weights_as_trackers(self):
        config = Rules()
        decision = self.decision(WeightedRoundRobin, config, a=READY, b=READY)
        result = decision.picker.pick(PickArgs("/s/m"))
        assert result.trackers == (decision.trackers[result.host.address],)

    def test_weighted_round_robin_attaches_no_trackers_with_out_of_band_reports(self):
        config = Rules(reporting_period=10.0)
        assert not self.decision(WeightedRoundRobin, config, a=READY, b=READY).trackers

    def test_a_policys_trackers_are_the_same_object_while_its_endpoints_are(self):
        policy, its = LeastRequest(channel_control()), endpoint_set("ab")
        inputs = PolicyInputs(LeastRequestConfig(2), hosts=hosts(a=READY), endpoints=its)
        first, second = (policy.decide(inputs, now) for now in (0.0, 1.0))
        assert first.trackers is second.trackers

    @pytest.mark.parametrize("trackers", [{"a": object()}, {1: CallCounter()}, [CallCounter()]])
    def test_invalid_trackers_of_a_users_policy_are_refused(self, trackers):
        class Mine:
            def __init__(self, channel_control):
                pass

            def decide(self, inputs, now):
                return Decision(READY, QUEUE_PICKER, trackers=trackers)

        policy = make_checked_factory(Mine)(channel_control())
        with pytest.raises(TypeError, match=r"Decision\.trackers is .*; it must be trackers, with methods"):
            policy.decide(PolicyInputs(CustomPolicy("mine", {})), 0.0)

    def test_a_users_policy_cannot_collect(self):
        class Mine:
            def __init__(self, channel_control):
                pass

            def decide(self, inputs, now):
                return Decision(READY, QUEUE_PICKER, subtree=SubtreeSettings(collects=HostTrackers()))

        with pytest.raises(TypeError, match="subtree"):
            make_checked_factory(Mine)(channel_control()).decide(PolicyInputs(CustomPolicy("mine", {})), 0.0)
