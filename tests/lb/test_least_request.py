"""least_request picks the host with the fewest RPCs of a few draws (A48); tested by values."""

from collections import Counter

from support.policies import CONNECTING, FAILURE, READY, channel_control, endpoint_set, hosts

from trxds.core.status import OK
from trxds.lb.least_request import LeastRequest
from trxds.lb.pick import QUEUE, PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig


class Balanced:
    """A policy with RPCs that begin and end."""

    def __init__(self, names="abc", choice_count=2):
        self.policy = LeastRequest(channel_control())
        self.choice_count = choice_count
        self.update(names)

    def update(self, names, **states):
        self.names = names
        self.config = LeastRequestConfig(self.choice_count)
        self.endpoints = endpoint_set(names)
        self.decide(**(states or dict.fromkeys(names, READY)))

    def decide(self, **states):
        self.decision = self.policy.decide(
            PolicyInputs(self.config, hosts=hosts(**states), endpoints=self.endpoints), 0.0
        )
        return self.decision

    def begin(self, times=1):
        """Begin RPCs that stay open; return (address, tracker) of each."""
        begun = []
        for _ in range(times):
            result = self.decision.picker.pick(PickArgs("/s/m"))
            (tracker,) = result.trackers
            tracker.began()
            begun.append((result.host.address, tracker))
        return begun

    def spread(self, times):
        """Return how many of these short RPCs go to each host."""
        counted = Counter()
        for _ in range(times):
            ((address, tracker),) = self.begin()
            tracker.ended(OK)
            counted[address] += 1
        return counted


def test_least_request_connects_to_all_endpoints():
    decision = Balanced().decide()
    assert decision.connect == ("a", "b", "c")
    assert decision.picker.pick(PickArgs("/s/m")) is QUEUE


def test_least_request_spreads_rpcs_evenly_over_idle_hosts():
    assert all(850 < count < 1150 for count in Balanced().spread(3000).values())


def test_least_request_spreads_open_rpcs_more_evenly_than_chance():
    counted = Counter(address for address, _ in Balanced("abcdefghij").begin(1000))
    assert max(counted.values()) - min(counted.values()) <= 10


def test_least_request_picks_a_busy_host_only_if_it_is_drawn_twice():
    balanced = Balanced("ab")
    while {address for address, _ in balanced.begin()} and balanced.policy._counts["a"].rpcs < 5:
        pass
    balanced.policy._counts["b"].rpcs = 0
    assert 200 < balanced.spread(1000)["a"] < 300


def test_least_request_stops_counting_an_rpc_that_has_ended():
    balanced = Balanced("ab")
    for _, tracker in balanced.begin(100):
        tracker.ended(OK)
    assert all(400 < count < 600 for count in balanced.spread(1000).values())


def test_a_larger_choice_count_finds_the_idle_host_more_often():
    two, ten = Balanced("abcdef", 2), Balanced("abcdef", 10)
    for balanced in (two, ten):
        for name in "abcde":
            balanced.policy._counts[name].rpcs = 9
    assert ten.spread(1000)["f"] > 800 > two.spread(1000)["f"]


def test_counts_of_least_request_outlive_pickers_and_updates():
    balanced = Balanced("ab")
    ((busy, tracker),) = balanced.begin()
    balanced.update("abc")
    assert balanced.policy._counts[busy].rpcs == 1
    tracker.ended(OK)
    assert balanced.policy._counts[busy].rpcs == 0


def test_least_request_draws_only_ready_hosts():
    balanced = Balanced("abc")
    balanced.decide(a=READY, b=CONNECTING, c=FAILURE)
    assert set(balanced.spread(50)) == {"a"}


def test_least_request_fails_when_all_hosts_have_failed():
    assert Balanced("ab").decide(a=FAILURE, b=FAILURE).state is FAILURE
