"""sticky_priority is tested by values: the leaves that run, their pickers, and the leaf that gets an RPC (A55, A56)."""

from dataclasses import replace

import pytest
from msgspec import structs
from support.policies import CONNECTING, FAILURE, IDLE, READY, FakeHost, channel_control
from support.session_policy import ALL, DRAINING, HEALTHY, QUEUED, UNKNOWN, Story, endpoint

from trxds.core.status import unavailable
from trxds.lb.configs import CdsConfig, StickyPriorityConfig
from trxds.lb.outlier_detection.policy import OutlierDetectionPicker
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.lb.pick import QUEUE, Complete, Override, PickArgs, Trace, transient_failure_picker
from trxds.lb.policy import CHILD_RETENTION, PolicyInputs, PolicyState
from trxds.lb.sticky_priority.picker import LeafRequested
from trxds.lb.sticky_priority.policy import REQUEST_GRACE, StickyPriority
from trxds.resolver.snapshot import ClusterConfig, ClusterEntries, ClusterEntry
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Eds
from trxds.resources.endpoint import ClusterLoadAssignment, Locality, LocalityId


class Aggregate:
    """The policy of an aggregate, whose leaves are override_host policies with hosts of their own."""

    def __init__(self, **hosts):
        self.events = set()
        self.policy = StickyPriority(replace(channel_control(), notify_policy=self.events.add))
        self.hosts = hosts
        self.statuses = ALL
        self.reports = {}
        self.clusters = {}

    def start(self, name, state=READY, **hosts):
        """Have the leaf run, with these states of its hosts, None for one that is not connected; others are READY."""
        story = Story(*self.hosts[name], statuses=self.statuses)
        for address, its in hosts.items():
            if its is None:
                del story.pool[address]
            else:
                story.pool[address].state = its
        self.reports[name] = PolicyState(state, story.decision.picker)
        return story

    def at(self, now, **states):
        """Decide with these states of the leaves."""
        for name, state in states.items():
            self.reports[name] = structs.replace(self.reports[name], state=state)
        config = StickyPriorityConfig({name: CdsConfig(name) for name in self.hosts})
        entries = ClusterEntries({name: ClusterEntry(self._cluster(name)) for name in self.hosts})
        events = frozenset(self.events)
        self.events.clear()
        self.inputs = PolicyInputs(config, self.reports, {}, events, endpoints=entries)
        self.decision = self.policy.decide(self.inputs, now)
        return self.decision

    def _cluster(self, name):
        if name not in self.clusters:  # an unchanged cluster is the same object
            locality = Locality(LocalityId(), 1, tuple(self.hosts[name]))
            assignment = ClusterLoadAssignment(name, ((locality,),))
            self.clusters[name] = ClusterConfig(Cluster(name, Eds(name), override_statuses=self.statuses), assignment)
        return self.clusters[name]

    def running(self):
        return list(self.decision.children)

    def pick(self, *cookie, trace=None):
        self.override = Override(cookie)
        result = self.decision.picker.pick(PickArgs("/s/m", override=self.override, trace=trace))
        return result.host.address if isinstance(result, Complete) else QUEUED if result is QUEUE else result


def two_leaves(**more):
    """Return an aggregate of x and y, in which every host has two clusters' names: `shared` is in both."""
    story = Aggregate(**({"x": [endpoint("a"), endpoint("shared")], "y": [endpoint("b"), endpoint("shared")]} | more))
    story.start("x")
    return story


def reason_of_the_fallback(story, cookie):
    assert story.pick(cookie) == "a"
    return story.override.fallback_reason


# -- which leaf


def test_a_session_is_picked_for_by_the_latest_picker_of_its_leaf():
    story = two_leaves()
    story.start("y")
    story.events.add(LeafRequested("y"))
    story.at(0)
    assert story.pick("b") == "b"
    story.start("y", b=FAILURE)
    story.at(1)
    assert story.pick("b") == "a"


def test_new_endpoints_of_a_leaf_that_does_not_run_are_known_to_sessions():
    story = two_leaves()
    story.at(0)
    story.hosts["y"] = [endpoint("new")]
    del story.clusters["y"]
    story.at(1)
    assert story.pick("new") is QUEUED
    assert story.events == {LeafRequested("y")}


def test_rpcs_without_a_cookie_go_to_the_leaf_of_priority():
    story = two_leaves()
    story.start("y")
    story.at(0)
    assert {story.pick() for _ in range(4)} == {"a", "shared"}


