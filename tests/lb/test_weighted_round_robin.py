"""Client-side weighted_round_robin is tested by values (A58)."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import CONNECTING, FAILURE, READY, channel_control, endpoint_set, hosts
from support.weight_reports import trailers

from trxds.core.observe import Observer, WrrUpdate
from trxds.core.observers import Observers
from trxds.core.status import OK
from trxds.lb.pick import QUEUE, PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.lb.weighted_round_robin.edf_scheduler import fill_unknown_weights
from trxds.lb.weighted_round_robin.endpoint_weight import EndpointWeight
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin as Rules
from trxds.resources.orca import LoadReport


class TestPolicy:
    def balanced(self, names="ab", **rules):
        policy = WeightedRoundRobin(channel_control())
        config, its = Rules(**rules), endpoint_set(names)

        def decide(**states):
            return policy.decide(PolicyInputs(config, hosts=hosts(**states), endpoints=its), 0.0)

        return decide

    def serve(self, picker, times, now, utilization):
        counted = Counter()
        for _ in range(times):
            result = picker.pick(PickArgs("/s/m", now=now))
            address = result.host.address
            counted[address] += 1
            (tracker,) = result.trackers
            tracker.began()
            tracker.ended(OK, trailers(cpu_utilization=utilization[address], rps_fractional=100), now)
        return counted

    def test_weighted_round_robin_connects_to_all_and_queues_until_one_is_ready(self):
        decision = self.balanced()()
        assert decision.connect == ("a", "b")
        assert decision.picker.pick(PickArgs("/s/m")) is QUEUE

    def test_weighted_round_robin_without_reports_is_round_robin(self):
        picker = self.balanced("abc")(a=READY, b=READY, c=READY).picker
        chosen = Counter(picker.pick(PickArgs("/s/m")).host.address for _ in range(30))
        assert set(chosen.values()) == {10}

    def test_a_busy_host_gets_fewer_rpcs_after_the_blackout_period(self):
        picker = self.balanced()(a=READY, b=READY).picker
        load = {"a": 0.9, "b": 0.3}
        assert self.serve(picker, 100, 1.0, load)["a"] == 50
        counted = self.serve(picker, 100, 11.0, load)
        assert abs(counted["a"] - 25) <= 1

    def test_weights_of_weighted_round_robin_outlive_pickers(self):
        decide = self.balanced(blackout=0)
        self.serve(decide(a=READY, b=READY).picker, 10, 1.0, {"a": 0.9, "b": 0.3})
        counted = self.serve(decide(a=READY, b=READY).picker, 100, 3.0, {"a": 0.9, "b": 0.3})
        assert abs(counted["a"] - 25) <= 1

    def test_a_host_that_returns_begins_a_blackout_period(self):
        decide = self.balanced("abc")
        load = {"a": 0.9, "b": 0.3, "c": 0.3}
        self.serve(decide(a=READY, b=READY, c=READY).picker, 30, 1.0, load)
        decide(a=CONNECTING, b=READY, c=READY)
        picker = decide(a=READY, b=READY, c=READY).picker
        counted = self.serve(picker, 90, 12.0, load)
        assert set(counted.values()) == {30}

    def test_hosts_that_return_when_all_were_lost_begin_a_blackout_period(self):
        decide = self.balanced()
        load = {"a": 0.9, "b": 0.3}
        self.serve(decide(a=READY, b=READY).picker, 30, 1.0, load)
        decide(a=CONNECTING, b=CONNECTING)
        counted = self.serve(decide(a=READY, b=READY).picker, 90, 12.0, load)
        assert set(counted.values()) == {45}

    def test_the_turns_go_on_over_decisions_of_the_same_hosts(self):
        decide = self.balanced("abc")
        turns = [decide(a=READY, b=READY, c=READY).picker.pick(PickArgs("/s/m")).host.address for _ in range(30)]
        assert turns == turns[:3] * 10 and set(turns) == {"a", "b", "c"}

    def test_a_host_that_is_not_ready_gets_no_turns(self):
        decide = self.balanced("abc")
        decide(a=READY, b=READY, c=READY).picker.pick(PickArgs("/s/m"))
        picker = decide(a=CONNECTING, b=READY, c=READY).picker
        turns = [picker.pick(PickArgs("/s/m")).host.address for _ in range(30)]
        assert Counter(turns) == {"b": 15, "c": 15}

    def test_observers_learn_of_each_update_which_weights_are_known_not_yet_usable_or_stale(self):
        class Seen(Observer):
            def __init__(self):
                self.updates = []

            def weights(self, update):
                self.updates.append(update)

        seen = Seen()
        policy = WeightedRoundRobin(replace(channel_control(), observers=Observers(seen), path="root/wrr"))
        its = hosts(a=READY, b=READY, c=READY)
        rules = Rules(blackout=10, expiration=60, update_period=1)
        picker = policy.decide(PolicyInputs(rules, hosts=its, endpoints=endpoint_set("abc")), 0.0).picker

        def update(now, *reporting):
            """Return what an update says, with these hosts' reports."""
            for complete in picker.hosts:
                if complete.host.address in reporting:
                    complete.trackers[0].record_report(LoadReport(0.5, 100), now)
            picker.pick(PickArgs("/s/m", now=now))
            return seen.updates.pop()

        assert update(0, "a") == WrrUpdate("root/wrr", (0, 0, 0), 3, 0, True)
        assert update(10, "b") == WrrUpdate("root/wrr", (200, 0, 0), 2, 0, True)
        assert update(20) == WrrUpdate("root/wrr", (200, 200, 0), 1, 0, False)
        assert update(65) == WrrUpdate("root/wrr", (0, 200, 0), 1, 1, True)
        assert update(100) == WrrUpdate("root/wrr", (0, 0, 0), 1, 2, True)

    def test_new_rules_hold_for_hosts_that_stay(self):
        policy, its, ready = WeightedRoundRobin(channel_control()), endpoint_set("ab"), hosts(a=READY, b=READY)
        load = {"a": 0.9, "b": 0.3}
        old, new = Rules(blackout=10, update_period=1000), Rules(blackout=0, update_period=1)
        for rules, now, calls in ((old, 1.0, 50), (new, 2.0, 25)):
            picker = policy.decide(PolicyInputs(rules, hosts=ready, endpoints=its), now).picker
            assert abs(self.serve(picker, 100, now, load)["a"] - calls) <= 1

    @given(cpu=st.floats(), rps=st.floats(), eps=st.floats(), penalty=st.floats(0.0, 3e38))
    @settings(deadline=None)
    def test_any_report_of_one_host_keeps_the_turns_of_valid_weights(self, cpu, rps, eps, penalty):
        reports = {
            "a": trailers(cpu_utilization=0.9, rps_fractional=100),
            "b": trailers(cpu_utilization=0.3, rps_fractional=100),
            "c": trailers(cpu_utilization=cpu, rps_fractional=rps, eps=eps),
        }
        rules = {"blackout": 0, "error_penalty": penalty}
        picker = self.balanced("abc", **rules)(a=READY, b=READY, c=READY).picker
        counted = Counter()
        for turn in range(1300):
            now = 0.0 if turn < 300 else 2.0  # by then all have reported, and weights are read once
            result = picker.pick(PickArgs("/s/m", now=now))
            counted[result.host.address] += turn >= 300
            (tracker,) = result.trackers
            tracker.ended(OK, reports[result.host.address], 0.0)
        weights = []
        for trailing in reports.values():
            weight = EndpointWeight(Rules(**rules))
            weight.ended(OK, trailing, 0.0)
            weights.append(weight.at(2.0))
        shares = fill_unknown_weights(weights)
        assert [counted[name] / 1000 for name in "abc"] == pytest.approx([s / sum(shares) for s in shares], abs=0.003)

    def test_weighted_round_robin_fails_when_all_hosts_have_failed(self):
        decision = self.balanced()(a=FAILURE, b=FAILURE)
        assert decision.state is FAILURE
        assert decision.wake_at == math.inf


