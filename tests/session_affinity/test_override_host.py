"""override_host is tested by values where the C++ client has no test; tests/grfc/test_a55.py has its tests."""

import math

import pytest
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost
from support.session_policy import DRAINING, HEALTHY, QUEUED, UNKNOWN, Story, endpoint, three

from trxds.core.status import unavailable
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE, Complete, Fail, Override, PickArgs, transient_failure_picker


def test_an_rpc_without_a_cookie_goes_to_the_childs_host_which_is_recorded():
    story = Story(*three())
    assert sorted(story.pick() for _ in range(3)) == [("a", "a"), ("b", "b"), ("c", "c")]


class TestStates:
    def test_a_session_host_that_recovers_is_picked_again(self):
        story = Story(*three())
        story.becomes("b", FAILURE)
        story.becomes("b", READY)
        assert story.hosts("b") == {"b"}

    def test_an_rpc_that_waits_for_a_session_host_leases_it(self):
        story = Story(*three())
        story.becomes("b", CONNECTING)
        story.pick("b")
        assert story.acquired == {"b"}

    def test_a_session_without_a_host_fails_with_the_childs_error(self):
        story = Story(endpoint("a"))
        story.becomes("a", FAILURE)
        assert story.decision.state is FAILURE
        assert (
            story.decision.picker.pick(PickArgs("/s/m", override=Override(("a",))))
            == transient_failure_picker(None).result
        )

    def test_each_decision_of_override_host_has_a_new_picker(self):
        story = Story(*three())
        before = story.decision.picker
        story.step()
        assert story.decision.picker is not before


class TestSeveralHostsInACookie:
    """A READY host is preferred to an IDLE one, that to a CONNECTING one, and that to one without a lease."""

    ORDER = ("ready", "idle", "connecting", "none", "failed")

    def story(self, *names):
        health = {"none": DRAINING}
        story = Story(*(endpoint(name, health=health.get(name, HEALTHY)) for name in names), endpoint("other"))
        for name, state in (("idle", IDLE), ("connecting", CONNECTING), ("failed", FAILURE)):
            if name in names:
                story.becomes(name, state)
        return story

    @pytest.mark.parametrize("position", range(3))
    def test_a_ready_host_is_picked_wherever_it_is_in_the_cookie(self, position):
        cookie = ["idle", "connecting", "none"]
        cookie.insert(position, "ready")
        assert self.story(*cookie).pick(*cookie)[0] == "ready"

    @pytest.mark.parametrize(
        ("cookie", "waited_for"),
        [
            (("connecting", "none", "idle"), "idle"),
            (("none", "connecting"), "connecting"),
            (("failed", "none"), "none"),
            (("failed", "connecting"), "connecting"),
        ],
    )
    def test_a_session_without_a_ready_host_waits_for_the_best_state(self, cookie, waited_for):
        story = self.story(*cookie)
        assert story.pick(*cookie) == QUEUED
        assert story.acquired == {waited_for}

    def test_the_cookies_first_host_of_equal_states_is_picked(self):
        assert Story(*three()).pick("c", "a") == ("c", "c")

    def test_the_child_picks_when_all_hosts_of_the_cookie_have_failed(self):
        assert self.story("failed").hosts("failed", "unknown") == {"other"}


class TestDraining:
    def test_a_draining_host_outside_override_host_status_loses_its_session(self):
        statuses = frozenset({UNKNOWN, HEALTHY})
        story = Story(*three(), statuses=statuses)
        story.pick("b")
        story.update(*three(b=DRAINING), statuses=statuses)
        assert story.hosts("b") == {"a", "c"}
        assert "b" not in story.pool


def test_an_empty_set_of_statuses_overrides_nothing():
    story = Story(*three(), statuses=frozenset())
    assert story.hosts("b") == {"a", "b", "c"}


