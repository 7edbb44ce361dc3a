"""The hosts of a cookie are connected in a race if one does not answer (RFC 8305, A75); tested by values."""

import math

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY
from support.session_policy import DRAINING, HEALTHY, QUEUED, UNKNOWN, Story, endpoint

from trxds.lb.override_host.address_race import MAX_RACES
from trxds.lb.pick import QUEUE, Override, PickArgs, Trace


def waiting(*cookie, others=("other",), **settings):
    """Return a policy with an RPC that waits for its cookie's hosts; the first of them is CONNECTING."""
    story = Story(
        *(endpoint(name, health=DRAINING) for name in cookie), *(endpoint(name) for name in others), **settings
    )
    assert story.pick(*cookie) == QUEUED
    story.step()
    return story


def at(story, now):
    story.now = now
    story.step()


def connecting(story):
    return {address for address, host in story.pool.items() if host.state is CONNECTING}


def test_the_first_host_of_a_cookie_is_connected_alone_for_250_milliseconds():
    story = waiting("a", "b", "c")
    assert connecting(story) == {"a"}
    assert story.decision.wake_at == 0.25
    at(story, 0.2499)
    assert connecting(story) == {"a"}


def test_each_further_host_of_a_cookie_is_connected_250_milliseconds_later():
    story = waiting("a", "b", "c")
    at(story, 0.25)
    assert connecting(story) == {"a", "b"}
    assert story.decision.wake_at == 0.5
    at(story, 0.5)
    assert connecting(story) == {"a", "b", "c"}
    at(story, 0.75)
    assert story.decision.wake_at > 1000, "there is nobody left whose turn it could be"


def test_a_decision_in_between_does_not_connect_the_next_host_of_a_cookie_early():
    story = waiting("a", "b", "c")
    at(story, 0.25)
    at(story, 0.3)
    assert connecting(story) == {"a", "b"}


def test_a_race_connects_hosts_that_the_child_has_left_idle():
    story = Story(endpoint("a"), endpoint("b"))
    for name in "ab":
        story.becomes(name, IDLE)
    assert story.pick("a", "b") == QUEUED
    story.step()
    assert connecting(story) == {"a"}
    at(story, 0.25)
    assert connecting(story) == {"a", "b"}


def test_a_first_host_that_connects_already_is_alone_for_250_milliseconds_too():
    story = Story(endpoint("a"), endpoint("b", health=DRAINING))
    story.becomes("a", CONNECTING)
    assert story.pick("a", "b") == QUEUED
    story.step()
    assert connecting(story) == {"a"}
    at(story, 0.25)
    assert connecting(story) == {"a", "b"}


def test_a_failed_host_of_a_cookie_makes_the_next_one_connect_at_once():
    story = waiting("a", "b", "c")
    at(story, 0.25)
    story.becomes("b", FAILURE)
    assert connecting(story) == {"a", "c"}


def test_an_rpc_whose_cookie_has_one_host_waits_for_it():
    story = waiting("a")
    at(story, 10.0)
    assert story.decision.wake_at > 1000
    assert connecting(story) == {"a"}


def test_the_first_ready_host_of_a_cookie_serves_and_the_others_are_released():
    story = waiting("a", "b", "c")
    at(story, 0.25)
    at(story, 0.5)
    story.becomes("b", READY)
    assert story.pick("a", "b", "c")[0] == "b"
    assert story.acquired == {"a", "b"}, "a by the RPC that waited for it, until the idle timeout"
    assert "c" not in story.pool


def test_ready_hosts_are_used_in_the_cookies_order():
    story = waiting("a", "b")
    at(story, 0.25)
    for name in "ba":
        story.pool[name].state = READY
    story.step()
    assert story.pick("a", "b")[0] == "a"
    assert story.acquired == {"a"}


def test_a_host_that_connects_in_time_leaves_the_next_one_unconnected():
    story = waiting("a", "b")
    story.now = 0.1
    story.becomes("a", READY)
    assert story.pick("a", "b")[0] == "a"
    at(story, 0.25)
    assert story.acquired == {"a"}


def test_the_winner_of_a_race_stays_leased_until_the_rpc_picks_again():
    story = waiting("a", "b")
    at(story, 0.25)
    story.becomes("b", READY)
    story.step()
    assert story.acquired == {"a", "b"}


def test_a_loser_of_a_race_that_another_session_uses_stays_leased():
    story = waiting("a", "b")
    at(story, 0.25)
    assert story.pick("b") == QUEUED
    story.becomes("a", READY)
    assert story.acquired == {"a", "b"}


