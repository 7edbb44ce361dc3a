"""ring_hash sends equal hashes to one host (A42, A61, A76); tested by values."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, channel_control, endpoint_set, picked

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Complete, Fail, PickArgs
from trxds.lb.policy import PolicyInputs
from trxds.lb.ring_hash import policy as ring_hash
from trxds.lb.ring_hash.policy import RingHash, aggregate
from trxds.resources.endpoint import Endpoint
from trxds.resources.leaf_policy import RingHash as RingHashConfig

CONFIG = RingHashConfig(64, 4096)


class Ringed:
    """A policy with its hosts, as a node has them: leased hosts exist, and requested ones connect."""

    def __init__(self, names="abc", its_endpoints=None, *, seed=0):
        self.pick_events = set()
        self.hosts = {}
        control = replace(channel_control(), notify_policy=self.pick_events.add, random=Random(seed))
        self.policy = RingHash(control)
        self.endpoints = endpoint_set(names) if its_endpoints is None else its_endpoints
        self.decide()

    def decide(self, ejected="", **states):
        for name, state in states.items():
            self.hosts[name] = FakeHost(name, state)
        pick_events = frozenset(self.pick_events)
        self.pick_events.clear()
        for _ in range(2):
            inputs = PolicyInputs(CONFIG, {}, self.hosts, pick_events, frozenset(ejected), self.endpoints)
            self.decision = self.policy.decide(inputs, 0.0)
            self.hosts = {name: self.hosts.get(name) or FakeHost(name) for name in self.decision.hosts}
        for name in self.decision.connect:
            self.hosts[name].request_connection()
        return self.decision

    def pick(self, hashed):
        return self.decision.picker.pick(PickArgs("/s/m", hash=hashed))

    def order(self, hashed=0):
        """Return the names in the order in which the hash meets them on the ring."""
        picker = self.decision.picker
        return list(dict.fromkeys(picker.keys[owner] for owner in picker.ring.walk(hashed)))

    def all(self, *states):
        """Pick each host once, then put the hosts, in the order of the ring, in these states."""
        for name in self.order():
            self.pick_events.add(name)
        self.decide()
        return self.decide(**dict(zip(self.order(), states, strict=True)))


def test_ring_hash_connects_no_host_before_an_rpc():
    decision = Ringed().decision
    assert decision.state is IDLE
    assert decision.hosts == decision.connect == ()


def test_endpoints_without_weights_have_equal_shares_of_the_ring():
    ringed = Ringed(its_endpoints=Endpoints(tuple(endpoint_set("ab"))))
    assert sorted(Counter(ringed.decision.picker.ring.owners).values()) == [32, 32]


def test_a_ring_hash_pick_connects_its_host_and_waits():
    ringed = Ringed()
    first = ringed.order()[0]
    assert ringed.pick(0) is QUEUE
    assert ringed.decide().connect == (first,)
    assert ringed.decision.state is CONNECTING
    assert ringed.pick(0) is QUEUE
    ringed.decide(**{first: READY})
    assert ringed.pick(0) == Complete(ringed.hosts[first])


def test_equal_hashes_go_to_one_host_and_different_ones_to_others():
    ringed = Ringed()
    ringed.all(READY, READY, READY)
    chosen = [ringed.pick(n * 2**57).host.address for n in range(128)]
    assert chosen == [ringed.pick(n * 2**57).host.address for n in range(128)]
    assert set(chosen) == {"a", "b", "c"}


def test_a_ring_hash_pick_reads_the_hosts_states_live():
    ringed = Ringed("ab")
    picker = ringed.decision.picker
    ringed.all(READY, READY)
    assert picked(picker, hash=0) == [ringed.order()[0]]


def test_a_ring_hash_pick_waits_for_its_host_though_others_are_ready():
    ringed = Ringed()
    ringed.all(CONNECTING, READY, READY)
    assert ringed.pick(0) is QUEUE


def test_ring_hash_goes_on_past_a_failed_host():
    ringed = Ringed()
    ringed.pick(0)
    ringed.decide()
    first, second, _ = ringed.order()
    ringed.decide(**{first: FAILURE})
    assert ringed.pick(0) is QUEUE
    ringed.decide(**{second: READY})
    assert ringed.pick(0) == Complete(ringed.hosts[second])


def test_ring_hash_fails_with_the_hashs_own_hosts_error_when_all_have_failed():
    ringed = Ringed()
    ringed.all(FAILURE, FAILURE, FAILURE)
    result = ringed.pick(0)
    assert isinstance(result, Fail)
    assert f"{ringed.order()[0]}: refused" in result.status.message


def test_a_pick_of_an_older_ring_hash_picker_waits_when_all_have_failed_meanwhile():
    """The policies above may have another priority by then (A56), and their picker comes next (A42)."""
    ringed = Ringed("a")
    ringed.pick(0)
    ringed.decide()
    older = ringed.decision.picker
    ringed.decide(a=FAILURE)
    assert older.pick(PickArgs("/s/m", hash=0)) is QUEUE
    assert isinstance(ringed.pick(0), Fail)


def test_a_lost_host_of_ring_hash_is_idle_until_the_next_pick():
    ringed = Ringed()
    first = ringed.order()[0]
    ringed.pick(0)
    ringed.decide()
    ringed.decide(**{first: READY})
    assert ringed.decide(**{first: IDLE}).state is IDLE
    assert ringed.decision.hosts == ()
    assert ringed.pick(0) is QUEUE
    assert ringed.decide().connect == (first,)


def test_ring_hash_draws_a_missing_hash_and_keeps_it_for_the_next_attempt():
    ringed = Ringed()
    call = PickArgs("/s/m")
    ringed.decision.picker.pick(call)
    drawn = call.hash
    ringed.decision.picker.pick(call)
    assert drawn is not None and call.hash == drawn


@pytest.mark.parametrize(
    ("awake", "endpoints_", "state"),
    [
        ([READY, FAILURE, FAILURE], 3, READY),
        ([FAILURE, FAILURE, CONNECTING], 9, FAILURE),
        ([CONNECTING, FAILURE], 9, CONNECTING),
        ([CONNECTING], 9, CONNECTING),
        ([FAILURE], 9, CONNECTING),
        ([FAILURE], 1, FAILURE),
        ([], 9, IDLE),
    ],
)
def test_the_state_of_ring_hash_is_aggregated_by_a42(awake, endpoints_, state):
    assert aggregate(Counter(awake), endpoints_) is state


def test_a_failing_ring_hash_connects_one_more_host_by_itself():
    ringed = Ringed("abcd")
    ringed.pick(0)
    ringed.decide()
    tried = ringed.order()[:1]
    for expected in (CONNECTING, FAILURE, FAILURE):
        assert ringed.decide(**{tried[-1]: FAILURE}).state is expected
        (new,) = ringed.decision.connect
        assert new not in tried
        tried.append(new)


def test_clients_that_connect_without_an_rpc_begin_at_different_hosts():
    """A117: or all of them would ask the first one."""

    def asked(seed):
        ringed = Ringed(seed=seed)
        ringed.policy.exit_idle()
        (name,) = ringed.decide().connect
        assert ringed.decision.state is CONNECTING
        return name

    assert {asked(seed) for seed in range(20)} == set("abc")


def test_a_failing_ring_hash_goes_on_from_a_random_host():
    def asked(seed):
        ringed = Ringed("abcd", seed=seed)
        ringed.pick_events |= {"a", "b"}
        ringed.decide()
        (name,) = ringed.decide(a=FAILURE, b=FAILURE).connect
        return name

    assert {asked(seed) for seed in range(20)} == set("cd")


def test_the_decision_that_sees_a_failure_wants_the_next_host_already():
    # A node decides again only if a decision wants other hosts.
    ringed = Ringed("ab")
    ringed.pick(0)
    ringed.decide()
    first, second = ringed.order()
    inputs = PolicyInputs(CONFIG, {}, {first: FakeHost(first, FAILURE)}, endpoints=ringed.endpoints)
    assert second in ringed.policy.decide(inputs, 0.0).hosts


def test_ring_hash_tries_the_next_address_of_an_endpoint_after_a_moment():
    ringed = Ringed(its_endpoints=Endpoints((Endpoint(("a", "b")),), "", (1,)))
    ringed.pick(0)
    ringed.decide()
    ringed.decide(a=CONNECTING)
    assert ringed.decision.wake_at == pytest.approx(0.25)


def test_exit_idle_connects_no_host_if_one_is_awake():
    ringed = Ringed()
    ringed.pick_events.add("b")
    ringed.decide()
    ringed.policy.exit_idle()
    assert ringed.decide().hosts == ("b",)


def test_exit_idle_of_a_ring_without_endpoints_connects_nothing():
    ringed = Ringed("")
    ringed.policy.exit_idle()
    assert ringed.decide().hosts == ()


@pytest.mark.parametrize(
    ("names", "text"), [("", "no endpoints"), ("abc", "0 of 3 endpoints READY, 1 CONNECTING, 2 IDLE")]
)
def test_operators_read_the_states_of_the_endpoints(names, text):
    ringed = Ringed(names)
    ringed.pick_events |= set(names[:1])
    ringed.decide()
    inputs = PolicyInputs(CONFIG, {}, ringed.hosts, endpoints=ringed.endpoints)
    assert ringed.policy.describe(inputs, 0.0) == text


def test_ring_hash_connects_no_other_host_while_one_is_connecting():
    ringed = Ringed("abcd")
    ringed.all(FAILURE, FAILURE, CONNECTING, READY)
    ringed.endpoints = endpoint_set("abcdefg")
    ringed.decide(**{ringed.order()[3]: FAILURE})
    assert ringed.decision.connect == ()


def test_ring_hash_goes_on_past_an_ejected_host():
    ringed = Ringed()
    ringed.all(READY, READY, READY)
    first, second, _ = ringed.order()
    ringed.decide(ejected=first)
    assert ringed.pick(0).host.address == second


class TestUpdates:
    def test_a_ring_is_built_again_only_if_keys_or_weights_change(self, monkeypatch):
        built = []
        monkeypatch.setattr(ring_hash, "build_ring", lambda *args: built.append(args) or original(*args))
        ringed = Ringed("ab")
        ringed.all(READY, READY)
        ringed.endpoints = endpoint_set("ab", "another list")
        ringed.decide()
        assert len(built) == 1
        ringed.endpoints = endpoint_set("abc")
        ringed.decide()
        ringed.endpoints = endpoint_set("abc", weights=(2, 1, 1))
        ringed.decide()
        assert len(built) == 3

    def test_new_limits_of_the_ring_hold_for_endpoints_that_stay(self):
        ringed = Ringed("ab")
        inputs = PolicyInputs(RingHashConfig(128, 4096), {}, endpoints=ringed.endpoints)
        assert len(ringed.policy.decide(inputs, 0.0).picker.ring.owners) == 128

    def test_hosts_that_stay_in_the_ring_keep_their_connections(self):
        ringed = Ringed("ab")
        ringed.all(READY, READY)
        ringed.endpoints = endpoint_set("bc")
        assert ringed.decide().hosts == ("b",)
        assert ringed.decision.state is READY

    def test_an_old_ring_hash_picker_may_ask_for_a_removed_host(self):
        ringed = Ringed("ab")
        old = ringed.decision.picker
        ringed.endpoints = endpoint_set("c")
        ringed.decide()
        assert old.pick(PickArgs("/s/m", hash=0)) is QUEUE
        assert ringed.decide().hosts == ()

    def test_the_hash_key_places_an_endpoint_on_the_ring_whatever_its_address(self):
        def keyed(*addresses):
            its = tuple(Endpoint((a,), hash_key=f"key {n}") for n, a in enumerate(addresses))
            return Endpoints(its, "", (1,) * len(its))

        ringed = Ringed(its_endpoints=keyed("a", "b"))
        before = ringed.decision.picker.ring
        ringed.endpoints = keyed("x", "y")
        ringed.decide()
        assert ringed.decision.picker.ring is before
        assert ringed.decision.picker.keys == ("x", "y")

    def test_ring_hash_keeps_a_connection_when_an_endpoints_addresses_change_order(self):
        def both(*addresses):
            return Endpoints((Endpoint(addresses),), "", (1,))

        ringed = Ringed(its_endpoints=both("a", "b"))
        ringed.pick(0)
        ringed.decide()
        ringed.decide(a=READY)
        ringed.endpoints = both("b", "a")
        assert ringed.decide().hosts == ("a",)


@pytest.mark.parametrize("note", ["", "no localities"])
def test_ring_hash_without_endpoints_fails_with_the_reason(note):
    ringed = Ringed(its_endpoints=endpoint_set("", note))
    assert ringed.decision.state is FAILURE
    assert ringed.pick(0).status.message == (note or "empty address list")


original = ring_hash.build_ring
