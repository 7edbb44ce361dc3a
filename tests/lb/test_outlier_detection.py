"""outlier_detection ejects hosts that fail too much (A50); tested by values."""

import math

import pytest
from support.policies import FAILURE, READY, channel_control, endpoints, report

from trxds.core.status import OK, unavailable
from trxds.lb.configs import OutlierDetectionConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.outlier_detection.policy import OutlierDetection
from trxds.lb.pick import QUEUE, Complete, FixedPicker, PickArgs, TraceNote
from trxds.lb.policy import CONNECTING, PolicyInputs, PolicyState
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import RoundRobin
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate

FAILED = unavailable("no")
HOSTS = endpoints("abcde")


def by_failures(threshold=50, enforcement=100, hosts=1, volume=1, **more):
    return OutlierDetectionSettings(failure_percentage=FailurePercentage(threshold, enforcement, hosts, volume), **more)


def by_rate(stdev_factor=1000, enforcement=100, hosts=1, volume=1, **more):
    return OutlierDetectionSettings(success_rate=SuccessRate(stdev_factor, enforcement, hosts, volume), **more)


class Detector:
    """The policy at a time of the test's choice, over a child that picks the host of the test's choice."""

    def __init__(self, rules, hosts=HOSTS, seed=1):
        self.rules = rules
        self.hosts = hosts
        self.now = 0.0
        self.policy = OutlierDetection(channel_control(seed))
        self.decide()

    def decide(self, child=None):
        children = {"limits": child} if child else {}
        inputs = PolicyInputs(
            OutlierDetectionConfig(self.rules, RoundRobin()), children, endpoints=Endpoints(self.hosts)
        )
        self.decision = self.policy.decide(inputs, self.now)
        return self.decision

    def at(self, now):
        self.now = now
        return self.decide().ejected

    def call(self, host, good=0, bad=0):
        """Begin and end RPCs to that host."""
        for status in [OK] * good + [FAILED] * bad:
            self.begin(host).ended(status)

    def begin(self, host):
        (*_, tracker) = self.decide(report(READY, host)).picker.pick(PickArgs("/s/m")).trackers
        tracker.began()
        return tracker

    def eject(self, host, now):
        self.call(host, bad=10)
        assert host in self.at(now)


def test_outlier_detection_passes_on_its_childs_state():
    detector = Detector(by_failures())
    assert detector.decision.state is CONNECTING.state
    assert detector.decide(report(FAILURE)).state is FAILURE
    assert detector.decide(PolicyState(READY, FixedPicker(QUEUE))).picker.pick(PickArgs("/s/m")) is QUEUE
    assert list(detector.decision.children) == ["limits"]


def test_outlier_detection_without_rules_hands_on_its_childs_picker():
    child = report(READY)
    detector = Detector(None)
    assert detector.decide(child).picker is child.picker
    assert detector.decision.wake_at == math.inf


@pytest.mark.parametrize("rules", [None, by_failures()])
def test_outlier_detection_reads_its_endpoints_only_for_rules(rules):
    assert Detector(rules).policy.reads_endpoints is (rules is not None)


@pytest.mark.parametrize(
    ("rules", "why"),
    [(None, "it has no rules and ejects no host"), (by_failures(), "it only counts; leaf policies skip ejected hosts")],
)
def test_outlier_detection_explains_why_it_hands_each_rpc_on(rules, why):
    assert Detector(rules).decision.handed_on == TraceNote(why)


def test_outlier_detection_keeps_its_picker_while_its_child_does():
    detector, child = Detector(by_failures()), report(READY)
    first = detector.decide(child).picker
    detector.now = 20
    assert detector.decide(child).picker is first


def test_outlier_detection_adds_its_tracker_after_others():
    other = object()
    child = PolicyState(READY, FixedPicker(Complete(report(READY, "a").picker.result.host, (other,))))
    assert Detector(by_failures()).decide(child).picker.pick(PickArgs("/s/m")).trackers[:-1] == (other,)


def test_outlier_detection_does_not_count_a_host_outside_the_cluster():
    assert Detector(by_failures()).decide(report(READY, "z")).picker.pick(PickArgs("/s/m")).trackers == ()


def test_outlier_detection_does_not_count_a_host_that_has_left():
    detector = Detector(by_failures())
    detector.hosts = HOSTS[1:]
    picked = detector.decide(report(READY, "a")).picker.pick(PickArgs("/s/m"))
    assert picked.trackers == ()


