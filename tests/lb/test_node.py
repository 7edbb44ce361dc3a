"""The shell around every policy: what it makes of decisions, and what its parent hears (ADR 2 and 3)."""

from dataclasses import replace
from math import inf

import pytest
import trio
from support.policies import CONNECTING, FAILURE, IDLE, READY, given
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


class TestGenerations:
    async def test_nothing_is_decided_before_there_is_a_configuration(self, tree):
        await wait_all_tasks_blocked()
        assert (tree.reports, tree.made) == ([], [])

    async def test_a_leaf_answers_with_its_first_decision(self, tree):
        await tree.configure(Wants("leaf"))
        assert tree.generations == [1]

    async def test_a_parent_answers_once_its_children_have_and_says_nothing_before(self, tree):
        await tree.configure(parent(a=Wants("a"), b=parent("b", c=Wants("c"))))
        (report,) = tree.reports
        assert (report.generation, report.picker) == (1, Texts("root", (Texts("a"), Texts("b", (Texts("c"),)))))

    async def test_every_picker_told_with_a_generation_has_what_the_generation_brought(self, tree):
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

    async def test_a_change_steps_its_own_branch_only(self, tree):
        await tree.configure(parent(a=Wants("a"), b=parent("b", c=Wants("c"))))
        before = len(tree.policy("b").decisions)
        await tree.configure(parent(a=Wants("a2"), b=parent("b", c=Wants("c"))))
        assert len(tree.policy("b").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_report_of_the_configuration_before_is_no_answer(self, tree):
        await tree.configure(parent(a=Wants("a")))
        tree.policy("a").channel_control.notify_policy("something")
        await tree.configure(parent(a=Wants("a2")))
        first_answer = next(report for report in tree.reports if report.generation == 2)
        assert first_answer.picker == Texts("root", (Texts("a2"),))

    async def test_the_newest_of_several_configurations_is_answered(self, tree):
        for text in ("one", "two", "three"):
            tree.send(Wants(text))
        await wait_all_tasks_blocked()
        assert [(report.generation, report.picker.text) for report in tree.reports] == [(3, "three")]

    async def test_a_child_kept_warm_is_not_waited_for(self, tree):
        await tree.configure(parent(a=Wants("a"), b=Wants("b")))
        told = len(tree.reports)
        await tree.configure(parent(deactivate="b", a=Wants("a")))
        assert tree.generations[told:] == [2]
        assert len(tree.policy("b").decisions) == 1

    async def test_a_revived_child_answers_what_it_was_sent_since(self, tree):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        await tree.configure(parent(a=Wants("a2")))
        assert tree.reports[-1].generation == 3
        assert tree.reports[-1].picker == Texts("root", (Texts("a2"),))


class TestEndpoints:
    """They come beside the configuration, and a change of them alone asks only those who read them."""

    def seen(self, tree, text):
        return tree.policy(text).decisions[-1][0].endpoints

    async def test_a_child_has_all_its_part_or_what_the_policy_gives_it(self, tree):
        part, own = given("b"), given("c")
        its = Endpoints(given("ab").all, parts={"second": part})
        children = {name: Wants(name) for name in ("first", "second", "third")}
        await tree.configure(Wants("root", children, endpoints={"third": own}), its)
        assert [self.seen(tree, name) for name in children] == [its, part, own]

    async def test_equal_ones_are_no_change(self, tree):
        await tree.configure(parent(a=Wants("a")), given("x"))
        before = len(tree.policy("a").decisions)
        await tree.configure(parent(a=Wants("a")), given("x"))
        assert len(tree.policy("a").decisions) == before
        assert tree.generations[-1] == 2

    async def test_a_policy_that_does_not_read_them_hands_them_on_without_a_decision(self, tree):
        root = Wants("root", {"a": Wants("a")}, reads_endpoints=False)
        await tree.configure(root, given("x"))
        before = len(tree.policy("root").decisions)
        tree.send(root, given("xy"))
        await wait_all_tasks_blocked()
        assert self.seen(tree, "a") == given("xy")
        # The child's picker is another one, so that there is one decision: for its answer.
        assert len(tree.policy("root").decisions) == before + 1
        assert tree.generations[-1] == 2

    async def test_of_several_parts_only_the_one_that_changed_is_asked_about(self, tree):
        root = Wants("root", {"a": Wants("a"), "b": Wants("b")}, reads_endpoints=False)
        await tree.configure(root, Endpoints(parts={"a": given("x"), "b": given("y")}))
        before = len(tree.policy("b").decisions)
        await tree.configure(root, Endpoints(parts={"a": given("xz"), "b": given("y")}))
        assert self.seen(tree, "a") == given("xz")
        assert len(tree.policy("b").decisions) == before
        assert tree.generations[-1] == 2

    async def test_an_answer_that_changes_nothing_goes_up_without_a_decision(self, tree):
        root = Wants("root", {"a": Wants("a", picker=QUEUE_PICKER)}, reads_endpoints=False)
        await tree.configure(root, given("x"))
        decided, told = len(tree.policy("root").decisions), tree.reports[-1]
        await tree.configure(root, given("xy"))
        assert len(tree.policy("root").decisions) == decided
        assert (tree.reports[-1].generation, tree.reports[-1].picker) == (2, told.picker)

    async def test_after_an_exception_a_policy_is_asked_again_whatever_comes(self, tree):
        root = Wants("root", {"a": Wants("a", picker=QUEUE_PICKER)}, reads_endpoints=False)
        await tree.configure(root, given("x"))
        await tree.configure(replace(root, raises=True), given("x"))
        before = len(tree.policy("root").decisions)
        await tree.configure(replace(root, raises=True), given("xy"))
        assert len(tree.policy("root").decisions) > before


class TestChildren:
    async def test_a_child_left_out_ends_at_once(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent())
        assert tree.hosts.leased == set()

    async def test_a_dead_child_cannot_speak_for_its_namesake(self, tree):
        await tree.configure(parent(a=Wants("old")))
        tree.policy("old").channel_control.notify_policy("one more report")
        await tree.configure(parent(a=Wants("new", policy="other")))
        heard = [report.picker for report in tree.reports if report.generation == 2]
        assert heard == [Texts("root", (Texts("new"),))]

    async def test_a_name_that_goes_and_comes_back_is_a_new_child(self, tree):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent())
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3, "the root and two of the same name"

    async def test_a_child_stays_warm_for_a_quarter_of_an_hour(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION - 1)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == {"x"}
        mock_clock.jump(1)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == set()

    async def test_warmth_is_counted_from_when_the_child_was_left_out(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION / 2)
        await tree.configure(parent("again", deactivate="a"))
        mock_clock.jump(CHILD_RETENTION / 2)
        await wait_all_tasks_blocked()
        assert tree.hosts.leased == set()

    async def test_a_child_that_is_wanted_again_is_the_same_and_stays(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION - 1)
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        mock_clock.jump(2 * CHILD_RETENTION)
        await wait_all_tasks_blocked()
        assert len(tree.made) == 2
        assert tree.hosts.history == ["+x"]

    async def test_a_child_whose_time_is_over_is_a_new_one(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION)
        await wait_all_tasks_blocked()
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3

    async def test_a_child_wanted_again_in_the_very_moment_its_time_is_over_is_a_new_one(self, tree, mock_clock):
        await tree.configure(parent(a=Wants("a")))
        await tree.configure(parent(deactivate="a"))
        mock_clock.jump(CHILD_RETENTION)  # nobody has run since
        await tree.configure(parent(a=Wants("a")))
        assert len(tree.made) == 3
        assert tree.reports[-1].generation == 3
        assert tree.reports[-1].picker == Texts("root", (Texts("a"),))

    async def test_a_kept_child_that_is_not_kept_any_more_ends_at_once(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        await tree.configure(parent(deactivate="a"))
        await tree.configure(parent())
        assert tree.hosts.leased == set()


class TestHosts:
    async def test_leases_match_the_decision(self, tree):
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

    async def test_hosts_that_are_to_connect_are_asked_to(self, tree):
        await tree.configure(Wants("leaf", hosts=("x", "y"), connect=("x",)))
        assert tree.hosts.known["x"].state is CONNECTING
        assert tree.hosts.known["y"].state is IDLE

    async def test_a_host_that_nobody_leases_is_not_connected(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        assert tree.hosts.known == {}

    async def test_a_host_held_by_picks_is_leased_once_and_let_go_once(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        channel_control = tree.made[0].channel_control
        assert channel_control.acquire("x") is channel_control.acquire("x") is tree.hosts.known["x"]
        assert tree.hosts.leases["x"] == 1
        channel_control.release("x")
        channel_control.release("x")
        assert tree.hosts.leases["x"] == 0

    async def test_a_host_held_by_picks_can_be_connected(self, tree):
        await tree.configure(Wants("leaf", connect=("x",)))
        tree.made[0].channel_control.acquire("x")
        tree.made[0].channel_control.notify_policy("x")
        await wait_all_tasks_blocked()
        assert tree.hosts.known["x"].state is CONNECTING

    async def test_letting_go_of_a_host_publishes_a_new_picker(self, tree):
        # An RPC may wait for that host, and its last letter went with the lease.
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.acquire("x")
        tree.hosts.change("x", FAILURE)
        tree.made[0].channel_control.release("x")
        await wait_all_tasks_blocked()
        assert len(tree.reports) == 2

    async def test_holding_and_deciding_are_two_leases(self, tree):
        await tree.configure(Wants("leaf", hosts=("x",)))
        tree.made[0].channel_control.acquire("x")
        await tree.configure(Wants("leaf"))
        assert tree.hosts.leases["x"] == 1

    async def test_a_step_caused_by_a_host_publishes_a_new_picker(self, tree):
        await tree.configure(parent(a=Wants("a", hosts=("x",))))
        before = tree.reports[-1]
        tree.hosts.change("x", READY)
        await wait_all_tasks_blocked()
        assert tree.reports[-1].picker == before.picker
        assert tree.reports[-1].picker is not before.picker
        assert tree.reports[-1].generation == before.generation


class TestWishes:
    async def test_wishes_are_merged(self, tree):
        await tree.configure(Wants("leaf"))
        for wish in ("one", "two", "one"):
            tree.made[0].channel_control.notify_policy(wish)
        await wait_all_tasks_blocked()
        assert [inputs.pick_events for inputs, _ in tree.made[0].decisions] == [frozenset(), {"one", "two"}]

    async def test_a_wish_is_told_once(self, tree):
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.notify_policy("one")
        await wait_all_tasks_blocked()
        await tree.configure(Wants("changed"))
        assert tree.made[0].decisions[-1][0].pick_events == frozenset()

    async def test_a_wish_is_not_lost_when_the_policy_decides_twice(self, tree):
        await tree.configure(Wants("leaf"))
        tree.made[0].channel_control.notify_policy("one")
        await tree.configure(Wants("leaf", hosts=("x",)))
        assert [inputs.pick_events for inputs, _ in tree.made[0].decisions[-2:]] == [{"one"}, {"one"}]

    async def test_a_wish_publishes_a_new_picker(self, tree):
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

    async def test_a_task_runs_while_it_is_named(self, tree):
        diary = []
        sweep = self.Task("sweep", diary)
        await tree.configure(Wants("leaf", tasks={"sweep": sweep}))
        await tree.configure(Wants("changed", tasks={"sweep": sweep}))
        assert diary == ["sweep begins"]
        await tree.configure(Wants("changed"))
        assert diary == ["sweep begins", "sweep ends"]

    async def test_another_callable_of_that_name_takes_its_place(self, tree):
        diary = []
        await tree.configure(Wants("leaf", tasks={"sweep": self.Task("first", diary)}))
        await tree.configure(Wants("leaf", tasks={"sweep": self.Task("second", diary)}))
        assert diary[0] == "first begins"
        assert set(diary[1:]) == {"first ends", "second begins"}

    async def test_tasks_of_other_names_are_left_alone(self, tree):
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

    async def test_it_is_asked_again_at_the_next_step(self, tree):
        await tree.configure(Wants("leaf", raises=True))
        await tree.configure(Wants("leaf"))
        assert tree.reports[-1].picker == Texts("leaf")

    async def test_its_siblings_go_on(self, tree):
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


async def test_a_policy_is_woken_when_it_asked_to_be(nursery, autojump_clock):
    tree = Tree(nursery)
    tree.send(Wants("leaf", wake_at=10.0))
    await trio.sleep(9)
    assert len(tree.made[0].decisions) == 1
    await trio.sleep(1.5)
    assert tree.made[0].decisions[1][1] == 10


async def test_a_policy_that_raises_when_it_is_woken_is_not_woken_again_at_once(nursery, autojump_clock):
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


async def test_news_of_many_hosts_are_not_gathered_past_the_time_to_wake(nursery, autojump_clock):
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


async def test_nothing_is_left_after_the_end():
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
    assert tree.mailbox.put("late", None) is not None, "letters to a node that is gone are dropped, not refused"


async def test_a_pick_from_the_picker_of_a_node_that_is_gone_keeps_no_host(tree):
    # RPCs go on picking from it until its parents have told that there is another.
    await tree.configure(parent(a=Wants("a")))
    hold = tree.policy("a").channel_control.acquire
    await tree.configure(parent())
    assert hold("x").address == "x"
    assert tree.hosts.leased == set()


async def test_others_run_while_a_thousand_hosts_are_leased_and_connected(tree):
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