class TestOutOfBand:
    """Tasks read the hosts' out-of-band load reports."""

    def decided(self):
        policy = WeightedRoundRobin(channel_control())
        config, ab = Rules(reporting_period=10.0), endpoint_set("ab")
        return lambda its: policy.decide(PolicyInputs(config, hosts=its, endpoints=ab), 0.0)

    def test_one_task_reads_the_out_of_band_reports_of_each_ready_host(self):
        decision = self.decided()(hosts(a=READY, b=CONNECTING))
        assert set(decision.tasks) == {"load reports of a"}

    def test_an_out_of_band_task_is_the_same_while_its_host_is_ready(self):
        decide = self.decided()
        its = hosts(a=READY, b=READY)
        assert decide(its).tasks == decide(its).tasks
        its["a"].state = CONNECTING
        assert set(decide(its).tasks) == {"load reports of b"}

    def test_no_task_reads_out_of_band_reports_while_no_host_is_ready(self):
        decide, its = self.decided(), hosts(a=READY)
        assert decide(its).tasks
        its["a"].state = CONNECTING
        assert not decide(its).tasks

    def test_an_update_that_does_not_concern_a_host_keeps_its_task(self):
        policy, its = WeightedRoundRobin(channel_control()), hosts(a=READY, b=READY, c=READY)

        def tasks(names, period=10.0):
            config = Rules(reporting_period=period)
            return policy.decide(PolicyInputs(config, hosts=its, endpoints=endpoint_set(names)), 0.0).tasks

        before, after = tasks("ab"), tasks("ac")
        assert after["load reports of a"] is before["load reports of a"]
        assert set(after) == {"load reports of a", "load reports of c"}
        assert tasks("ac", period=20.0)["load reports of a"] is not after["load reports of a"]

    def test_an_update_that_turns_out_of_band_reports_off_ends_their_tasks(self):
        policy, its = WeightedRoundRobin(channel_control()), hosts(a=READY, b=READY)

        def tasks(period):
            config = Rules(reporting_period=period)
            return policy.decide(PolicyInputs(config, hosts=its, endpoints=endpoint_set("ab")), 0.0).tasks

        assert len(tasks(10.0)) == 2
        assert tasks(None) == {}

    def test_reports_in_trailers_are_ignored_with_out_of_band_reports(self):
        picker = self.decided()(hosts(a=READY, b=READY)).picker
        assert picker.pick(PickArgs("/s/m")).trackers == ()
