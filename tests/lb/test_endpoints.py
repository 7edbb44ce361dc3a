"""An endpoint with several addresses connects to one of them (A61); tested by values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost

from trxds.core.happy_eyeballs import interleave_families
from trxds.lb.endpoint_list import EndpointState


class Looking:
    """An endpoint with its hosts and a clock; the hosts that it requests are leased and connected."""

    def __init__(self, addresses="abc", **more):
        self.endpoint = EndpointState(tuple(addresses), **more)
        self.hosts = {}
        self.now = 10.0

    def look(self, ejected="", **states):
        for address, state in states.items():
            self.hosts[address] = FakeHost(address, state)
        for _ in range(2):  # as a node does: once more when there are new hosts
            for address in self.endpoint.wanted:
                self.hosts.setdefault(address, FakeHost(address))
            state = self.endpoint.update(self.hosts, self.now, frozenset(ejected))
        for address in self.endpoint.connect:
            self.hosts[address].request_connection()
        return state

    @property
    def wake_at(self):
        return self.endpoint.wake_at(self.hosts, self.now)


def test_the_first_address_of_an_endpoint_is_tried_alone_for_250_milliseconds():
    looking = Looking()
    assert looking.look() is CONNECTING
    assert looking.endpoint.wanted == ("a",)
    assert looking.wake_at == 10.25


def test_the_next_address_is_tried_too_after_250_milliseconds():
    looking = Looking()
    looking.look()
    looking.now = 10.25
    looking.look()
    assert looking.endpoint.wanted == ("a", "b")
    assert looking.wake_at == 10.5


def test_the_last_address_of_an_endpoint_needs_no_timer():
    looking = Looking("ab")
    looking.look()
    looking.now = 10.25
    looking.look()
    assert looking.wake_at == math.inf


def test_a_failed_address_makes_the_next_one_be_tried_at_once():
    looking = Looking()
    looking.look()
    assert looking.look(a=FAILURE) is CONNECTING
    assert looking.endpoint.connect == ("b",)


def test_a_failure_of_an_earlier_address_starts_no_further_one():
    looking = Looking()
    looking.look()
    looking.now = 10.25
    looking.look()
    looking.look(a=FAILURE)
    assert looking.endpoint.wanted == ("a", "b")


def test_an_address_that_is_connected_already_is_leased_and_no_other_tried():
    endpoint, elsewhere = EndpointState(("a", "b")), {"b": FakeHost("b", READY)}
    assert endpoint.update({}, 10.0, lookup=elsewhere.get) is CONNECTING
    assert (endpoint.wanted, endpoint.connect) == (("b",), ())
    assert endpoint.update(elsewhere, 10.0, lookup=elsewhere.get) is READY
    assert endpoint.wanted == ("b",)


def test_an_address_whose_host_is_in_backoff_is_skipped():
    looking = Looking()
    looking.hosts = {"a": FakeHost("a", FAILURE), "b": FakeHost("b", FAILURE)}
    looking.look()
    assert looking.endpoint.connect == ("c",)


def test_an_address_that_was_not_leased_yet_is_updated_without_delay():
    looking = Looking()
    looking.endpoint.update({"a": FakeHost("a", FAILURE)}, looking.now)
    assert looking.wake_at == looking.now


@pytest.mark.parametrize("winner", "abc")
def test_the_first_ready_address_wins_and_the_others_are_released(winner):
    looking = Looking()
    for _ in range(3):
        looking.look()
        looking.now += 0.25
    assert looking.look(**{winner: READY}) is READY
    assert looking.endpoint.ready.address == winner
    assert looking.endpoint.wanted == (winner,)
    assert looking.wake_at == math.inf


def test_an_address_that_is_connected_already_is_used_when_it_is_tried():
    looking = Looking("ab")
    looking.hosts = {"a": FakeHost("a", FAILURE), "b": FakeHost("b", READY)}
    assert looking.look() is READY


def test_an_endpoint_has_failed_when_every_address_has():
    looking = Looking("ab")
    looking.look()
    assert looking.look(a=FAILURE) is CONNECTING
    assert looking.look(b=FAILURE) is FAILURE
    assert "b: refused" in looking.endpoint.error.message


def test_no_address_is_tried_twice_in_the_first_pass():
    looking = Looking("ab")
    looking.look()
    looking.look(a=FAILURE)
    looking.look(a=IDLE)
    assert looking.endpoint.connect == ()


def test_a_failed_endpoint_retries_each_address_after_its_backoff_and_stays_failed():
    looking = Looking("ab")
    looking.look()
    looking.look(a=FAILURE)
    looking.look(b=FAILURE)
    assert looking.look(a=IDLE) is FAILURE
    assert looking.endpoint.connect == ("a",)
    assert looking.look(b=IDLE) is FAILURE
    assert looking.endpoint.connect == ("b",)
    assert looking.look(b=READY) is READY


def test_a_lost_connection_begins_another_pass_over_the_addresses():
    looking = Looking("ab")
    looking.look()
    looking.look(a=FAILURE)
    looking.look(b=READY)
    assert looking.look(a=IDLE, b=IDLE) is CONNECTING
    assert looking.endpoint.connect == ("a",)


def test_a_lazy_endpoint_is_idle_until_exit_idle_and_after_a_lost_connection():
    looking = Looking("a", lazy=True)
    assert looking.look() is IDLE
    assert looking.endpoint.wanted == ()
    looking.endpoint.exit_idle()
    assert looking.look() is CONNECTING
    assert looking.look(a=READY) is READY
    assert looking.look(a=IDLE) is IDLE
    assert looking.endpoint.wanted == looking.endpoint.connect == ()


def test_an_endpoint_whose_host_is_ejected_counts_as_failed_and_keeps_its_lease():
    looking = Looking("ab")
    looking.look(a=READY)
    assert looking.look(ejected="a") is FAILURE
    assert looking.endpoint.wanted == ("a",)
    assert looking.look() is READY


class TestAnotherList:
    def test_a_new_address_list_keeps_a_connection_to_an_address_that_stays(self):
        looking = Looking("ab")
        looking.look(a=READY)
        looking.endpoint = looking.endpoint.with_addresses(("c", "a"))
        assert looking.look() is READY
        assert looking.endpoint.wanted == ("a",)

    def test_a_new_address_list_without_the_connected_address_connects_at_once(self):
        looking = Looking("a", lazy=True)
        looking.endpoint.exit_idle()
        looking.look(a=READY)
        looking.endpoint = looking.endpoint.with_addresses(("c",))
        assert looking.look() is CONNECTING

    def test_an_address_that_was_connecting_before_a_new_address_list_is_used_when_it_is_ready(self):
        looking = Looking("ab")
        looking.look(a=CONNECTING)
        looking.endpoint = looking.endpoint.with_addresses(("c", "b", "a"))
        assert looking.look(c=CONNECTING) is CONNECTING
        assert looking.look(a=READY) is READY
        assert looking.endpoint.wanted == ("a",)

    def test_an_idle_endpoint_stays_idle_with_a_new_address_list(self):
        assert EndpointState(("a",), lazy=True).with_addresses(("b",)).state is IDLE

    def test_a_failed_endpoint_stays_failed_with_a_new_address_list_until_one_is_ready(self):
        looking = Looking("a")
        looking.look(a=FAILURE)
        looking.look(a=FAILURE)
        looking.endpoint = looking.endpoint.with_addresses(("b", "c"))
        assert looking.look() is FAILURE
        assert looking.endpoint.connect == ("b",)
        assert looking.look(b=READY) is READY

    def test_an_equal_address_list_changes_nothing(self):
        endpoint = EndpointState(("a", "b", "c"))
        assert endpoint.with_addresses(("a", "b", "c")) is endpoint


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        (("1", "2", "[3]", "[4]"), ("1", "[3]", "2", "[4]")),
        (("[1]", "[2]", "[3]", "4"), ("[1]", "4", "[2]", "[3]")),
        (("1", "2", "3"), ("1", "2", "3")),
    ],
)
def test_address_families_take_turns(addresses, order):
    assert interleave_families(addresses) == order


STATES = st.sampled_from([IDLE, CONNECTING, READY, FAILURE])
STEPS = st.lists(st.tuples(st.dictionaries(st.sampled_from("abc"), STATES), st.sampled_from([0.0, 0.1, 0.25, 60.0])))


@given(STEPS, st.booleans())
def test_an_endpoints_state_follows_its_hosts_in_any_sequence_of_states(steps, lazy):
    looking = Looking(lazy=lazy)
    failed = False
    for states, passed in steps:
        looking.endpoint.exit_idle()
        looking.now += passed
        state = looking.look(**{name: its for name, its in states.items() if name in looking.endpoint.wanted})
        endpoint = looking.endpoint
        assert set(endpoint.connect) <= set(endpoint.wanted) <= set("abc")
        assert (state is READY) == (endpoint.ready is not None)
        assert not failed or state in (FAILURE, READY)  # a failure lasts until one is READY (A62)
        assert (state is IDLE) <= lazy
        failed = state is FAILURE
    for _ in "abcd":  # and when they answer, one of them is used in the end
        looking.endpoint.exit_idle()
        looking.now += 0.25
        state = looking.look(**dict.fromkeys(looking.endpoint.wanted, READY))
    assert state is READY
