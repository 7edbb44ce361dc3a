"""priority fails over (A56): tested by values for the child in use, the running ones and the next decision."""

import math

from support.policies import CONNECTING, FAILURE, IDLE, READY, channel_control, report

from trxds.lb.configs import PriorityConfig
from trxds.lb.pick import PickArgs
from trxds.lb.policy import CHILD_RETENTION, PolicyInputs
from trxds.lb.priority import Priority
from trxds.resources.leaf_policy import RoundRobin

LEAF = RoundRobin()


class Story:
    """A policy over time: tests set its children's states and read its decisions."""

    def __init__(self, *names):
        self.policy = Priority(channel_control())
        self.names = names
        self.reports = {}

    def at(self, now, *names, **states):
        self.names = names or self.names
        self.reports |= {name: report(state, name) for name, state in states.items()}
        self.decision = self.policy.decide(self.inputs, now)
        return self.decision

    @property
    def inputs(self):
        return PolicyInputs(PriorityConfig(dict.fromkeys(self.names, LEAF)), self.reports)

    def describes(self, now):
        return self.policy.describe(self.inputs, now)

    def running(self):
        return list(self.decision.children)

    def used(self):
        return self.decision.picker.pick(PickArgs("/s/m")).host.address


def test_only_the_first_priority_is_started():
    story = Story("p0", "p1")
    story.at(0)
    assert story.running() == ["p0"]
    assert story.decision.state is CONNECTING
    assert story.decision.wake_at == 10


def test_the_first_priority_is_used_while_it_is_ready():
    story = Story("p0", "p1")
    story.at(1, p0=READY)
    assert story.used() == "p0"
    assert story.running() == ["p0"]


def test_a_failed_priority_starts_the_next_at_once():
    story = Story("p0", "p1")
    story.at(0)
    story.at(1, p0=FAILURE)
    assert story.running() == ["p0", "p1"]
    story.at(2, p1=READY)
    assert story.used() == "p1"


def test_a_connecting_priority_has_10_seconds_before_failover():
    story = Story("p0", "p1")
    story.at(0)
    story.at(9.9, p0=CONNECTING)
    assert story.running() == ["p0"]
    story.at(10)
    assert story.running() == ["p0", "p1"]


def test_a_failover_timer_that_has_fired_wakes_the_policy_no_more():
    story = Story("p0", "p1")
    story.at(0)
    assert story.at(10).wake_at == 20, "the second one's timer"


def test_operators_read_how_long_a_priority_is_given_and_which_is_kept_warm():
    story = Story("p0", "p1", "p2")
    story.at(0, p0=CONNECTING)
    assert story.describes(4) == "p0 CONNECTING for 6.0 s more, p1 not begun, p2 not begun"
    assert story.describes(10) == "p0 CONNECTING, p1 not begun, p2 not begun"
    story.at(10, p1=READY)
    story.at(11, p0=READY)
    assert story.describes(11) == "p0 READY, p1 READY, kept warm, p2 not begun"
    assert story.describes(11 + CHILD_RETENTION) == "p0 READY, p1 READY, p2 not begun"
    assert Story().describes(0) == "no priorities"


def test_a_last_priority_that_connects_for_more_than_10_seconds_is_connecting():
    story = Story("p0")
    story.at(0)
    assert story.at(9.9, p0=CONNECTING).state is CONNECTING
    assert story.at(10).state is CONNECTING
    assert story.at(20, p0=FAILURE).state is FAILURE


def test_a_priority_that_is_new_above_the_others_leaves_them_running_while_it_connects():
    story = Story("p1")
    story.at(0, p1=READY)
    story.at(1, "p0", "p1")
    assert story.decision.state is CONNECTING
    assert story.running() == ["p0", "p1"]


def test_a_higher_priority_is_used_again_when_it_recovers():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=READY)
    story.at(2, p0=READY)
    assert story.used() == "p0"
    assert story.running() == ["p0"]
    assert story.decision.deactivate == {"p1"}, "the lower one stays warm"


def test_a_deactivated_priority_is_used_again_without_waiting():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=READY)
    story.at(2, p0=READY)
    story.at(3, p0=FAILURE)
    assert story.used() == "p1"
    assert story.decision.deactivate == frozenset()


def test_a_priority_is_deactivated_for_a_quarter_of_an_hour():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=READY)
    story.at(2, p0=READY)
    assert story.at(2 + CHILD_RETENTION - 1).deactivate == {"p1"}
    assert story.at(2 + CHILD_RETENTION).deactivate == frozenset()


def test_a_priority_that_is_deactivated_again_has_its_whole_quarter_of_an_hour():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=READY)
    story.at(2, p0=READY)
    story.at(800, p0=FAILURE)
    story.at(801, p0=READY)
    assert story.at(801 + CHILD_RETENTION - 1).deactivate == {"p1"}
    assert story.at(801 + CHILD_RETENTION).deactivate == frozenset()


def test_a_priority_removed_from_the_configuration_ends_at_once():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=READY)
    story.at(2, "p0")
    assert story.running() == ["p0"]
    assert story.decision.deactivate == frozenset()


def test_a_priority_that_reconnects_after_ready_has_10_seconds_again():
    story = Story("p0", "p1")
    story.at(0, p0=READY)
    story.at(100, p0=CONNECTING)
    assert story.running() == ["p0"]
    assert story.decision.wake_at == 110
    story.at(110)
    assert story.running() == ["p0", "p1"]


def test_a_priority_that_reconnects_after_a_failure_has_no_timer():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p0=CONNECTING)
    assert story.running() == ["p0", "p1"]


def test_lower_priorities_run_on_while_the_first_reconnects():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE, p1=READY)
    story.at(1, p0=IDLE)
    assert story.running() == ["p0"]
    story.at(2, p0=FAILURE)
    assert story.running() == ["p0", "p1"]
    assert story.used() == "p1"


def test_the_last_prioritys_error_is_reported_when_all_have_failed():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    story.at(1, p1=FAILURE)
    assert story.decision.state is FAILURE
    assert story.used() == "p1"


def test_when_all_have_failed_the_first_that_connects_again_is_used():
    story = Story("p0", "p1", "p2")
    story.at(0, p0=FAILURE)
    story.at(1, p1=FAILURE)
    story.at(2, p2=FAILURE)
    story.at(3, p1=CONNECTING)
    assert story.decision.state is CONNECTING
    assert story.used() == "p1"


def test_a_deactivated_priority_that_connects_wakes_nobody():
    story = Story("p0", "p1")
    story.at(0, p0=FAILURE)
    assert story.decision.wake_at == 10
    story.at(1, p0=READY)
    assert story.decision.wake_at == math.inf


def test_a_priority_policy_without_priorities_fails():
    assert Story().at(0).state is FAILURE