class TestIntervals:
    def test_outlier_detection_wakes_at_the_end_of_each_interval(self):
        detector = Detector(by_failures(interval=10))
        assert detector.decision.wake_at == 10
        detector.at(3)
        assert detector.decision.wake_at == 10
        detector.at(10.5)
        assert detector.decision.wake_at == 20.5

    def test_no_host_is_ejected_before_the_end_of_the_interval(self):
        detector = Detector(by_failures())
        detector.call("a", bad=100)
        assert detector.at(9.9) == frozenset()
        assert detector.at(10) == {"a"}

    def test_a_call_counts_in_the_interval_in_which_it_ends(self):
        detector = Detector(by_failures())
        tracker = detector.begin("a")
        assert detector.at(10) == frozenset()
        tracker.ended(FAILED)
        assert detector.at(20) == {"a"}

    def test_calls_of_the_interval_before_do_not_count(self):
        detector = Detector(by_failures(volume=10))
        detector.call("a", bad=9)
        detector.at(10)
        detector.call("a", bad=9)
        assert detector.at(20) == frozenset()

    def test_new_rules_move_the_end_of_the_interval_and_keep_the_counts(self):
        detector = Detector(by_failures(interval=10, volume=3))
        detector.call("a", bad=3)
        detector.rules = by_failures(interval=4, volume=3)
        assert detector.at(3) == frozenset()
        assert detector.decision.wake_at == 4
        assert detector.at(4) == {"a"}

    def test_rules_with_an_interval_already_over_sweep_at_once(self):
        detector = Detector(by_failures(interval=100))
        detector.call("a", bad=3)
        detector.rules = by_failures(interval=5)
        assert detector.at(50) == {"a"}

    def test_removing_the_rules_removes_counts_and_ejections(self):
        detector = Detector(by_failures())
        detector.eject("a", 10)
        detector.rules = None
        assert detector.at(11) == frozenset()
        detector.rules = by_failures()
        assert detector.at(12) == frozenset()
        assert detector.decision.wake_at == 22
        detector.eject("a", 22)
        assert detector.at(52) == frozenset(), "it is the first ejection again: 30 s"

    def test_an_interval_of_0_is_no_endless_loop(self):
        assert Detector(by_failures(interval=0)).decision.wake_at > 0


class TestFailurePercentage:
    def test_a_failure_percentage_above_the_threshold_ejects(self):
        detector = Detector(by_failures(threshold=50, max_ejection_percent=100))
        detector.call("a", good=50, bad=51)
        detector.call("b", good=50, bad=50)
        assert detector.at(10) == {"a"}

    def test_the_failure_percentage_ignores_a_host_with_few_calls(self):
        detector = Detector(by_failures(volume=10))
        detector.call("a", bad=9)
        assert detector.at(10) == frozenset()

    def test_the_failure_percentage_ejects_no_host_among_few(self):
        detector = Detector(by_failures(hosts=3))
        for host in "ab":
            detector.call(host, bad=10)
        assert detector.at(10) == frozenset()
        for host in "abc":
            detector.call(host, bad=10)
        assert detector.at(20) == {"a"}

    def test_a_host_without_calls_has_no_failure_percentage(self):
        assert Detector(by_failures(threshold=0, hosts=0, volume=0)).at(10) == frozenset()


class TestSuccessRate:
    def test_a_success_rate_far_below_the_mean_ejects(self):
        detector = Detector(by_rate(stdev_factor=1999))
        for host in "abcd":
            detector.call(host, good=100)
        detector.call("e", bad=100)
        assert detector.at(10) == {"e"}, "0 < 0.8 - 1.999 × 0.4"

    def test_the_stdev_factor_sets_the_ejection_threshold(self):
        detector = Detector(by_rate(stdev_factor=2001))
        for host in "abcd":
            detector.call(host, good=100)
        detector.call("e", bad=100)
        assert detector.at(10) == frozenset()

    def test_hosts_that_fail_equally_often_are_no_outliers(self):
        detector = Detector(by_rate())
        for host in "abcde":
            detector.call(host, bad=100)
        assert detector.at(10) == frozenset()

    def test_hosts_that_succeed_equally_often_are_no_outliers_however_many_calls_they_get(self):
        detector = Detector(by_rate())
        for host, calls in zip("abcde", (100, 100, 100, 100, 10), strict=True):
            detector.call(host, good=calls)
        assert detector.at(10) == frozenset()

    @pytest.mark.parametrize(("volume", "hosts", "ejected"), [(10, 5, {"e"}), (11, 4, set()), (10, 6, set())])
    def test_the_success_rate_needs_enough_hosts_with_enough_calls(self, volume, hosts, ejected):
        detector = Detector(by_rate(volume=volume, hosts=hosts))
        for host in "abcd":
            detector.call(host, good=10)
        detector.call("e", bad=10)
        assert detector.at(10) == ejected

    def test_a_host_without_calls_has_no_success_rate(self):
        assert Detector(by_rate(hosts=0, volume=0)).at(10) == frozenset()


