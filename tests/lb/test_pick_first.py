"""pick_first uses one connection (A61, A62, A113); tested by values."""

from collections import Counter
from dataclasses import replace

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, channel_control, endpoint_set, hosts, picked

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Fail, PickArgs
from trxds.lb.pick_first import PickFirst
from trxds.lb.policy import PolicyInputs
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig

CONFIG = PickFirstConfig()


class Tried:
    """A policy with its configuration; `pick_events` are the events of its picks."""

    def __init__(self, names="abc", seed=1, elsewhere=None, **more):
        self.pick_events = set()
        self.elsewhere = elsewhere or {}  # hosts that others in the channel have leased
        around = replace(channel_control(seed), notify_policy=self.pick_events.add, lookup=self.elsewhere.get)
        self.policy = PickFirst(around)
        self.config = PickFirstConfig(**more)
        self.endpoints = endpoint_set(names)

    def decide(self, **states):
        pick_events = frozenset(self.pick_events)
        self.pick_events.clear()
        return self.policy.decide(
            PolicyInputs(self.config, {}, hosts(**states), pick_events, endpoints=self.endpoints), 0.0
        )


def test_pick_first_connects_to_the_first_address_alone():
    decision = Tried().decide()
    assert decision.state is CONNECTING
    assert decision.hosts == decision.connect == ("a",)
    assert decision.picker.pick(PickArgs("/s/m")) is QUEUE


def test_pick_first_tries_the_next_address_after_250_milliseconds():
    assert Tried().decide(a=CONNECTING).wake_at == 0.25


def test_pick_first_sends_all_rpcs_to_the_ready_address():
    tried = Tried()
    decision = tried.decide(a=READY)
    assert decision.state is READY
    assert set(picked(decision.picker, 5)) == {"a"}
    assert decision.hosts == ("a",)


def test_pick_first_uses_the_next_address_when_the_first_cannot_be_reached():
    tried = Tried()
    tried.decide(a=FAILURE)
    assert picked(tried.decide(a=FAILURE, b=READY).picker) == ["b"]


def test_pick_first_fails_once_all_addresses_have_failed_and_until_one_is_ready():
    tried = Tried("ab")
    decision = tried.decide(a=FAILURE, b=FAILURE)
    assert decision.state is FAILURE
    result = decision.picker.pick(PickArgs("/s/m"))
    assert isinstance(result, Fail) and "b: refused" in result.status.message
    assert tried.decide(a=IDLE, b=CONNECTING).state is FAILURE
    assert tried.decide(a=READY, b=CONNECTING).state is READY


def test_pick_first_is_idle_when_its_connection_is_lost():
    tried = Tried()
    tried.decide(a=READY)
    decision = tried.decide(a=IDLE)
    assert decision.state is IDLE
    assert decision.hosts == decision.connect == ()


def test_a_pick_while_pick_first_is_idle_waits_and_makes_it_connect():
    tried = Tried()
    tried.decide(a=READY)
    assert tried.decide(a=IDLE).picker.pick(PickArgs("/s/m")) is QUEUE
    decision = tried.decide(a=IDLE)
    assert decision.state is CONNECTING
    assert decision.connect == ("a",)


def test_pick_first_tries_all_addresses_of_all_endpoints_in_order():
    policy = PickFirst(channel_control())
    both = Endpoints((Endpoint(("a", "b")), Endpoint(("c",))), "", (1, 1))
    decision = policy.decide(PolicyInputs(CONFIG, hosts=hosts(a=FAILURE, b=FAILURE, c=IDLE), endpoints=both), 0.0)
    assert decision.hosts == ("a", "b", "c")


