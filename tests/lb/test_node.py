"""A node applies its policy's decisions and reports to its parent (ADR 2 and 3)."""

from dataclasses import replace
from math import inf

import pytest
import trio
from support.policies import CONNECTING, FAILURE, IDLE, READY, endpoint_set
from support.tree import Texts, Tree, Wants
from trio.testing import wait_all_tasks_blocked

from trxds.core.connectivity import Connectivity
from trxds.core.status import StatusCode
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE_PICKER, Fail, PickArgs
from trxds.lb.policy import CHILD_RETENTION, Decision


@pytest.fixture
def tree(nursery, mock_clock):
    return Tree(nursery)


def parent(text="root", deactivate=(), **children):
    return Wants(text, children, frozenset(deactivate))


class Runs(trio.abc.Instrument):
    """Record the nodes whose tasks run, in order."""

    def __init__(self):
        self.nodes = []

    def before_task_step(self, task):
        if task.name.startswith("lb/"):
            self.nodes.append(task.name)


class TestGenerations:
    async def test_a_policy_does_not_decide_before_its_first_configuration(self, tree):
        await wait_all_tasks_blocked()
        assert (tree.reports, tree.made) == ([], [])

    async def test_a_leaf_reports_the_generation_with_its_first_decision(self, tree):
        await tree.configure(Wants("leaf"))
        assert tree.generations == [1]

    async def test_a_parent_reports_a_generation_only_once_its_children_have(self, tree):
        await tree.configure(parent(a=Wants("a"), b=parent("b", c=Wants("c"))))
        (report,) = tree.reports
        assert (report.generation, report.picker) == (1, Texts("root", (Texts("a"), Texts("b", (Texts("c"),)))))

    async def test_every_picker_reported_with_a_generation_has_that_generations_configuration(self, tree):
        await tree.configure(parent(a=Wants("a"), b=Wants("b")))
        await tree.configure(parent(a=Wants("a2"), b=Wants("b2")))
        answers = {report.generation: report.picker for report in reversed(tree.reports)}
        assert answers[2] == Texts("root", (Texts("a2"), Texts("b2")))

    async def test_an_equal_configuration_is_not_sent_to_a_child_again(self, tree):
        await tree.configure(parent(a=Wants("a"), b=Wants("b")))
        before = len(tree.policy("a").decisions)
        await tree.configure(parent("changed", a=Wants("a"), b=Wants("b")))
        assert len(tree.policy("a").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_change_makes_only_its_own_branch_decide(self, tree):
        await tree.configure(parent(a=Wants("a"), b=parent("b", c=Wants("c"))))
        before = len(tree.policy("b").decisions)
        await tree.configure(parent(a=Wants("a2"), b=parent("b", c=Wants("c"))))
        assert len(tree.policy("b").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_report_of_an_older_generation_is_no_answer(self, tree):
        await tree.configure(parent(a=Wants("a")))
        tree.policy("a").channel_control.notify_policy("something")
        await tree.configure(parent(a=Wants("a2")))
        first_answer = next(report for report in tree.reports if report.generation == 2)
        assert first_answer.picker == Texts("root", (Texts("a2"),))

    async def test_only_the_newest_of_several_configurations_is_answered(self, tree):
        for text in ("one", "two", "three"):
            tree.send(Wants(text))
        await wait_all_tasks_blocked()
        assert [(report.generation, report.picker.text) for report in tree.reports] == [(3, "three")]

    async def test_a_parent_does_not_wait_for_a_deactivated_child(self, tree):
        await tree.configure(parent(a=Wants("a"), b=Wants("b")))
        reported = len(tree.reports)
        await tree.configure(parent(deactivate="b", a=Wants("a")))
        assert tree.generations[reported:] == [2]
        assert len(tree.policy("b").decisions) == 1

    async def test_a_reactivated_child_answers_the_configuration_sent_since(self, tree):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        await tree.configure(parent(a=Wants("a2")))
        assert tree.reports[-1].generation == 3
        assert tree.reports[-1].picker == Texts("root", (Texts("a2"),))


class TestEndpoints:
    """Endpoints come apart from the configuration, and their change makes only policies decide that read them."""

    def seen(self, tree, text):
        return tree.policy(text).decisions[-1][0].endpoints

    async def test_a_child_gets_its_part_or_all_or_the_decisions_endpoints(self, tree):
        part, own = endpoint_set("b"), endpoint_set("c")
        its = Endpoints(endpoint_set("ab").all, parts={"second": part})
        children = {name: Wants(name) for name in ("first", "second", "third")}
        await tree.configure(Wants("root", children, endpoints={"third": own}), its)
        assert [self.seen(tree, name) for name in children] == [its, part, own]

    async def test_equal_endpoints_are_no_change(self, tree):
        await tree.configure(parent(a=Wants("a")), endpoint_set("x"))
        before = len(tree.policy("a").decisions)
        await tree.configure(parent(a=Wants("a")), endpoint_set("x"))
        assert len(tree.policy("a").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_policy_that_does_not_read_endpoints_passes_them_on_without_a_decision(self, tree):
        root = Wants("root", {"a": Wants("a")}, reads_endpoints=False)
        await tree.configure(root, endpoint_set("x"))
        before = len(tree.policy("root").decisions)
        tree.send(root, endpoint_set("xy"))
        await wait_all_tasks_blocked()
        assert self.seen(tree, "a") == endpoint_set("xy")
        # The child's picker is another one, so that there is one decision: for its answer.
        assert len(tree.policy("root").decisions) == before + 1
        assert tree.generations[-1] == 2

    async def test_only_the_child_whose_part_of_the_endpoints_changed_decides(self, tree):
        root = Wants("root", {"a": Wants("a"), "b": Wants("b")}, reads_endpoints=False)
        await tree.configure(root, Endpoints(parts={"a": endpoint_set("x"), "b": endpoint_set("y")}))
        before = len(tree.policy("b").decisions)
        await tree.configure(root, Endpoints(parts={"a": endpoint_set("xz"), "b": endpoint_set("y")}))
        assert self.seen(tree, "a") == endpoint_set("xz")
        assert len(tree.policy("b").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_report_that_changes_nothing_is_passed_up_without_a_decision(self, tree):
        root = Wants("root", {"a": Wants("a", picker=QUEUE_PICKER)}, reads_endpoints=False)
        await tree.configure(root, endpoint_set("x"))
        decided, reported = len(tree.policy("root").decisions), tree.reports[-1]
        await tree.configure(root, endpoint_set("xy"))
        assert len(tree.policy("root").decisions) == decided
        assert (tree.reports[-1].generation, tree.reports[-1].picker) == (2, reported.picker)

    async def test_nodes_that_only_pass_endpoints_and_answers_on_do_not_run(self, tree):
        leaf = Wants("leaf", picker=QUEUE_PICKER)
        middle = Wants("middle", {"leaf": leaf}, reads_endpoints=False)
        root = Wants("root", {"middle": middle}, reads_endpoints=False)
        await tree.configure(root, endpoint_set("x"))
        runs = Runs()
        trio.lowlevel.add_instrument(runs)
        await tree.configure(root, endpoint_set("xy"))
        trio.lowlevel.remove_instrument(runs)
        assert runs.nodes == ["lb/root", "lb/root/middle/leaf"]
        assert (self.seen(tree, "leaf"), tree.generations) == (endpoint_set("xy"), [1, 2])

    async def test_a_child_that_answers_at_once_does_not_answer_for_its_siblings(self, tree):
        own = {"end": endpoint_set("z")}
        quick = Wants("quick", {"end": Wants("end")}, reads_endpoints=False, endpoints=own)
        middle = Wants("middle", {"quick": quick, "slow": Wants("slow")}, reads_endpoints=False)
        root = Wants("root", {"middle": middle}, reads_endpoints=False)
        await tree.configure(root, endpoint_set("x"))
        await tree.configure(root, endpoint_set("xy"))
        assert self.seen(tree, "slow") == endpoint_set("xy")
        assert tree.generations == [1, 2]

    async def test_a_policy_that_raised_decides_again_at_any_message(self, tree):
        root = Wants("root", {"a": Wants("a", picker=QUEUE_PICKER)}, reads_endpoints=False)
        await tree.configure(root, endpoint_set("x"))
        await tree.configure(replace(root, raises=True), endpoint_set("x"))
        before = len(tree.policy("root").decisions)
        await tree.configure(replace(root, raises=True), endpoint_set("xy"))
        assert len(tree.policy("root").decisions) > before


class TestChildren:
    async def test_a_child_that_a_decision_leaves_out_ends_at_once(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent())
        assert tree.hosts.leased == set()

    async def test_a_late_report_of_an_ended_child_is_not_its_successors(self, tree):
        await tree.configure(parent(a=Wants("old")))
        tree.policy("old").channel_control.notify_policy("one more report")
        await tree.configure(parent(a=Wants("new", policy="other")))
        heard = [report.picker for report in tree.reports if report.generation == 2]
        assert heard == [Texts("root", (Texts("new"),))]

    async def test_a_name_that_is_removed_and_returns_is_a_new_child(self, tree):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent())
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3, "the root and two of the same name"

    async def test_a_deactivated_child_runs_for_a_quarter_of_an_hour(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION - 1)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == {"x"}
        mock_clock.jump(1)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == set()

    async def test_the_retention_of_a_child_begins_when_it_is_deactivated(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION / 2)
        await tree.configure(parent("again", deactivate="a"))
        mock_clock.jump(CHILD_RETENTION / 2)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == set()

    async def test_a_reactivated_child_is_the_same_one_and_stays(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION - 1)
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        mock_clock.jump(2 * CHILD_RETENTION)
        await wait_all_tasks_blocked()
        assert len(tree.made) == 2
        assert tree.hosts.history == ["+x"]

    async def test_a_child_is_a_new_one_after_its_retention(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION)
        await wait_all_tasks_blocked()
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3

    async def test_a_child_reactivated_at_the_end_of_its_retention_is_a_new_one(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION)  # nobody has run since
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3
        assert tree.reports[-1].generation == 3
        assert tree.reports[-1].picker == Texts("root", (Texts("a"),))

    async def test_a_deactivated_child_that_is_no_longer_named_ends_at_once(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        await tree.configure(parent())
        assert tree.hosts.leased == set()


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


class TestPickEvents:
    async def test_equal_pick_events_are_merged(self, tree):
        await tree.configure(Wants("leaf"))
        for event in ("one", "two", "one"):
            tree.made[0].channel_control.notify_policy(event)
        await wait_all_tasks_blocked()
        assert [inputs.pick_events for inputs, _ in tree.made[0].decisions] == [frozenset(), {"one", "two"}]

    async def test_a_pick_event_is_seen_by_one_decision(self, tree):
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.notify_policy("one")
        await wait_all_tasks_blocked()
        await tree.configure(Wants("changed"))
        assert tree.made[0].decisions[-1][0].pick_events == frozenset()

    async def test_a_pick_event_is_not_lost_when_the_policy_decides_twice(self, tree):
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.notify_policy("one")
        await tree.configure(Wants("leaf", hosts=("x",)))
        assert [inputs.pick_events for inputs, _ in tree.made[0].decisions[-2:]] == [{"one"}, {"one"}]

    async def test_a_pick_event_publishes_a_new_picker(self, tree):
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.notify_policy("one")
        await wait_all_tasks_blocked()
        first, second = tree.reports
        assert first.picker == second.picker and first.picker is not second.picker


class TestTasks:
    class Task:
        def __init__(self, text, diary):
            self.text, self.diary = text, diary

        async def __call__(self):
            self.diary.append(f"{self.text} begins")
            try:
                await trio.sleep_forever()
            finally:
                self.diary.append(f"{self.text} ends")

    async def test_a_policys_task_runs_while_decisions_name_it(self, tree):
        diary = []
        sweep = self.Task("sweep", diary)
        await tree.configure(Wants("leaf", tasks={"sweep": sweep}))
        await tree.configure(Wants("changed", tasks={"sweep": sweep}))
        assert diary == ["sweep begins"]
        await tree.configure(Wants("changed"))
        assert diary == ["sweep begins", "sweep ends"]

    async def test_another_callable_under_a_tasks_name_replaces_it(self, tree):
        diary = []
        await tree.configure(Wants("leaf", tasks={"sweep": self.Task("first", diary)}))
        await tree.configure(Wants("leaf", tasks={"sweep": self.Task("second", diary)}))
        assert diary[0] == "first begins"
        assert set(diary[1:]) == {"first ends", "second begins"}

    async def test_a_bound_method_is_the_same_task_each_time(self, tree):
        diary = []
        task = self.Task("sweep", diary)
        await tree.configure(Wants("leaf", tasks={"sweep": task.__call__}))
        await tree.configure(Wants("changed", tasks={"sweep": task.__call__}))
        assert diary == ["sweep begins"]

    async def test_a_replaced_task_leaves_the_other_tasks_running(self, tree):
        diary = []
        sweep, tick = self.Task("sweep", diary), self.Task("tick", diary)
        await tree.configure(Wants("leaf", tasks={"sweep": sweep}))
        await tree.configure(Wants("leaf", tasks={"sweep": sweep, "tick": tick}))
        assert diary == ["sweep begins", "tick begins"]


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


async def test_a_node_leaves_no_task_lease_or_message_after_its_end():
    diary = []
    async with trio.open_nursery() as nursery:
        tree = Tree(nursery)
        task = TestTasks.Task("sweep", diary)
        leaf = Wants("leaf", hosts=("x",), tasks={"sweep": task})
        await tree.configure(parent(a=leaf, b=parent("b", c=leaf)))
        tree.made[0].channel_control.acquire("y")
        assert tree.hosts.leased == {"x", "y"}
        nursery.cancel_scope.cancel()
    assert tree.hosts.leased == set()
    assert diary.count("sweep begins") == diary.count("sweep ends") == 2
    tree.send(Wants("leaf"))
    tree.made[0].channel_control.notify_policy("late")
    assert tree.queue.put("late", None) is not None, "messages to an ended node are dropped, not refused"


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
