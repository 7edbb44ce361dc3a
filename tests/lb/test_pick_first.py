"""pick_first, by values."""

from collections import Counter
from dataclasses import replace

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, channel_control, given, hosts, picked

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Fail, PickArgs
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import PolicyInputs
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig

CONFIG = PickFirstConfig()


class Tried:
    """A policy with its configuration; `pick_events` are what its picks have left."""

    def __init__(self, names="abc", seed=1, elsewhere=None, **more):
        self.pick_events = set()
        self.elsewhere = elsewhere or {}  # hosts that others in the channel have leased
        around = replace(channel_control(seed), notify_policy=self.pick_events.add, lookup=self.elsewhere.get)
        self.policy = PickFirst(around)
        self.config = PickFirstConfig(**more)
        self.endpoints = given(names)

    def decide(self, **states):
        pick_events = frozenset(self.pick_events)
        self.pick_events.clear()
        return self.policy.decide(
            PolicyInputs(self.config, {}, hosts(**states), pick_events, endpoints=self.endpoints), 0.0
        )


def test_it_connects_to_the_first_alone():
    decision = Tried().decide()
    assert decision.state is CONNECTING
    assert decision.hosts == decision.connect == ("a",)
    assert decision.picker.pick(PickArgs("/s/m")) is QUEUE


def test_the_next_one_gets_its_turn_after_a_quarter_of_a_second():
    assert Tried().decide(a=CONNECTING).wake_at == 0.25


def test_the_one_that_is_ready_takes_all():
    tried = Tried()
    decision = tried.decide(a=READY)
    assert decision.state is READY
    assert set(picked(decision.picker, 5)) == {"a"}
    assert decision.hosts == ("a",)


def test_the_next_is_used_when_the_first_cannot_be_reached():
    tried = Tried()
    tried.decide(a=FAILURE)
    assert picked(tried.decide(a=FAILURE, b=READY).picker) == ["b"]


def test_it_fails_once_all_have_failed_and_until_one_is_ready():
    tried = Tried("ab")
    decision = tried.decide(a=FAILURE, b=FAILURE)
    assert decision.state is FAILURE
    result = decision.picker.pick(PickArgs("/s/m"))
    assert isinstance(result, Fail) and "b: refused" in result.status.message
    assert tried.decide(a=IDLE, b=CONNECTING).state is FAILURE
    assert tried.decide(a=READY, b=CONNECTING).state is READY


def test_it_is_idle_when_its_connection_is_lost():
    tried = Tried()
    tried.decide(a=READY)
    decision = tried.decide(a=IDLE)
    assert decision.state is IDLE
    assert decision.hosts == decision.connect == ()


def test_a_pick_while_idle_waits_and_wakes_it():
    tried = Tried()
    tried.decide(a=READY)
    assert tried.decide(a=IDLE).picker.pick(PickArgs("/s/m")) is QUEUE
    decision = tried.decide(a=IDLE)
    assert decision.state is CONNECTING
    assert decision.connect == ("a",)


def test_all_addresses_of_all_endpoints_are_tried_in_order():
    policy = PickFirst(channel_control())
    both = Endpoints((Endpoint(("a", "b")), Endpoint(("c",))), "", (1, 1))
    decision = policy.decide(PolicyInputs(CONFIG, hosts=hosts(a=FAILURE, b=FAILURE, c=IDLE), endpoints=both), 0.0)
    assert decision.hosts == ("a", "b", "c")


class TestReadyAlready:
    """A host that somebody else in the channel has connected, a session for one, is used at once (A61)."""

    def test_it_is_leased_and_used_and_nobody_is_connected(self):
        tried = Tried(elsewhere=hosts(c=READY))
        first = tried.decide()
        assert first.hosts == ("c",) and first.connect == ()
        decision = tried.decide(c=READY)
        assert decision.state is READY and picked(decision.picker) == ["c"]
        assert decision.hosts == ("c",) and decision.connect == ()

    def test_of_several_the_first_of_the_list_is_used(self):
        assert Tried(elsewhere=hosts(c=READY, b=READY)).decide().hosts == ("b",)

    @pytest.mark.parametrize("state", [IDLE, CONNECTING, FAILURE])
    def test_in_another_state_it_is_no_better_than_others(self, state):
        decision = Tried(elsewhere=hosts(c=state)).decide()
        assert decision.hosts == decision.connect == ("a",)

    def test_it_is_looked_for_again_before_another_address_is_tried(self):
        tried = Tried()
        tried.decide(a=CONNECTING)
        tried.elsewhere.update(hosts(c=READY))
        assert tried.decide(a=FAILURE).hosts == ("a", "c")
        assert picked(tried.decide(a=FAILURE, c=READY).picker) == ["c"]

    def test_it_is_used_when_the_own_connection_is_lost(self):
        tried = Tried(elsewhere=hosts(a=READY))
        tried.decide(a=READY)
        del tried.elsewhere["a"]
        tried.elsewhere.update(hosts(b=READY))
        tried.decide(a=IDLE).picker.pick(PickArgs("/s/m"))
        assert tried.decide().hosts == ("b",)

    def test_one_that_fell_before_it_could_be_leased_is_passed_over(self):
        tried = Tried(elsewhere=hosts(c=READY))
        assert tried.decide().hosts == ("c",)
        tried.elsewhere.clear()
        decision = tried.decide(c=CONNECTING)
        assert decision.hosts == decision.connect == ("a",)


def test_a_new_list_keeps_the_connection_if_it_has_its_address():
    tried = Tried()
    tried.decide(a=READY)
    tried.endpoints = given("xya")
    decision = tried.decide(a=READY)
    assert decision.hosts == ("a",)
    assert picked(decision.picker) == ["a"]


def test_an_ejected_host_is_used_all_the_same():
    inputs = PolicyInputs(CONFIG, hosts=hosts(a=READY), ejected=frozenset("a"), endpoints=given("a"))
    decision = PickFirst(channel_control()).decide(inputs, 0.0)
    assert picked(decision.picker) == ["a"]


@pytest.mark.parametrize("note", ["", "no localities"])
def test_without_endpoints_it_fails_and_says_why(note):
    tried = Tried("")
    tried.endpoints = given("", note)
    decision = tried.decide()
    assert decision.state is FAILURE
    assert decision.picker.pick(PickArgs("/s/m")).status.message == (note or "empty address list")


class TestShuffling:
    def test_without_it_the_order_is_the_lists(self):
        assert {Tried(seed=seed).decide().connect for seed in range(20)} == {("a",)}

    def test_any_may_be_first(self):
        assert {Tried(seed=seed, shuffle=True).decide().connect for seed in range(30)} == {("a",), ("b",), ("c",)}

    def test_the_order_stays_until_the_configuration_changes(self):
        tried = Tried(shuffle=True)
        assert len({tried.decide().connect for _ in range(20)}) == 1

    def test_the_heavier_comes_first_more_often(self):
        weighted = PolicyInputs(PickFirstConfig(shuffle=True), endpoints=given("ab", weights=(3, 1)))
        firsts = Counter(PickFirst(channel_control(seed)).decide(weighted, 0.0).connect[0] for seed in range(2000))
        assert 1400 < firsts["a"] < 1600
