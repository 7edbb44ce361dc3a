"""round_robin picks READY hosts in turn; tested by values."""

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, channel_control, endpoint_set, hosts, picked

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Fail, PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.lb.round_robin import RoundRobin
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig

CONFIG = RoundRobinConfig()


def decide(policy, names, its_hosts):
    return policy.decide(PolicyInputs(CONFIG, hosts=its_hosts, endpoints=endpoint_set(names)), 0.0)


def test_round_robin_leases_and_connects_every_endpoint():
    decision = decide(RoundRobin(channel_control()), "abc", {})
    assert decision.hosts == ("a", "b", "c")
    assert decision.connect == ("a", "b", "c")


def test_round_robin_queues_while_no_host_is_ready():
    decision = decide(RoundRobin(channel_control()), "ab", hosts(a=CONNECTING, b=IDLE))
    assert decision.state is CONNECTING
    assert decision.picker.pick(PickArgs("/s/m")) is QUEUE


def test_round_robin_picks_ready_hosts_in_turn():
    decision = decide(RoundRobin(channel_control()), "abc", hosts(a=READY, b=READY, c=CONNECTING))
    assert decision.state is READY
    chosen = picked(decision.picker, 10)
    assert chosen.count("a") == chosen.count("b") == 5


def test_a_new_round_robin_picker_goes_on_where_the_old_one_was():
    policy = RoundRobin(channel_control())
    its_hosts = hosts(a=READY, b=READY, c=READY)
    chosen = []
    for _ in range(6):
        chosen += picked(decide(policy, "abc", its_hosts).picker)
    assert sorted(chosen) == ["a", "a", "b", "b", "c", "c"]


def test_round_robin_starts_at_a_random_host():
    its_hosts = hosts(a=READY, b=READY, c=READY)
    firsts = {picked(decide(RoundRobin(channel_control(seed)), "abc", its_hosts).picker)[0] for seed in range(20)}
    assert firsts == {"a", "b", "c"}


def test_round_robin_fails_with_the_hosts_error_once_all_have_failed():
    decision = decide(RoundRobin(channel_control()), "ab", hosts(a=FAILURE, b=FAILURE))
    assert decision.state is FAILURE
    result = decision.picker.pick(PickArgs("/s/m"))
    assert isinstance(result, Fail)
    assert "refused" in result.status.message


def test_a_failed_host_of_round_robin_counts_as_failed_until_it_is_ready():
    policy = RoundRobin(channel_control())
    decide(policy, "a", hosts(a=FAILURE))
    assert decide(policy, "a", hosts(a=CONNECTING)).state is FAILURE
    assert decide(policy, "a", hosts(a=READY)).state is READY
    assert decide(policy, "a", hosts(a=CONNECTING)).state is CONNECTING


def test_round_robin_connects_an_idle_host_again():
    decision = decide(RoundRobin(channel_control()), "ab", hosts(a=READY, b=IDLE))
    assert decision.connect == ("b",)


@pytest.mark.parametrize("note", ["", 'EDS resource "x": does not exist'])
def test_round_robin_without_endpoints_fails_with_the_reason(note):
    decision = RoundRobin(channel_control()).decide(PolicyInputs(CONFIG, endpoints=endpoint_set((), note)), 0.0)
    assert decision.state is FAILURE
    assert decision.picker.pick(PickArgs("/s/m")).status.message == (note or "empty address list")


class TestSeveralAddresses:
    """An endpoint with two addresses is one host of the rotation (A61)."""

    ENDPOINTS = Endpoints((Endpoint(("a", "b")),))

    def decide(self, policy, **states):
        return policy.decide(PolicyInputs(CONFIG, hosts=hosts(**states), endpoints=self.ENDPOINTS), 0.0)

    def test_the_first_address_of_an_endpoint_is_tried_alone(self):
        assert self.decide(RoundRobin(channel_control()), a=IDLE, b=IDLE).connect == ("a",)

    def test_the_next_address_is_tried_when_one_fails(self):
        policy = RoundRobin(channel_control())
        decision = self.decide(policy, a=FAILURE, b=IDLE)
        assert decision.connect == ("b",)
        assert decision.state is CONNECTING

    def test_an_endpoint_has_failed_when_all_addresses_have(self):
        policy = RoundRobin(channel_control())
        self.decide(policy, a=FAILURE, b=IDLE)
        assert self.decide(policy, a=FAILURE, b=FAILURE).state is FAILURE

    def test_an_endpoint_has_one_turn_however_many_addresses(self):
        policy = RoundRobin(channel_control())
        both = Endpoints((Endpoint(("a", "b")), Endpoint(("c",))))
        its_hosts = {name: FakeHost(name, READY) for name in "abc"}
        picker = policy.decide(PolicyInputs(CONFIG, hosts=its_hosts, endpoints=both), 0.0).picker
        assert sorted(picked(picker, 4)) == ["a", "a", "c", "c"]


def test_an_ejected_host_of_round_robin_counts_as_failed_and_stays_connected():
    decision = RoundRobin(channel_control()).decide(
        PolicyInputs(CONFIG, hosts=hosts(a=READY, b=READY), ejected=frozenset("a"), endpoints=endpoint_set("ab")), 0.0
    )
    assert set(picked(decision.picker, 4)) == {"b"}
    assert "a" in decision.hosts


class TestTheSamePicker:
    """A picker is kept while none of its hosts has news, so that no policy above has to decide."""

    def step(self, policy, its, *news):
        return policy.decide(
            PolicyInputs(CONFIG, {}, its, endpoints=endpoint_set(its), news=frozenset(news)), 0.0
        ).picker

    def test_an_added_host_that_is_not_ready_keeps_the_round_robin_picker(self):
        policy, its = RoundRobin(channel_control()), hosts(a=READY)
        before = self.step(policy, its, "a")
        assert self.step(policy, {**its, **hosts(b=IDLE)}) is before
        assert self.step(policy, {**its, **hosts(b=CONNECTING)}, "b") is before

    def test_a_host_that_is_ready_again_makes_a_new_round_robin_picker(self):
        policy, its = RoundRobin(channel_control()), hosts(a=READY)
        assert self.step(policy, its, "a") is not self.step(policy, its, "a")
