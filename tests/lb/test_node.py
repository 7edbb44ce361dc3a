"""A node applies its policy's decisions and reports to its parent (ADR 2 and 3)."""

from dataclasses import replace

import trio
from support.policies import endpoint_set
from support.tree import Texts, Tree, Wants, parent
from trio.testing import wait_all_tasks_blocked

from trxds.lb.endpoint_set import Endpoints
from trxds.lb.pick import QUEUE_PICKER


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