def test_a_cookie_leads_to_the_leaf_that_has_its_host():
    story = two_leaves()
    story.start("y")
    story.events.add(LeafRequested("y"))
    story.at(0)
    assert [story.pick("a"), story.pick("b")] == ["a", "b"]


@pytest.mark.parametrize(
    ("in_x", "in_y", "leaf"),
    [
        (READY, READY, "x"),
        (IDLE, READY, "y"),
        (CONNECTING, READY, "y"),
        (None, READY, "y"),
        (FAILURE, READY, "y"),
        (CONNECTING, IDLE, "y"),
        (None, CONNECTING, "y"),
        (IDLE, IDLE, "x"),
        (None, None, "x"),
        (FAILURE, None, "y"),
        (FAILURE, FAILURE, None),
    ],
)
def test_the_leaf_whose_host_a55_prefers_gets_the_rpc_and_the_first_of_equals(in_x, in_y, leaf):
    story = two_leaves()
    story.start("x", shared=in_x)
    story.start("y", shared=in_y)
    story.events.add(LeafRequested("y"))
    story.at(0)
    trace = Trace()
    story.pick("shared", trace=trace)
    note = trace.notes[0]
    assert (note.chose if note.why == "it has the host of the session" else None) == leaf


@pytest.mark.parametrize(
    ("health", "state", "waits"),
    [
        (HEALTHY, CONNECTING, False),
        (HEALTHY, IDLE, False),
        (HEALTHY, None, False),
        (DRAINING, CONNECTING, True),
        (DRAINING, None, True),
    ],
)
def test_a_cookie_waits_in_a_leaf_that_has_failed_over_for_draining_hosts_only(health, state, waits):
    story = two_leaves(x=[endpoint("a"), endpoint("s", health=health)], y=[endpoint("b")])
    x = story.start("x", FAILURE)
    if state is not None:
        x.pool["s"] = FakeHost("s", state)  # another policy leases it
    elif "s" in x.pool:
        del x.pool["s"]
    story.start("y")
    story.at(0)
    assert story.pick("s") == (QUEUED if waits else "b")


def test_a_ready_host_of_a_leaf_that_has_failed_over_keeps_its_sessions():
    story = two_leaves()
    story.start("y")
    story.at(0, x=FAILURE)  # as when outlier detection has ejected all of its hosts
    assert story.pick("a") == "a"
    assert {story.pick() for _ in range(4)} == {"b", "shared"}


def test_sessions_wait_for_their_host_while_their_leaf_has_not_failed_over():
    story = two_leaves()
    story.start("x", READY, a=CONNECTING)
    story.start("y")
    story.at(0)
    assert story.pick("a") == QUEUED
    story.at(1, x=FAILURE)
    assert story.pick("a") in ("b", "shared")
    story.at(2, x=READY)
    assert story.pick("a") == QUEUED


def test_the_leaf_of_a_cookie_is_found_below_all_pickers_that_wrap_another():
    story = two_leaves()
    story.start("y")
    picker = story.reports["y"].picker
    story.reports["y"] = PolicyState(READY, OutlierDetectionPicker(OutlierDetectionPicker(picker, {}), {}))
    story.events.add(LeafRequested("y"))
    story.at(0)
    assert story.pick("b") == "b"


def test_a_leaf_whose_policies_have_failed_has_no_hosts_for_sessions():
    story = two_leaves()
    story.reports["y"] = PolicyState(FAILURE, transient_failure_picker(unavailable("broken")))
    story.events.add(LeafRequested("y"))
    story.at(0)
    assert story.pick("b") == "a"
    assert not story.events


def test_an_aggregate_without_leaves_fails_as_priority_does():
    story = Aggregate()
    assert story.at(0).state is FAILURE
    assert story.decision.picker.result.status.message == "the cluster has no priorities"


# -- why a session moves


def test_the_leaf_that_has_the_host_gives_the_reason_for_a_move():
    story = two_leaves()
    story.start("y", b=FAILURE)
    story.events.add(LeafRequested("y"))
    story.at(0)
    assert reason_of_the_fallback(story, "b") == RepinReason.NOT_READY
    assert story.pick("nowhere") in ("a", "shared")
    assert story.override.fallback_reason == RepinReason.UNKNOWN_HOST


