"""A node switches between policies gracefully, and passes ejections down its subtree (A50)."""

import pytest
import trio
from support.policies import CONNECTING, FAILURE, READY, report
from support.tree import BusyNode, FakeHosts

from trxds.core.conflating_queue import ConflatingQueue
from trxds.lb.child_policy import Child, Children
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE_PICKER
from trxds.lb.policy import CHILD_RETENTION, Decision, PolicyState
from trxds.lb.subtree import Ejections
from trxds.resources.leaf_policy import LeastRequest, PickFirst, RoundRobin


def children_of(hosts=None):
    return Children(hosts or FakeHosts(), ConflatingQueue(), BusyNode())


def start(child):
    return BusyNode()


def child_of(hosts):
    return Child("p0", "round_robin", hosts, children_of(hosts), None)


def switching(old, new):
    """Return a child that replaces another one under its name; each has the given report or none."""
    before = child_of(FakeHosts())
    before.report = old and report(old)
    child = Child("p0", "ring_hash", before.hosts, before.parent, before)
    child.report = new and report(new)
    return child


@pytest.mark.parametrize(
    ("old", "new", "speaks"),
    [
        (READY, None, False),
        (READY, CONNECTING, False),
        (READY, READY, True),
        (READY, FAILURE, True),
        (CONNECTING, None, True),
        (FAILURE, CONNECTING, True),
        (None, None, True),
    ],
)
def test_the_old_policy_picks_while_it_is_ready_and_the_new_one_is_connecting(old, new, speaks):
    assert switching(old, new).is_active is speaks


def test_the_old_policys_report_counts_until_the_graceful_switch():
    child = switching(READY, CONNECTING)
    assert child.active.report is child.current.report


async def test_a_child_that_is_ended_before_its_task_runs_ends_as_it_begins():
    child = child_of(FakeHosts())
    child.cancel()
    with trio.CancelScope() as scope:
        child.begin(scope)
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


def test_a_child_that_is_deactivated_before_its_task_runs_has_its_deadline_from_the_beginning():
    child, scope = child_of(FakeHosts()), trio.CancelScope()
    child.deactivate(7.0)
    child.begin(scope)
    assert scope.deadline == 7.0 + CHILD_RETENTION


def test_a_child_whose_time_has_run_out_is_not_reactivated():
    child, scope = child_of(FakeHosts()), trio.CancelScope()
    child.begin(scope)
    child.deactivate(7.0)
    scope.cancel()
    assert not child.reactivate()


def test_a_child_whose_own_endpoints_are_taken_away_is_sent_its_part_of_the_policys():
    children, config = children_of(), RoundRobin()
    endpoints, own = Endpoints(), Endpoints(note="own")
    for given in ({"p0": own}, None):
        decision = Decision(READY, QUEUE_PICKER, children={"p0": config}, endpoints=given)
        children.reconcile(decision, endpoints, 1, 0.0, start)
    assert children.by_name["p0"].endpoints is endpoints


class Switches:
    """The children of a policy that has one, each with a scope for its task."""

    def __init__(self):
        self.children = children_of()
        self.scopes = []

    def decide(self, policy=None, deactivate=()):
        children = {} if policy is None else {"p0": policy}
        decision = Decision(READY, QUEUE_PICKER, children=children, deactivate=frozenset(deactivate))
        self.children.reconcile(decision, Endpoints(), 1, trio.current_time(), self._start)

    def _start(self, child):
        self.scopes.append(trio.CancelScope())
        child.begin(self.scopes[-1])
        return BusyNode()

    def reports(self, state):
        self.children.by_name["p0"].record_report(PolicyState(state, QUEUE_PICKER, 1))

    @property
    def ended(self):
        return [scope.cancel_called for scope in self.scopes]


@pytest.mark.parametrize(("state", "ended"), [(CONNECTING, [False, True, False]), (READY, [True, False, False])])
async def test_a_third_policy_leaves_the_one_that_picks(state, ended):
    switches = Switches()
    switches.decide(LeastRequest(2))
    switches.reports(READY)
    switches.decide(RoundRobin())
    switches.reports(state)
    switches.decide(PickFirst())
    assert switches.ended == ended


async def test_a_deactivated_child_does_not_pick_while_its_name_gets_another_policy():
    switches = Switches()
    switches.decide(LeastRequest(2))
    switches.reports(READY)
    switches.decide(deactivate=["p0"])
    switches.decide(RoundRobin())
    assert switches.ended == [True, False]


async def test_a_child_that_is_removed_during_a_switch_ends_with_the_one_that_it_replaces():
    switches = Switches()
    switches.decide(LeastRequest(2))
    switches.reports(READY)
    switches.decide(RoundRobin())
    switches.decide()
    assert switches.ended == [True, True]


MANY = [f"p{number}" for number in range(8)]  # so many children are compared with those of the last decision


def many(policy):
    return Decision(READY, QUEUE_PICKER, children=dict.fromkeys(MANY, policy))


def test_many_children_get_a_configuration_that_comes_with_the_same_endpoints():
    children, endpoints = children_of(), Endpoints()
    for number in (2, 3):
        children.reconcile(many(LeastRequest(number)), endpoints, number, 0.0, start)
    assert {child.config.choice_count for child in children.by_name.values()} == {3}


def test_many_children_get_endpoints_that_come_with_the_same_configuration():
    children, endpoints = children_of(), Endpoints(note="new")
    for each in (Endpoints(note="old"), endpoints):
        children.reconcile(many(LeastRequest(2)), each, 1, 0.0, start)
    assert all(child.endpoints is endpoints for child in children.by_name.values())


def test_a_switch_of_one_child_leaves_the_others_alone():
    children, endpoints = children_of(), Endpoints()
    for policy in (LeastRequest(2), RoundRobin()):
        decision = Decision(READY, QUEUE_PICKER, children={"p0": policy, "p1": LeastRequest(2)})
        children.reconcile(decision, endpoints, 1, 0.0, start)
        children.by_name["p0"].record_report(PolicyState(READY, QUEUE_PICKER, 1))
    children.finish_switches()
    assert not children.may_be_switching
    assert list(children.by_name) == ["p0", "p1"]


def test_a_child_that_has_ended_is_forgotten_unless_another_has_its_name():
    children = children_of()
    decision = Decision(READY, QUEUE_PICKER, children={"p0": RoundRobin()})
    children.reconcile(decision, Endpoints(), 1, 0.0, start)
    child = children.by_name["p0"]
    children.forget(child_of(FakeHosts()))
    assert children.by_name["p0"] is child
    children.forget(child)
    assert not children.by_name


async def test_a_node_that_leases_an_ejected_address_gets_a_message(autojump_clock):
    health, near, far = Ejections(), ConflatingQueue(), ConflatingQueue()
    health.subscribe(near, {"a", "b"})
    health.subscribe(far, {"c"})
    health.eject(frozenset("a"))
    assert await near.next() == {"health": None}
    assert await far.next(trio.current_time() + 1) == {}


async def test_an_ejection_counts_at_the_levels_below():
    above = Ejections()
    below, queue = Ejections(above), ConflatingQueue()
    below.subscribe(queue, {"a"})
    above.eject(frozenset("a"))
    assert below.ejected == {"a"}
    assert await queue.next() == {"health": None}


async def test_an_ejection_does_not_count_in_a_sibling_subtree():
    above = Ejections()
    one, other = Ejections(above), Ejections(above)
    one.eject(frozenset("a"))
    assert (one.ejected, other.ejected, above.ejected) == ({"a"}, frozenset(), frozenset())
