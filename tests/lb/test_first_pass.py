"""The first pass of a cluster's hosts is tested by values, from the endpoints of a leaf to the picks of sessions."""

import math
from random import Random

import pytest
from msgspec import structs
from support.policies import (
    CONNECTING,
    FAILURE,
    IDLE,
    READY,
    FakeHost,
    channel_control,
    endpoint_set,
    hosts,
    report,
)
from trio.testing import wait_all_tasks_blocked

from trxds.lb.configs import OutlierDetectionConfig, OverrideHostConfig, PriorityConfig, Target, WeightedTargetConfig
from trxds.lb.first_pass import FirstPass
from trxds.lb.least_request import LeastRequest
from trxds.lb.outlier_detection.policy import OutlierDetection
from trxds.lb.override_host.policy import OverrideHost
from trxds.lb.pick import Complete, Override, PickArgs, Queue, Trace
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import ChannelControl, PolicyInputs
from trxds.lb.priority import Priority
from trxds.lb.random_subsetting import RandomSubsetting
from trxds.lb.round_robin import RoundRobin
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.lb.weighted_target import WeightedTarget
from trxds.resources import leaf_policy
from trxds.resources.lb_policy import RandomSubsetting as RandomSubsettingConfig

LEAF = leaf_policy.RoundRobin()
LEAVES = [
    (RoundRobin, LEAF),
    (LeastRequest, leaf_policy.LeastRequest()),
    (WeightedRoundRobin, leaf_policy.ClientSideWeightedRoundRobin()),
]


def decide(policy, config, names="ab", ejected=frozenset(), **states):
    inputs = PolicyInputs(config, hosts=hosts(**states), endpoints=endpoint_set(names), ejected=ejected)
    return policy.decide(inputs, 0.0).in_first_pass


@pytest.mark.parametrize(("kind", "config"), LEAVES)
class TestLeaves:
    def test_a_leaf_is_in_its_first_pass_until_each_host_is_ready_or_has_failed(self, kind, config):
        leaf = kind(channel_control())
        assert decide(leaf, config, a=CONNECTING, b=CONNECTING)
        assert decide(leaf, config, a=READY, b=CONNECTING)
        assert not decide(leaf, config, a=READY, b=FAILURE)

    def test_a_host_that_was_ready_and_connects_again_has_passed(self, kind, config):
        leaf = kind(channel_control())
        assert decide(leaf, config, "abc", a=READY, b=CONNECTING, c=CONNECTING)
        assert decide(leaf, config, "abc", a=CONNECTING, b=READY, c=CONNECTING)
        assert not decide(leaf, config, "abc", a=CONNECTING, b=READY, c=READY)

    def test_hosts_that_are_added_after_the_first_pass_begin_no_other(self, kind, config):
        leaf = kind(channel_control())
        assert not decide(leaf, config, "a", a=READY)
        assert not decide(leaf, config, "ab", a=READY, b=CONNECTING)

    def test_hosts_that_are_added_during_the_first_pass_belong_to_it(self, kind, config):
        leaf = kind(channel_control())
        assert decide(leaf, config, "ab", a=READY, b=CONNECTING)
        assert decide(leaf, config, "abc", a=READY, b=READY, c=CONNECTING)

    def test_hosts_that_are_removed_are_not_waited_for(self, kind, config):
        leaf = kind(channel_control())
        assert decide(leaf, config, "ab", a=READY, b=CONNECTING)
        assert not decide(leaf, config, "a", a=READY)

    def test_after_a_pass_in_which_all_failed_new_hosts_begin_another(self, kind, config):
        leaf = kind(channel_control())
        assert not decide(leaf, config, "a", a=FAILURE)
        assert decide(leaf, config, "abc", a=FAILURE, b=READY, c=CONNECTING)

    def test_a_leaf_without_endpoints_is_in_no_pass_and_begins_it_with_its_first_ones(self, kind, config):
        leaf = kind(channel_control())
        assert not decide(leaf, config, "")
        assert decide(leaf, config, "ab", a=READY, b=CONNECTING)


def test_an_ejected_host_has_passed():
    leaf = RoundRobin(channel_control())
    assert decide(leaf, LEAF, a=READY, b=CONNECTING)
    assert not decide(leaf, LEAF, a=READY, b=READY, ejected=frozenset("b"))


def test_pick_first_has_no_first_pass():
    assert not decide(PickFirst(channel_control()), leaf_policy.PickFirst(), a=CONNECTING, b=IDLE)


def reports(**in_first_pass):
    """Return the reports of children that are READY."""
    return {name: passing(READY, each) for name, each in in_first_pass.items()}


def passing(state, in_first_pass=True, name="host"):
    return structs.replace(report(state, name), in_first_pass=in_first_pass)