class TestReadyAlready:
    """A host that another user of the channel has connected, a session for example, is used at once (A61)."""

    def test_pick_first_uses_an_address_that_is_ready_already_and_connects_none(self):
        tried = Tried(elsewhere=hosts(c=READY))
        first = tried.decide()
        assert first.hosts == ("c",) and first.connect == ()
        decision = tried.decide(c=READY)
        assert decision.state is READY and picked(decision.picker) == ["c"]
        assert decision.hosts == ("c",) and decision.connect == ()

    def test_pick_first_uses_the_first_of_several_ready_addresses(self):
        assert Tried(elsewhere=hosts(c=READY, b=READY)).decide().hosts == ("b",)

    @pytest.mark.parametrize("state", [IDLE, CONNECTING, FAILURE])
    def test_pick_first_does_not_prefer_an_address_that_is_not_ready(self, state):
        decision = Tried(elsewhere=hosts(c=state)).decide()
        assert decision.hosts == decision.connect == ("a",)

    def test_pick_first_looks_for_a_ready_address_before_each_attempt(self):
        tried = Tried()
        tried.decide(a=CONNECTING)
        tried.elsewhere.update(hosts(c=READY))
        assert tried.decide(a=FAILURE).hosts == ("a", "c")
        assert picked(tried.decide(a=FAILURE, c=READY).picker) == ["c"]

    def test_pick_first_uses_another_ready_address_when_its_connection_is_lost(self):
        tried = Tried(elsewhere=hosts(a=READY))
        tried.decide(a=READY)
        del tried.elsewhere["a"]
        tried.elsewhere.update(hosts(b=READY))
        tried.decide(a=IDLE).picker.pick(PickArgs("/s/m"))
        assert tried.decide().hosts == ("b",)

    def test_pick_first_skips_a_ready_address_lost_before_its_lease(self):
        tried = Tried(elsewhere=hosts(c=READY))
        assert tried.decide().hosts == ("c",)
        tried.elsewhere.clear()
        decision = tried.decide(c=CONNECTING)
        assert decision.hosts == decision.connect == ("a",)


def test_pick_first_keeps_its_connection_if_a_new_list_has_the_address():
    tried = Tried()
    tried.decide(a=READY)
    tried.endpoints = endpoint_set("xya")
    decision = tried.decide(a=READY)
    assert decision.hosts == ("a",)
    assert picked(decision.picker) == ["a"]


def test_an_address_that_stays_is_leased_until_its_turn_comes_again_and_so_keeps_its_backoff():
    tried = Tried("ab")
    tried.decide(a=FAILURE, b=FAILURE)
    tried.endpoints = endpoint_set("xb")
    decision = tried.decide(b=FAILURE)
    assert (set(decision.hosts), decision.connect) == ({"x", "b"}, ("x",))
    # IDLE after its backoff: it does not overtake the address before it.
    assert tried.decide(x=CONNECTING, b=IDLE).connect == ()


def test_an_address_that_stays_is_released_when_another_one_is_connected():
    tried = Tried("ab")
    tried.decide(a=FAILURE, b=FAILURE)
    tried.endpoints = endpoint_set("xb")
    tried.decide(b=FAILURE)
    assert tried.decide(x=READY, b=FAILURE).hosts == ("x",)


def test_pick_first_uses_an_ejected_host():
    inputs = PolicyInputs(CONFIG, hosts=hosts(a=READY), ejected=frozenset("a"), endpoints=endpoint_set("a"))
    decision = PickFirst(channel_control()).decide(inputs, 0.0)
    assert picked(decision.picker) == ["a"]


@pytest.mark.parametrize("note", ["", "no localities"])
def test_pick_first_without_endpoints_fails_with_the_reason(note):
    tried = Tried("")
    tried.endpoints = endpoint_set("", note)
    decision = tried.decide()
    assert decision.state is FAILURE
    assert decision.picker.pick(PickArgs("/s/m")).status.message == (note or "empty address list")


class TestShuffling:
    def test_pick_first_without_shuffling_keeps_the_lists_order(self):
        assert {Tried(seed=seed).decide().connect for seed in range(20)} == {("a",)}

    def test_shuffling_may_put_any_address_first(self):
        assert {Tried(seed=seed, shuffle=True).decide().connect for seed in range(30)} == {("a",), ("b",), ("c",)}

    def test_endpoints_without_weights_are_shuffled_too(self):
        config, ab = PickFirstConfig(shuffle=True), Endpoints(tuple(endpoint_set("ab")))
        first = {
            PickFirst(channel_control(seed)).decide(PolicyInputs(config, endpoints=ab), 0.0).hosts[0]
            for seed in range(30)
        }
        assert first == {"a", "b"}

    def test_shuffled_addresses_keep_their_order_until_an_update(self):
        tried = Tried(shuffle=True)
        assert len({tried.decide().connect for _ in range(20)}) == 1

    def test_shuffling_puts_heavier_endpoints_first_more_often(self):
        weighted = PolicyInputs(PickFirstConfig(shuffle=True), endpoints=endpoint_set("ab", weights=(3, 1)))
        firsts = Counter(PickFirst(channel_control(seed)).decide(weighted, 0.0).connect[0] for seed in range(2000))
        assert 1400 < firsts["a"] < 1600