class TestSeveralAddresses:
    """The cookie of an endpoint with several addresses has all of them, the one in use first (A61)."""

    def story(self):
        story = Story(endpoint("a", "a2"), endpoint("b", "b2"))
        for second in ("a2", "b2"):
            story.becomes(second, IDLE)
        return story

    def test_the_connected_address_of_an_endpoint_is_picked_and_first_in_its_cookie(self):
        assert self.story().pick("a", "a2") == ("a", "a,a2")

    def test_a_childs_pick_records_the_rotated_address_list(self):
        story = self.story()
        assert {story.pick()[1] for _ in range(4)} == {"a,a2", "b,b2"}


class TestLeases:
    def test_a_childs_pick_for_a_session_leases_the_host(self):
        story = Story(endpoint("a"))
        story.pick()
        assert story.acquired == {"a"}

    def test_a_pick_without_the_session_filter_leases_no_host(self):
        story = Story(*three())
        story.hosts_without_filter()
        assert story.acquired == set()

    def test_a_session_host_stays_leased_after_the_child_released_it(self):
        story = Story(*three(), idle_timeout=60.0)
        story.pick("b")
        story.update(*three(b=DRAINING), idle_timeout=60.0)
        story.policy._table.sweep_idle(59.9)
        assert story.hosts("b") == {"b"}
        story.policy._table.sweep_idle(60.0)
        assert "b" not in story.pool

    def test_every_use_restarts_the_idle_timeout(self):
        story = Story(*three(), idle_timeout=60.0)
        story.pick("b")
        story.now = 50.0
        story.pick("b")
        story.update(*three(b=DRAINING), idle_timeout=60.0)
        story.policy._table.sweep_idle(60.0)
        assert "b" in story.pool

    def test_an_update_releases_hosts_that_are_idle_by_then(self):
        story = Story(*three(), idle_timeout=60.0)
        story.pick("b")
        story.now = 59.0
        story.update(*three(b=DRAINING), idle_timeout=60.0)
        assert story.acquired == {"b"} and story.decision.wake_at == 60.0
        story.now = 61.0
        story.update(*three(a=DRAINING, b=DRAINING), idle_timeout=60.0)
        assert story.acquired == set()

    def test_a_sweep_is_scheduled_only_while_a_session_leases_a_host(self):
        story = Story(*three(), idle_timeout=60.0)
        assert story.decision.wake_at == math.inf
        story.pick("b")
        assert story.pick_events, "nobody would wake the policy to sweep"
        story.step()
        assert story.decision.wake_at == 60.0
        story.now = 60.0
        story.step()
        assert story.acquired == set() and story.decision.wake_at == math.inf

    def test_only_the_first_session_lease_schedules_the_sweep(self):
        story = Story(*three())
        story.pick("a")
        story.pick_events.clear()
        story.pick("a")
        story.pick("b")
        assert not story.pick_events


def test_a_childs_host_without_an_entry_gets_no_cookie():
    story = Story(endpoint("a"))
    story.pool["unknown"] = FakeHost("unknown", READY)
    story.leased = {"unknown"}
    story.step()
    assert story.pick() == ("unknown", "")
    assert story.acquired == set()


def test_the_state_of_override_host_is_its_childs():
    story = Story(*three())
    assert story.decision.state is READY
    for name in "abc":
        story.becomes(name, FAILURE)
    assert story.decision.state is FAILURE