class TestHowMany:
    @pytest.mark.parametrize(
        ("percent", "hosts", "ejected"), [(0, 5, 1), (10, 5, 1), (20, 5, 1), (21, 5, 2), (50, 3, 2), (100, 5, 5)]
    )
    def test_max_ejection_percent_is_checked_before_each_ejection_so_one_is_always_allowed(
        self, percent, hosts, ejected
    ):
        names = "abcde"[:hosts]
        detector = Detector(by_failures(max_ejection_percent=percent), endpoints(names))
        for host in names:
            detector.call(host, bad=10)
        assert len(detector.at(10)) == ejected

    def test_ejected_hosts_count_for_max_ejection_percent(self):
        detector = Detector(by_failures(max_ejection_percent=20))
        detector.eject("a", 10)
        detector.call("b", bad=10)
        assert detector.at(20) == {"a"}

    def test_both_algorithms_share_max_ejection_percent(self):
        rules = OutlierDetectionSettings(
            success_rate=SuccessRate(1000, 100, 1, 1), failure_percentage=FailurePercentage(10, 100, 1, 1)
        )
        detector = Detector(rules)
        for host in "abc":
            detector.call(host, good=10)
        for host in "de":
            detector.call(host, bad=10)
        assert len(detector.at(10)) == 1

    @pytest.mark.parametrize("rules", [by_rate, by_failures])
    def test_the_enforcement_percentage_is_a_chance(self, rules):
        out = 0
        for seed in range(400):
            detector = Detector(rules(enforcement=25), seed=seed)
            for host in "abcd":
                detector.call(host, good=4)
            detector.call("e", bad=4)
            out += detector.at(10) == {"e"}
        assert 70 < out < 130

    def test_an_enforcement_percentage_of_0_never_ejects(self):
        for seed in range(400):
            detector = Detector(by_failures(enforcement=0), seed=seed)
            detector.call("e", bad=4)
            assert detector.at(10) == frozenset()


class TestReturn:
    def test_an_ejected_host_returns_after_the_base_time(self):
        detector = Detector(by_failures(base_ejection_time=25))
        detector.eject("a", 10)
        assert detector.at(30) == {"a"}
        assert detector.at(40) == frozenset(), "at the first sweep after 35 s"

    def test_each_further_ejection_lasts_longer(self):
        detector = Detector(by_failures(base_ejection_time=10))
        detector.eject("a", 10)
        assert detector.at(20) == frozenset()
        detector.eject("a", 30)
        assert detector.at(40) == {"a"}
        assert detector.at(50) == frozenset()

    def test_an_ejection_lasts_no_longer_than_max_ejection_time(self):
        detector = Detector(by_failures(base_ejection_time=10, max_ejection_time=15))
        detector.eject("a", 10)
        assert detector.at(20) == frozenset()
        for again in (30, 60, 90):  # each right after its return, so that the multiplier grows
            detector.eject("a", again)
            assert detector.at(again + 10) == {"a"}
            assert detector.at(again + 20) == frozenset()

    def test_a_max_ejection_time_below_the_base_time_is_the_base_time(self):
        detector = Detector(by_failures(base_ejection_time=30, max_ejection_time=5))
        detector.eject("a", 10)
        assert detector.at(39) == {"a"}
        assert detector.at(49) == frozenset()

    def test_each_interval_without_an_ejection_lowers_the_multiplier(self):
        detector = Detector(by_failures(base_ejection_time=10))
        detector.eject("a", 10)
        detector.at(20)
        detector.eject("a", 30)  # its second
        detector.at(50)
        detector.at(60)
        detector.at(70)  # two good intervals: as if it had never been out
        detector.eject("a", 80)
        assert detector.at(90) == frozenset()

    def test_one_interval_without_an_ejection_lowers_the_multiplier_by_one(self):
        detector = Detector(by_failures(base_ejection_time=10))
        detector.eject("a", 10)
        detector.at(20)
        detector.eject("a", 30)  # its second
        detector.at(50)
        detector.at(60)
        detector.eject("a", 70)
        assert detector.at(80) == {"a"}
        assert detector.at(90) == frozenset()

    def test_an_ejected_host_is_not_ejected_again(self):
        detector = Detector(by_failures(base_ejection_time=10, interval=5, max_ejection_percent=100))
        detector.eject("a", 5)
        detector.call("a", bad=10)  # by a cookie
        assert detector.at(10) == {"a"}
        assert detector.at(15) == frozenset()


class TestEndpoints:
    def test_all_addresses_of_an_endpoint_are_ejected_together(self):
        detector = Detector(by_failures(volume=4), (Endpoint(("a", "b")), Endpoint(("c",))))
        detector.call("a", bad=2)
        detector.call("b", bad=2)
        assert detector.at(10) == {"a", "b"}

    def test_an_endpoint_that_stays_keeps_its_counts(self):
        detector = Detector(by_failures())
        detector.call("a", bad=10)
        detector.hosts = endpoints("xa")
        assert detector.at(10) == {"a"}
        detector.hosts = endpoints("ya")
        assert detector.at(11) == {"a"}

    def test_the_order_of_an_endpoints_addresses_does_not_change_its_counts(self):
        detector = Detector(by_failures(), (Endpoint(("a", "b")), Endpoint(("c",))))
        detector.eject("a", 10)
        detector.hosts = (Endpoint(("b", "a")), Endpoint(("c",)))
        assert detector.at(11) == {"a", "b"}

    def test_an_endpoint_that_left_returns_with_new_counts(self):
        detector = Detector(by_failures())
        detector.eject("a", 10)
        detector.hosts = endpoints("bc")
        assert detector.at(11) == frozenset()
        detector.hosts = HOSTS
        assert detector.at(12) == frozenset()

    def test_an_update_of_the_endpoints_does_not_move_the_interval(self):
        detector = Detector(by_failures())
        detector.hosts = endpoints("ab")
        detector.at(5)
        assert detector.decision.wake_at == 10
