"""A node leases and connects the hosts of its policy's decisions."""

import trio
from support.policies import CONNECTING, FAILURE, IDLE, READY
from support.tree import Wants, parent
from trio.testing import wait_all_tasks_blocked


class TestHosts:
    async def test_a_nodes_leases_match_its_policys_decision(self, tree):
        await tree.configure(Wants("leaf", hosts=("x", "y")))
        assert tree.hosts.leased == {"x", "y"}
        await tree.configure(Wants("leaf", hosts=("y", "z")))
        assert tree.hosts.leased == {"y", "z"}
        assert "-y" not in tree.hosts.history, "y was leased all the time"

    async def test_an_address_named_twice_is_leased_once(self, tree):
        await tree.configure(Wants("leaf", hosts=("x", "z")))
        await tree.configure(Wants("leaf", hosts=("y", "y", "x")))
        assert tree.hosts.leased == {"x", "y"}
        assert tree.hosts.leases["y"] == 1

    async def test_a_policy_decides_again_once_it_can_see_its_new_hosts(self, tree):
        await tree.configure(Wants("leaf", hosts=("x",)))
        seen = [set(inputs.hosts) for inputs, _ in tree.made[0].decisions]
        assert seen == [set(), {"x"}]
        assert len(tree.reports) == 1

    async def test_hosts_in_a_decisions_connect_are_connected(self, tree):
        await tree.configure(Wants("leaf", hosts=("x", "y"), connect=("x",)))
        assert tree.hosts.known["x"].state is CONNECTING
        assert tree.hosts.known["y"].state is IDLE

    async def test_a_host_without_a_lease_is_not_connected(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        assert tree.hosts.known == {}

    async def test_a_host_acquired_by_picks_is_leased_once_and_released_once(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        channel_control = tree.made[0].channel_control
        assert channel_control.acquire("x") is channel_control.acquire("x") is tree.hosts.known["x"]
        assert tree.hosts.leases["x"] == 1
        channel_control.release("x")
        channel_control.release("x")
        assert tree.hosts.leases["x"] == 0

    async def test_a_host_acquired_by_picks_can_be_connected(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        tree.made[0].channel_control.acquire("x")
        tree.made[0].channel_control.notify_policy("x")
        await wait_all_tasks_blocked()
        assert tree.hosts.known["x"].state is CONNECTING

    async def test_releasing_a_host_of_picks_publishes_a_new_picker(self, tree):
        # An RPC may wait for that host, and its last letter went with the lease.
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.acquire("x")
        tree.hosts.change("x", FAILURE)
        tree.made[0].channel_control.release("x")
        await wait_all_tasks_blocked()
        assert len(tree.reports) == 2

    async def test_a_pick_and_a_decision_have_separate_leases(self, tree):
        await tree.configure(Wants("leaf", hosts=("x",)))
        tree.made[0].channel_control.acquire("x")
        await tree.configure(Wants("leaf"))
        assert tree.hosts.leases["x"] == 1

    async def test_a_hosts_change_publishes_a_new_picker(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        before = tree.reports[-1]
        tree.hosts.change("x", READY)
        await wait_all_tasks_blocked()
        assert tree.reports[-1].picker == before.picker
        assert tree.reports[-1].picker is not before.picker
        assert tree.reports[-1].generation == before.generation


async def test_a_pick_from_the_picker_of_an_ended_node_leaves_no_lease(tree):
    # RPCs go on picking from it until its parents have another one.
    await tree.configure(parent(a=Wants("a")))
    acquire = tree.policy("a").channel_control.acquire
    await tree.configure(parent())
    assert acquire("x").address == "x"
    assert tree.hosts.leased == set()


async def test_other_tasks_run_while_a_thousand_hosts_are_leased_and_connected(tree):
    hosts = tuple(map(str, range(1000)))
    tree.send(Wants("leaf", hosts=hosts, connect=hosts))
    most = before = 0
    while before < 1000:
        await trio.lowlevel.checkpoint()
        most, before = max(most, len(tree.hosts.leased) - before), len(tree.hosts.leased)
    assert most <= 512, "two slices in one pass of ours"
    await wait_all_tasks_blocked()
    assert tree.generations == [1]
    assert {tree.hosts.known[host].state for host in hosts} == {CONNECTING}
