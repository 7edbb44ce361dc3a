"""When a node has its policy decide: at its wake_at, after gathered news, and after a bug."""

from math import inf

import pytest
import trio
from support.policies import CONNECTING
from support.tree import Texts, Tree, Wants, parent
from trio.testing import wait_all_tasks_blocked

from trxds.core.connectivity import Connectivity
from trxds.core.status import StatusCode
from trxds.lb.pick import QUEUE_PICKER, Fail, PickArgs
from trxds.lb.policy import Decision


class TestBugsOfPolicies:
    async def test_a_policy_that_raises_fails_its_rpcs_and_not_the_channel(self, tree, caplog):
        await tree.configure(Wants("leaf", raises=True))
        (report,) = tree.reports
        assert (report.state, report.generation) == (Connectivity.TRANSIENT_FAILURE, 1)
        result = report.picker.pick(PickArgs("/s/m"))
        assert isinstance(result, Fail)
        assert result.status.code is StatusCode.INTERNAL
        assert "root" in result.status.message
        (record,) = caplog.records
        assert record.name == "trxds.lb" and "root" in record.message
        assert record.exc_info[0] is ZeroDivisionError

    async def test_a_policy_that_raised_decides_again_at_the_next_step(self, tree):
        await tree.configure(Wants("leaf", raises=True))
        await tree.configure(Wants("leaf"))
        assert tree.reports[-1].picker == Texts("leaf")

    async def test_siblings_of_a_policy_that_raises_go_on(self, tree):
        await tree.configure(parent(a=Wants("a", raises=True), b=Wants("b")))
        assert tree.generations[-1] == 1
        assert tree.reports[-1].picker.below[1] == Texts("b")

    async def test_a_policy_that_cannot_be_made_fails_its_rpcs_too(self, nursery, caplog):
        def broken(channel_control):
            raise ZeroDivisionError

        tree = Tree(nursery, broken=broken)
        await tree.configure(parent(a=Wants("a", policy="broken"), b=Wants("b")))
        failing, working = tree.reports[-1].picker.below
        assert failing.pick(PickArgs("/s/m")).status.code is StatusCode.INTERNAL
        assert working == Texts("b")
        assert "root/a" in caplog.text


async def test_a_policy_decides_at_its_wake_at(nursery, autojump_clock):
    tree = Tree(nursery)
    tree.send(Wants("leaf", wake_at=10.0))
    await trio.sleep(9)
    assert len(tree.made[0].decisions) == 1
    await trio.sleep(1.5)
    assert tree.made[0].decisions[1][1] == 10


async def test_a_policy_that_raises_at_its_wake_at_does_not_run_again_at_once(nursery, autojump_clock):
    class Late:
        times = 0

        def decide(self, inputs, now):
            self.times += 1
            if now >= 10:
                raise ZeroDivisionError
            return Decision(Connectivity.CONNECTING, QUEUE_PICKER, wake_at=10)

    late = Late()
    tree = Tree(nursery, late=lambda channel_control: late)
    tree.send(parent(a=Wants("a", policy="late")))
    with trio.fail_after(30):
        await trio.sleep(20)
    assert late.times == 2


async def test_news_of_many_hosts_are_not_gathered_past_the_wake_at(nursery, autojump_clock):
    class Soon:
        decided_at = ()

        def decide(self, inputs, now):
            self.decided_at += (now,)
            hosts = tuple(f"10.0.0.{n}:1" for n in range(100))
            return Decision(Connectivity.READY, QUEUE_PICKER, hosts=hosts, wake_at=0.001 if now < 0.001 else inf)

    soon = Soon()
    tree = Tree(nursery, soon=lambda channel_control: soon)
    tree.send(parent(a=Wants("a", policy="soon")))
    await trio.sleep(1)
    assert soon.decided_at == (0, 0, 0.001)


class Serving:
    """A policy with so many hosts, in that state; `decided_at` has the times of its decisions."""

    def __init__(self, hosts, state=Connectivity.READY):
        self.hosts = tuple(f"10.0.0.{n}:1" for n in range(hosts))
        self.state = state
        self.decided_at = []

    def decide(self, inputs, now):
        self.decided_at.append(now)
        return Decision(self.state, QUEUE_PICKER, hosts=self.hosts)


async def decisions_for_three_news(policy, nursery, pause=0.0001):
    """Return the times at which the policy decides, from the first of three hosts' news; they come after pauses."""
    tree = Tree(nursery, serving=lambda channel_control: policy)
    tree.send(parent(a=Wants("a", policy="serving")))
    await trio.sleep(0.1)  # long after the last decision
    del policy.decided_at[:]
    began = trio.current_time()
    tree.hosts.change(policy.hosts[0], CONNECTING)
    await wait_all_tasks_blocked()
    for host in policy.hosts[1:3]:
        tree.hosts.change(host, CONNECTING)
        await trio.sleep(pause)
    await trio.sleep(1)
    return [round(when - began, 6) for when in policy.decided_at]


@pytest.mark.parametrize(
    ("hosts", "pause", "decided_at"),
    [
        # 20 microseconds for each host, from the last decision; the first news after a pause is decided at once.
        (50, 0.0001, [0, 0.001]),
        (100, 0.0001, [0, 0.002]),
        # at most 50 milliseconds
        (5000, 0.01, [0, 0.05]),
        # fewer hosts are decided one by one
        (49, 0.0001, [0, 0, 0.0001]),
    ],
)
async def test_a_policy_that_serves_decides_at_most_once_in_a_time_for_the_news_of_its_hosts(
    hosts, pause, decided_at, nursery, autojump_clock
):
    assert await decisions_for_three_news(Serving(hosts), nursery, pause) == decided_at


async def test_while_a_policy_does_not_serve_each_news_is_decided_at_once(nursery, autojump_clock):
    # RPCs wait, so the first host that connects has to serve them.
    policy = Serving(100, Connectivity.CONNECTING)
    assert await decisions_for_three_news(policy, nursery) == [0, 0, 0.0001]


async def test_a_configuration_ends_the_gathering_of_news(nursery, autojump_clock):
    policy = Serving(100)
    tree = Tree(nursery, serving=lambda channel_control: policy)
    tree.send(parent(a=Wants("a", policy="serving")))
    await wait_all_tasks_blocked()
    tree.hosts.change(policy.hosts[0], CONNECTING)
    await trio.sleep(0.0001)
    tree.send(parent(a=Wants("changed", policy="serving")))
    await wait_all_tasks_blocked()
    assert policy.decided_at[-1] == trio.current_time()
