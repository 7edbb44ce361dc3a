"""A node makes, keeps and ends the children that its policy's decisions name."""

from support.tree import Texts, Wants, parent
from trio.testing import wait_all_tasks_blocked

from trxds.lb.policy import CHILD_RETENTION


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