@pytest.mark.parametrize(
    ("health", "statuses", "reason"),
    [
        (HEALTHY, frozenset({UNKNOWN, DRAINING}), RepinReason.STATUS_NOT_ALLOWED),
        (DRAINING, frozenset({UNKNOWN, HEALTHY}), RepinReason.UNKNOWN_HOST),
    ],
)
@pytest.mark.parametrize("runs", [False, True])
def test_a_host_whose_health_is_not_allowed_has_the_same_reason_in_a_leaf_that_runs_or_not(
    health, statuses, reason, runs
):
    story = two_leaves(x=[endpoint("a", health=UNKNOWN)], y=[endpoint("b", health=health)])
    story.statuses = statuses
    if runs:
        story.start("y")
        story.events.add(LeafRequested("y"))
    story.at(0)
    assert reason_of_the_fallback(story, "b") == reason
    assert not story.events


# -- leaves that do not run


def test_a_cookie_of_a_leaf_that_does_not_run_requests_it_and_waits():
    story = two_leaves()
    story.at(0)
    assert story.running() == ["x"]
    assert story.pick("b") == QUEUED
    assert story.events == {LeafRequested("y")}
    story.at(1)
    assert story.running() == ["x", "y"]


def test_a_requested_leaf_that_no_rpc_uses_ends_after_its_grace():
    story = two_leaves()
    story.at(0)
    story.pick("b")
    story.at(1)
    story.start("y")
    assert story.at(2).wake_at == 1 + REQUEST_GRACE
    story.at(1 + REQUEST_GRACE)
    assert story.running() == ["x"]


def test_a_requested_leaf_that_has_not_decided_yet_is_waited_for():
    story = two_leaves()
    story.at(0)
    story.pick("b")
    story.at(1)
    assert story.at(100).wake_at > 100
    assert story.running() == ["x", "y"]


def test_a_requested_leaf_that_is_not_in_the_aggregate_any_more_is_not_started():
    story = two_leaves()
    story.at(0)
    story.pick("b")
    del story.hosts["y"]
    story.at(1)
    assert story.running() == ["x"]
    assert story.pick("b") in ("a", "shared")
    story.hosts["y"] = [endpoint("b")]
    story.at(2)
    assert story.running() == ["x"], "it is a new leaf, which nothing has requested"


def test_the_first_endpoint_with_an_address_counts_in_a_leaf_that_does_not_run():
    story = two_leaves(y=[endpoint("b"), endpoint("b", health=DRAINING)])
    story.statuses = frozenset({DRAINING})
    story.at(0)
    assert story.pick("b") in ("a", "shared")
    assert not story.events


def test_an_explained_pick_requests_nothing():
    story, trace = two_leaves(), Trace()
    story.at(0)
    assert story.pick("b", trace=trace) == QUEUED
    assert not story.events
    (note,) = trace.notes
    assert note.waits_for == "cluster y to start"
    assert note.saw == "b is no endpoint of cluster cart; b is HEALTHY, and cluster y does not run"


# -- how long a leaf runs


def test_a_leaf_runs_while_it_holds_a_host_for_sessions():
    story = two_leaves()
    y = story.start("y")
    story.at(0, x=FAILURE)
    story.pick()
    assert y.acquired
    story.at(10, x=READY)
    story.at(10 + 2 * CHILD_RETENTION)
    assert story.running() == ["x", "y"]
    assert story.policy.describe(story.inputs, 2000) == "x READY, y READY; sessions use y"
    y.now = 3600
    y.step()
    story.reports["y"] = PolicyState(READY, y.decision.picker)
    decision = story.at(3600)
    assert story.running() == ["x"]
    assert not decision.deactivate, "its quarter of an hour was over long ago"


def test_a_leaf_that_sessions_leave_early_stays_deactivated_for_the_rest_of_its_quarter_of_an_hour():
    story = two_leaves()
    y = story.start("y")
    story.at(0, x=FAILURE)
    story.pick()
    story.at(10, x=READY)
    y.update(endpoint("shared"))
    for address in list(y.acquired):
        y._release(address)
    story.start("y")
    decision = story.at(300)
    assert decision.deactivate == {"y"}
    assert decision.wake_at == 10 + CHILD_RETENTION
    assert not story.at(10 + CHILD_RETENTION).deactivate


# -- pickers


def test_an_unchanged_decision_has_the_same_picker_so_that_no_queued_rpc_picks_again():
    story = two_leaves()
    first = story.at(0).picker
    assert story.at(1).picker is first
    story.start("x")
    assert story.at(2).picker is not first


def test_an_explanation_has_the_present_reason_for_an_unchanged_picker():
    def reason():
        story.pick(trace=(trace := Trace()))
        return trace.notes[0].why

    story = two_leaves()
    story.at(0, x=CONNECTING)
    assert reason() == "the first that is still given time"
    story.at(1, x=READY)
    assert reason() == "the first that is READY or IDLE"