class TestLeavingAHost:
    """A session that leaves its host on purpose finds another one, even if the child gives that host each time."""

    def story(self, *others, **settings):
        story = Story(endpoint("a"), *others, **settings)
        story.leased = {"a"}  # the other hosts stay in the pool, and READY
        story.step()
        return story

    def leave(self, story, host="a"):
        """Return the host that a session gets that leaves this one; None if there is no other."""
        result = story.result(Override(avoid=host))
        if isinstance(result, Fail):
            text = f"the session cannot leave {host}: no other host of its cluster takes new sessions"
            assert result.status == unavailable(text)
            return None
        return QUEUED if result is QUEUE else result.host.address

    def test_the_child_chooses_among_the_others_if_it_gives_one(self):
        story = Story(*three())
        assert [self.leave(story) for _ in range(6)] == ["b", "c"] * 3

    def test_it_fares_like_a_new_session_if_the_child_gives_no_host(self):
        story = self.story()
        story.becomes("a", FAILURE)
        assert story.result(Override(avoid="a")) == story.result(Override())

    def test_it_gets_a_host_that_is_ready(self):
        assert self.leave(self.story(endpoint("b"))) == "b"

    def test_it_gets_no_draining_host(self):
        assert self.leave(self.story(endpoint("b", health=DRAINING))) is None

    def test_it_gets_no_host_whose_status_overrides_exclude(self):
        assert self.leave(self.story(endpoint("b", health=UNKNOWN), statuses=frozenset({HEALTHY}))) is None

    def test_it_gets_no_host_that_does_not_serve(self):
        story = self.story(endpoint("b"))
        story.pool["b"].health = unavailable("not serving")
        assert self.leave(story) is None

    def test_it_waits_for_a_host_that_did_not_serve_before_it_lost_its_connection(self):
        story = self.story(endpoint("b"))
        story.pool["b"].health = unavailable("not serving")
        story.becomes("b", IDLE)
        assert self.leave(story) == QUEUED

    def test_it_waits_for_a_host_that_nobody_has_connected(self):
        story = self.story(endpoint("b"))
        del story.pool["b"]
        assert self.leave(story) == QUEUED
        assert story.acquired == {"b"}

    def test_it_gets_no_ejected_host(self):
        story = self.story(endpoint("b"))
        story.ejected = frozenset({"b"})
        story.step()
        assert self.leave(story) is None

    @pytest.mark.parametrize("address", ["a", "a2"])
    def test_another_address_of_the_host_that_it_leaves_is_no_other_host(self, address):
        assert self.leave(Story(endpoint("a", "a2")), address) is None

    def test_the_childs_pick_of_another_address_of_the_host_is_no_other_host(self):
        story = Story(endpoint("a", "a2"), endpoint("b"))
        story.leased = {"a2"}
        story.step()
        assert self.leave(story) == "b"

    def test_the_host_that_it_leaves_is_no_other_host_after_it_has_left_the_cluster(self):
        story = self.story(endpoint("b"))
        story.endpoints = Endpoints([endpoint("b")])
        story.step()
        assert self.leave(story) == "b"

    def test_it_gets_the_first_address_of_a_host_with_several(self):
        story = self.story(endpoint("b", "b2"))
        assert {self.leave(story) for _ in range(10)} == {"b"}

    def test_it_waits_for_the_first_of_several_hosts_that_are_idle(self):
        story = self.story(endpoint("b"), endpoint("c"))
        for name in "bc":
            story.becomes(name, IDLE)
        assert self.leave(story) == QUEUED
        assert story.to_connect == {"b"}

    def test_a_host_that_other_sessions_use_is_not_leased_again(self):
        story = self.story(endpoint("b"))
        story.pick("b")
        assert self.leave(story) == "b"
        assert story.acquired == {"b"}


class TestStrict:
    """An RPC of a strict session fails if its host cannot be used (Envoy)."""

    def test_a_strict_session_fails_without_a_usable_host(self):
        story = Story(*three())
        story.becomes("b", FAILURE)
        result = story.result(Override(("b", "gone"), strict=True))
        assert isinstance(result, Fail)
        assert result.status == unavailable("none of the session's hosts can be used: b, gone; b: it cannot be reached")

    def test_a_strict_session_waits_for_a_host_that_may_connect(self):
        story = Story(*three())
        story.becomes("b", CONNECTING)
        assert story.result(Override(("b",), strict=True)) is QUEUE

    def test_a_strict_session_without_a_cookie_gets_the_childs_host(self):
        assert isinstance(Story(*three()).result(Override(strict=True)), Complete)


def test_a_further_attempt_does_not_keep_the_host_of_the_one_before():
    story = Story(endpoint("a"))
    override = Override()
    story.result(override)
    assert override.actual_address_list == "a"
    story.update(endpoint("b"))
    story.endpoints = Endpoints()
    story.step()
    story.result(override)
    assert override.actual_address_list == ""
