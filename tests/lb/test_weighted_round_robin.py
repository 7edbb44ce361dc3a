"""Client-side weighted_round_robin, its weights and its scheduler are tested by values (A58)."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import CONNECTING, FAILURE, READY, channel_control, endpoint_set, hosts
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.observe import Observer, WrrUpdate
from trxds.core.observers import Observers
from trxds.core.status import OK
from trxds.lb.pick import QUEUE, PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.lb.weighted_round_robin.edf_scheduler import EdfScheduler, fill_unknown_weights
from trxds.lb.weighted_round_robin.endpoint_weight import EndpointWeight
from trxds.lb.weighted_round_robin.policy import WeightedRoundRobin
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin as Rules
from trxds.resources.orca import LoadReport, load_report


def trailers(**fields):
    return Metadata([("endpoint-load-metrics-bin", OrcaLoadReport(**fields).SerializeToString())])


class TestReports:
    def test_application_utilization_counts_before_cpu_utilization(self):
        value = OrcaLoadReport(cpu_utilization=0.5, rps_fractional=100, eps=2)
        assert load_report(value.SerializeToString()) == LoadReport(0.5, 100, 2)
        value.application_utilization = 0.7
        assert load_report(value.SerializeToString()) == LoadReport(0.7, 100, 2)

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.5])
    def test_an_impossible_number_counts_as_not_reported(self, number):
        def read(**fields):
            return load_report(OrcaLoadReport(**fields).SerializeToString())

        assert read(application_utilization=number, cpu_utilization=0.5) == LoadReport(0.5)
        assert read(application_utilization=0.5, cpu_utilization=number) == LoadReport(0.5)
        assert read(rps_fractional=number, eps=number, cpu_utilization=0.5) == LoadReport(0.5)

    def test_bytes_that_are_no_load_report_are_ignored(self):
        assert load_report(b"\xff\xff") is None

    @pytest.mark.parametrize("trailing", [EMPTY, Metadata([("endpoint-load-metrics-bin", b"\xff")])])
    def test_trailers_without_a_load_report_keep_the_weight(self, trailing):
        weight = EndpointWeight(Rules(blackout=0))
        weight.ended(OK, trailing, 1.0)
        assert weight.at(1.0) == 0


class TestWeights:
    @pytest.mark.parametrize(
        ("fields", "penalty", "expected"),
        [
            ({"cpu_utilization": 0.5, "rps_fractional": 100}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": 50}, 1, 100),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": 50}, 0, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": -50}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 100, "eps": math.nan}, 1, 200),
            ({"cpu_utilization": 0.5, "rps_fractional": 1e-300, "eps": 1e300}, 0, 2e-300),
            ({"cpu_utilization": 0.5}, 1, 0),
            ({"rps_fractional": 100}, 1, 0),
            ({"rps_fractional": 100, "eps": 50}, 1, 0),
        ],
    )
    def test_a_weight_is_queries_by_utilization_and_errors(self, fields, penalty, expected):
        weight = EndpointWeight(Rules(blackout=0, error_penalty=penalty))
        weight.ended(OK, trailers(**fields), 1.0)
        assert weight.at(1.0) == expected

    @pytest.mark.parametrize(
        "report",
        [
            LoadReport(5e-324, 1e308),
            LoadReport(1e308, 5e-324),
            LoadReport(0.5, 5e-324, 1e308),
            LoadReport(math.nan, 1.0),
            LoadReport(0.5, 100, -50.0),
        ],
    )
    def test_a_report_without_a_weight_keeps_the_last_one(self, report):
        weight = self.reported(1, blackout=0)
        weight.record_report(report, 170.0)
        assert weight.at(170.0) == 200
        assert weight.at(181.0) == 0, "it was no report"

    def test_reports_after_a_gap_begin_a_blackout_without_a_pick_in_between(self):
        # Sessions report without a pick of the policy's that would read the weight.
        weight = self.reported(5, 14)
        weight.record_report(LoadReport(0.5, 100), 300)
        assert weight.at(309) == 0
        assert weight.at(310) == 200

    def reported(self, *times, **rules):
        weight = EndpointWeight(Rules(**rules))
        for time in times:
            weight.record_report(LoadReport(0.5, 100), time)
        return weight

    def test_a_weight_counts_after_the_blackout_period(self):
        weight = self.reported(5, 14)
        assert weight.at(14.9) == 0
        assert weight.at(15) == 200

    def test_a_weight_expires_and_then_begins_another_blackout_period(self):
        weight = self.reported(5)
        assert weight.at(184.9) == 200
        assert weight.at(185) == 0
        weight.record_report(LoadReport(0.5, 100), 190)
        assert weight.at(199) == 0
        assert weight.at(200) == 200

    def test_a_new_connection_begins_a_blackout_period(self):
        weight = self.reported(5)
        weight.restart_blackout()
        weight.record_report(LoadReport(0.5, 100), 20)
        assert weight.at(29) == 0
        assert weight.at(30) == 200

    def test_a_weight_is_stale_if_there_was_one_and_it_has_expired(self):
        assert not self.reported().is_stale(200)
        assert not self.reported(5).is_stale(184)
        assert self.reported(5).is_stale(185)

    def test_a_new_connection_without_a_blackout_period_has_the_last_weight(self):
        weight = self.reported(5, blackout=0)
        weight.restart_blackout()
        assert weight.at(6) == 200


class TestSchedule:
    def turns(self, *weights, times=1000):
        schedule = EdfScheduler(lambda now: list(weights), 1.0, Random(1))
        return [schedule.next(0.0) for _ in range(times)]

    def test_the_edf_scheduler_gives_turns_by_weight(self):
        counted = Counter(self.turns(3, 1, times=400))
        assert abs(counted[0] - 300) <= 1

    def test_the_edf_scheduler_spreads_the_turns_of_a_host(self):
        gaps = "".join(map(str, self.turns(3, 1))).split("1")
        assert {len(gap) for gap in gaps[1:-1]} <= {2, 3, 4}

    def test_the_edf_scheduler_gives_equal_weights_equal_turns(self):
        turns = self.turns(2, 2, 2, times=30)
        assert turns == turns[:3] * 10

    def test_the_edf_scheduler_gives_each_host_its_first_turn_before_any_has_a_second(self):
        turns = self.turns(*[1] * 20, times=20)
        assert sorted(turns) == list(range(20)) != turns

    def test_weights_that_stay_leave_the_turns_as_they_are(self):
        schedule = EdfScheduler(lambda now: [2.0, 2.0, 2.0], 1.0, Random(1))
        turns = [schedule.next(float(now)) for now in range(30)]
        assert turns == turns[:3] * 10

    def test_clients_begin_with_different_hosts(self):
        first = {EdfScheduler(lambda now: [1.0] * 3, 1.0, Random(seed)).next(0.0) for seed in range(20)}
        assert first == {0, 1, 2}

    def test_each_update_is_told_with_the_weights_that_are_known(self):
        told = []
        schedule = EdfScheduler(lambda now: [4.0, 0.0, 2.0], 1.0, Random(1), lambda *update: told.append(update))
        for now in (0.0, 0.5, 1.0):
            schedule.next(now)
        schedule.copy(lambda random: random).next(5.0)
        assert told == [([4.0, 0.0, 2.0], 0.0), ([4.0, 0.0, 2.0], 1.0)]

    @pytest.mark.parametrize("copied", [False, True])
    def test_a_host_in_slow_start_counts_by_its_share(self, copied):
        schedule = EdfScheduler(lambda now: [10.0, 20.0], 1.0, Random(1), shares=lambda now: [1.0, 0.5 * now])
        if copied:
            schedule = schedule.copy(lambda random: random)
        assert abs(Counter(schedule.next(1.0) for _ in range(100))[1] - 50) <= 1
        assert abs(Counter(schedule.next(2.0) for _ in range(90))[1] - 60) <= 1

    def test_weights_are_read_once_in_an_update_period(self):
        asked = []
        schedule = EdfScheduler(lambda now: asked.append(now) or [1.0, 2.0], 1.0, Random(1))
        for now in (0.0, 0.5, 0.99, 1.0, 1.5, 7.0):
            schedule.next(now)
        assert asked == [0.0, 1.0, 7.0]

    @pytest.mark.parametrize(
        ("weights", "used"),
        [
            ([4.0, 0.0, 2.0], [4.0, 3.0, 2.0]),
            ([4.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
            ([0.0, 0.0], [1.0, 1.0]),
            ([5.0], [1.0]),
            ([4.0, math.nan, math.inf, -1.0, 2.0], [4.0, 3.0, 3.0, 3.0, 2.0]),
            ([1.5e308, 1.5e308], [1.5e308, 1.5e308]),
        ],
    )
    def test_an_unknown_weight_is_the_mean_if_two_are_known(self, weights, used):
        assert fill_unknown_weights(weights) == used

    def test_a_weight_is_bounded_by_a_hundredth_and_ten_times_the_mean(self):
        used = fill_unknown_weights([1e-9, 1.0] + [1.0] * 98)
        assert used[0] == pytest.approx(0.01 * 0.99)
        used = fill_unknown_weights([1e9] + [1.0] * 99)
        assert used[0] == pytest.approx(10 * (1e9 + 99) / 100)

    @given(weights=st.lists(st.floats(), min_size=1, max_size=8), seed=st.integers(0, 99))
    @settings(deadline=None)
    def test_all_hosts_get_turns_in_the_ratio_of_any_weights(self, weights, seed):
        schedule = EdfScheduler(lambda now: weights, 1.0, Random(seed))
        lightest = min(fill_unknown_weights(weights))
        shares = [share / lightest for share in fill_unknown_weights(weights)]
        turns = 3 * math.ceil(sum(shares))
        counted = Counter(schedule.next(0.0) for _ in range(turns))
        for position, share in enumerate(shares):
            assert abs(counted[position] - turns * share / sum(shares)) <= len(weights)
            assert counted[position] >= 1, "it starves"

    @given(
        weights=st.lists(st.floats(1.0, 50.0), min_size=2, max_size=8),
        invalid=st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0]),
    )
    def test_an_invalid_weight_keeps_the_ratio_of_valid_ones(self, weights, invalid):
        shares = fill_unknown_weights([*weights, invalid])
        assert shares[:-1] == weights
        assert shares[-1] == pytest.approx(sum(weights) / len(weights))


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