class TestParents:
    @pytest.mark.parametrize(("a", "b"), [(False, False), (False, True), (True, False)])
    def test_weighted_target_is_in_its_first_pass_while_a_target_with_a_weight_is(self, a, b):
        config = WeightedTargetConfig({"a": Target(1, LEAF), "b": Target(1, LEAF), "unused": Target(0, LEAF)})
        inputs = PolicyInputs(config, reports(a=a, b=b, unused=True))
        assert WeightedTarget(channel_control()).decide(inputs, 0.0).in_first_pass is (a or b)

    @pytest.mark.parametrize("chosen", [False, True])
    def test_priority_is_in_the_first_pass_of_the_priority_in_use(self, chosen):
        inputs = PolicyInputs(PriorityConfig({"p0": LEAF, "p1": LEAF}), reports(p0=chosen, p1=not chosen))
        assert Priority(channel_control()).decide(inputs, 0.0).in_first_pass is chosen

    @pytest.mark.parametrize("below", [False, True])
    def test_random_subsetting_and_outlier_detection_are_in_their_childs(self, below):
        subsetting = PolicyInputs(RandomSubsettingConfig(2, LEAF), reports(subset=below), endpoints=endpoint_set("ab"))
        assert RandomSubsetting(channel_control()).decide(subsetting, 0.0).in_first_pass is below
        detection = PolicyInputs(OutlierDetectionConfig(None, LEAF), reports(limits=below))
        assert OutlierDetection(channel_control()).decide(detection, 0.0).in_first_pass is below


class TestFirstPass:
    def test_it_begins_with_the_first_ready_host(self):
        first_pass = FirstPass(0.2)
        assert not first_pass.update(CONNECTING, True, 5.0)
        assert first_pass.ends_at == math.inf
        assert first_pass.update(READY, True, 7.0)
        assert first_pass.ends_at == 7.2

    def test_it_ends_once_and_for_all(self):
        first_pass = FirstPass(0.2)
        assert not first_pass.update(READY, False, 0.0)
        assert not first_pass.update(READY, True, 0.1)

    def test_it_ends_at_its_time(self):
        first_pass = FirstPass(0.2)
        assert first_pass.update(READY, True, 0.0)
        assert first_pass.update(READY, True, 0.1)
        assert not first_pass.update(READY, True, 0.2)

    def test_while_no_host_is_ready_the_childs_picker_decides(self):
        first_pass = FirstPass(0.2)
        assert first_pass.update(READY, True, 0.0)
        assert not first_pass.update(FAILURE, True, 0.1)
        assert first_pass.update(READY, True, 0.15)

    async def test_its_end_wakes_the_calls_that_wait(self, nursery, autojump_clock):
        went_on = []

        async def wait(number):
            await first_pass.wait_ended()
            went_on.append(number)

        first_pass = FirstPass(0.2)
        first_pass.update(READY, True, 0.0)
        for number in range(2):
            nursery.start_soon(wait, number)
        await wait_all_tasks_blocked()
        assert went_on == []
        first_pass.update(READY, False, 0.1)
        await wait_all_tasks_blocked()
        assert sorted(went_on) == [0, 1]

    async def test_no_call_waits_for_its_end_when_it_is_over(self, autojump_clock):
        first_pass = FirstPass(0.2)
        first_pass.update(READY, True, 0.0)
        first_pass.update(READY, False, 0.1)
        await first_pass.wait_ended()


class TestPicks:
    def decide(self, now=0.0, spread_within=0.2, **report_of):
        control = ChannelControl(lambda event: None, FakeHost, lambda address: None, lambda address: None, Random(1))
        self.policy = OverrideHost(control, spread_within)
        return self.again(now, **report_of)

    def again(self, now, state=READY, in_first_pass=True):
        config = OverrideHostConfig("cart", frozenset(), 3600.0, LEAF)
        children = {"everybody": passing(state, in_first_pass, "a")}
        self.decision = self.policy.decide(PolicyInputs(config, children, endpoints=endpoint_set("ab")), now)
        return self.decision

    def pick(self, override, now=0.0, trace=None):
        return self.decision.picker.pick(PickArgs("/s/m", override=override, now=now, trace=trace))

    def test_a_pick_of_a_session_without_a_host_waits(self):
        assert self.decide().wake_at == 0.2
        assert isinstance(self.pick(Override(spread_until=math.inf)), Queue)

    def test_any_other_pick_does_not(self):
        self.decide()
        assert isinstance(self.pick(Override()), Complete)
        assert isinstance(self.pick(None), Complete)

    def test_it_waits_no_longer_than_its_own_time_allows(self):
        self.decide()
        assert isinstance(self.pick(Override(spread_until=0.1), 0.09), Queue)
        assert isinstance(self.pick(Override(spread_until=0.1), 0.1), Complete)

    def test_an_old_picker_makes_nobody_wait_after_the_latest_end(self):
        self.decide()
        assert isinstance(self.pick(Override(spread_until=math.inf), 0.2), Complete)

    def test_no_pick_waits_after_the_end(self):
        self.decide()
        assert self.again(0.1, in_first_pass=False).wake_at == math.inf
        assert isinstance(self.pick(Override(spread_until=math.inf), 0.1), Complete)

    def test_with_spread_within_0_no_pick_waits(self):
        self.decide(spread_within=0)
        assert isinstance(self.pick(Override(spread_until=math.inf)), Complete)

    def test_an_explained_pick_waits_too_and_changes_nothing(self):
        self.decide()
        override, trace = Override(spread_until=math.inf), Trace()
        assert isinstance(self.pick(override, trace=trace), Queue)
        assert override == Override(spread_until=math.inf)
        assert trace.notes[0].waits_for == "all hosts to connect or fail, so that sessions spread"