def test_a_loser_of_a_race_that_a_session_used_before_it_stays_leased():
    story = Story(endpoint("a", health=DRAINING), endpoint("b", health=DRAINING), endpoint("other"))
    assert story.pick("b") == QUEUED
    story.step()
    for state in (READY, FAILURE):
        story.becomes("b", state)
    assert story.pick("a", "b") == QUEUED
    story.step()
    story.becomes("b", IDLE)
    at(story, 0.25)
    assert connecting(story) == {"a", "b"}
    story.becomes("a", READY)
    assert story.acquired == {"a", "b"}


def test_a_host_that_two_races_wait_for_is_released_with_the_last_one():
    story = waiting("a", "x", "c", others=("other", "b"))
    story.becomes("b", CONNECTING)
    assert story.pick("b", "c") == QUEUED
    story.step()
    at(story, 0.25)
    assert "c" in story.acquired
    story.becomes("b", READY)
    assert "c" in story.acquired
    story.becomes("a", READY)
    assert "c" not in story.acquired


def test_a_race_does_not_connect_a_host_whose_health_status_is_not_allowed():
    statuses = frozenset({UNKNOWN, DRAINING})
    story = Story(endpoint("a", health=DRAINING), endpoint("b", health=HEALTHY), statuses=statuses)
    story.becomes("b", IDLE)
    assert story.pick("a", "b") == QUEUED
    story.step()
    at(story, 0.25)
    assert connecting(story) == {"a"}


def test_a_waiting_rpc_starts_one_race_however_often_it_picks():
    # Each event causes a decision, each decision a picker, and each picker another pick of all waiting RPCs.
    story = waiting("a", "b")
    for now in (0.1, 0.25, 0.3, 5.0):
        at(story, now)
        story.pick("a", "b")
        assert not story.pick_events


def test_a_race_ends_when_no_host_is_connecting():
    story = waiting("a", "b", idle_timeout=60.0)
    at(story, 0.25)
    for name in "ab":
        story.becomes(name, FAILURE)
    assert story.hosts("a", "b") == {"other"}
    for name in "ab":
        story.becomes(name, IDLE)
    assert connecting(story) == set()
    for now in (60.5, 65.5):  # the second sweep takes what an RPC has waited for
        at(story, now)
    assert story.acquired == set() and story.decision.wake_at == math.inf


def test_a_race_whose_hosts_have_all_failed_may_begin_again():
    story = waiting("a", "b")
    at(story, 0.25)
    for name in "ab":
        story.becomes(name, FAILURE)
    for name in "ab":
        story.becomes(name, IDLE)
    assert story.pick("a", "b") == QUEUED
    story.step()
    assert connecting(story) == {"a"}
    at(story, 0.5)
    assert connecting(story) == {"a", "b"}


def test_a_race_forgets_a_host_that_leaves_the_cluster():
    story = waiting("a", "b")
    at(story, 0.25)
    story.update(endpoint("other"))
    assert story.acquired == set()
    assert story.decision.wake_at == math.inf


def test_a_race_ends_although_one_of_its_hosts_has_just_left_the_cluster():
    story = waiting("a", "b")
    at(story, 0.25)
    story.pool["a"].state = READY
    story.update(endpoint("a"), endpoint("other"))
    assert story.acquired == {"a"}
    assert story.pick("a", "b")[0] == "a"


@pytest.mark.parametrize("more", [0, 5])
def test_cookies_above_the_bound_of_races_wait_for_their_first_host(more):
    names = [f"h{number}" for number in range(MAX_RACES + more)]
    story = Story(*(endpoint(name, health=DRAINING) for name in ("slow", *names)), endpoint("other"))
    for name in names:
        story.pick("slow", name)
        story.step()
    at(story, 0.25)
    assert len(connecting(story)) == 1 + MAX_RACES
    story.pick("slow", names[-1])
    assert not story.pick_events


def explained(story):
    trace = Trace()
    args = PickArgs("/s/m", override=Override(("a", "b")), now=story.now, trace=trace)
    assert story.decision.picker.pick(args) is QUEUE
    return trace.notes[-1]


def test_an_explanation_names_the_next_host_of_a_race():
    story = waiting("a", "b")
    assert (explained(story).waits_for, explained(story).address) == ("a to connect", "a")
    assert explained(story).why.endswith("; b is connected too if that takes more than 250 ms")
    at(story, 0.25)
    assert explained(story).address == "a"
    assert "250 ms" not in explained(story).why


def test_an_explanation_names_the_next_host_of_a_race_that_has_not_begun():
    story = Story(endpoint("a", health=DRAINING), endpoint("b", health=DRAINING), endpoint("other"))
    assert explained(story).waits_for == "a to connect"
    assert explained(story).why.endswith("; b is connected too if that takes more than 250 ms")
