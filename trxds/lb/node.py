"""The one shell around every policy: letters in, one decision, the world made to match, one report.

A node is a task with a nursery for its children and for its policy's own tasks, so the task
tree is the policy tree; a leaf, which has neither, does without the nursery. A parent never waits
for a child: configuration goes down and reports come up by mailboxes, and each edge has its own
stamps (DESIGN §3).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import trio

from trxds.ground.channels import Mailbox
from trxds.ground.connectivity import Connectivity
from trxds.ground.observers import Observers
from trxds.ground.status import Status, StatusCode
from trxds.resources.slices import Slices

from .children import Children
from .edge import Child, Configure
from .explain import Describes, TreeNode
from .health import Health
from .host_trackers import HostTrackers
from .leases import Leases
from .limits import Limits
from .load_report.load_store import LoadCounts
from .node_snapshot import NodeSnapshot
from .pick import QUEUEING, Always, Drop, Fail, Picker, TraceNote, Tracker, failing
from .policy import Decision, Inputs, Policy, Report, Rests, Surroundings
from .ports import Hosts
from .registry import Registry
from .security import Security

_log = logging.getLogger("trxds.lb")

_LOST = frozenset({Connectivity.TRANSIENT_FAILURE, Connectivity.IDLE})

Task = Callable[[], Awaitable[None]]

_NOTHING = Configure(None, 0)  # yet

# Seconds for which news of hosts may wait for more of them.
_MANY_HOSTS = 50
_PATIENCE_A_HOST = 20e-6
_MOST_PATIENCE = 0.05


def _ignore(name: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Tree:
    """What all nodes of one channel share. `resolve_again` is told the DNS name that may be out of date.

    `lost`, where the addresses of all hosts come from one place, is told when one of them fails or its connection ends.
    """

    registry: Registry
    hosts: Hosts
    random: Random
    limits: Limits = field(default_factory=Limits)
    loads: LoadCounts = field(default_factory=LoadCounts)
    resolve_again: Callable[[str], object] = _ignore
    lost: Callable[[], object] | None = None
    observers: Observers = field(default_factory=Observers)


class Node:
    """One policy at work. `report` is told each time that something changed."""

    def __init__(
        self,
        path: str,
        policy: str,
        tree: Tree,
        mailbox: Mailbox[Any],
        report: Callable[[Report], object],
        health: Health | None = None,
        trackers: HostTrackers | None = None,
    ) -> None:
        self.path = path
        self._name = policy
        self._health = health or Health()  # who is ejected above us
        self._health_below = self._health  # another one once our policy ejects hosts itself
        self._trackers = trackers  # where we attach ours, if anybody above wants to know
        self._trackers_below = trackers
        self._attached: Mapping[str, Tracker] | None = None
        self._tree = tree
        self._security: Security | None = None  # how our policy wants the hosts below to be reached
        self._hosts_with_news: frozenset[str] = frozenset()  # in the last letters
        self._mailbox = mailbox
        self._tell = report
        self._wishes: set[Hashable] | None = None
        self._given = _NOTHING  # what is in force
        self._children = Children(tree.hosts, mailbox)
        self._leases = Leases(tree.hosts, mailbox)
        self._health.follow(mailbox, self._leases.decided)
        self._tasks: dict[str, tuple[Task, trio.CancelScope]] = {}
        self._begun: dict[str, Task] = {}  # by the last step, by the name of the task that each is to be
        self._policy: Policy | None = None  # made by the first decision
        self._raised = False  # in the last one
        self._decision = Decision(Connectivity.CONNECTING, QUEUEING)  # the last one
        self._last: Report | None = None
        self._stepped = -math.inf
        self._wake_at = math.inf

    @property
    def endpoints(self) -> Any:
        """Those in force, or what else is beside the configuration."""
        return self._given.endpoints

    @property
    def state(self) -> Connectivity:
        """What it reported last."""
        return self._last.state if self._last is not None else Connectivity.CONNECTING

    async def run(self, scope: trio.CancelScope | None = None, over: Callable[[], object] | None = None) -> None:
        """Until it or `scope` is cancelled; `over` is called if it was the scope.

        Nothing of the node is left afterwards: no child, no task, no lease.
        """
        # The scope is here and not in a coroutine around this one, for a frame more is resumed at each letter.
        with scope or trio.CancelScope():
            try:
                while not self._begun:
                    many = len(self._leases.decided) >= _MANY_HOSTS
                    for _ in self._take(await (self._gathered() if many else self._mailbox.next(self._wake_at))):
                        await trio.lowlevel.checkpoint()
                async with trio.open_nursery() as nursery:
                    while True:
                        if self._begun:
                            self._spawn(nursery)
                        many = len(self._leases.decided) >= _MANY_HOSTS
                        for _ in self._take(await (self._gathered() if many else self._mailbox.next(self._wake_at))):
                            await trio.lowlevel.checkpoint()
            finally:
                self._mailbox.close()
                self._health.leave(self._mailbox)
                if self._health_below is not self._health:
                    self._health_below.end()
                if self._trackers is not None:
                    self._trackers.detach(self)
                self._leases.release()
        if over is not None:
            over()

    def _spawn(self, nursery: trio.Nursery) -> None:
        begun, self._begun = self._begun, {}
        for name, task in begun.items():
            nursery.start_soon(task, name=name)

    async def _gathered(self) -> Mapping[Hashable, Any]:
        """What is new; while the policy can serve, news of many hosts are gathered for a moment.

        A thousand hosts that turn READY one by one would otherwise cost a thousand decisions of
        a thousand hosts each.
        """
        letters = await self._mailbox.next(self._wake_at)
        if self.state is not Connectivity.READY:
            return letters
        patience = min(_PATIENCE_A_HOST * len(self._leases.decided), _MOST_PATIENCE)
        calm_at = min(self._wake_at, self._stepped + patience)
        while trio.current_time() < calm_at and all(map(_of_a_host, letters)):
            letters |= await self._mailbox.next(calm_at)
        return letters

    # -- one step: plain, so that nothing can change under a decision

    def _take(self, letters: Mapping[Hashable, Any]) -> Iterable[None]:
        """Decide anew if there is anything new to decide about; otherwise hand on what is for others."""
        news = self._read(letters)
        given = self._given
        if given.config is None:
            return ()
        if news or self._raised or self._policy is None:
            return self._step()
        # A child's answer that changes nothing goes up, and endpoints that the policy does not read go down: of the
        # eight nodes between a cluster and its endpoints three have to decide when an endpoint comes.
        if self._children.endpoints is not given.endpoints:
            self._children.match(self._decision, given.endpoints, given.generation, trio.current_time(), self._start)
        self._publish(self._decision)
        return ()

    def _step(self) -> Slices[None]:
        """It yields where others may run before it goes on: between hosts, if there are thousands."""
        now = self._stepped = trio.current_time()
        if self._children.switching:
            self._children.finish_switches()
        wishes, self._wishes = frozenset(self._wishes or ()), None
        decision = self._decide(wishes, now)
        if decision.hosts != self._leases.wanted and (yield from self._leases.lease_exactly(decision.hosts)):
            if len(self._leases.decided) >= _MANY_HOSTS:
                yield
                now = trio.current_time()
            decision = self._decide(wishes, now)  # now that it can see them
        self._wake_at = decision.wake_at
        self._carry_out(decision, now)
        self._publish(decision)
        if decision.connect:
            yield from self._leases.connect(decision.connect)

    def _read(self, letters: Mapping[Hashable, Any]) -> bool:
        """Return whether the policy has anything new to decide about; without letters, its time has come."""
        news, hosts = not letters, []
        for sender, letter in letters.items():
            if isinstance(sender, Child):
                news |= sender.take(letter)
            elif isinstance(letter, Configure):
                before, self._given = self._given, letter
                reads = letter.endpoints is not before.endpoints and getattr(self._policy, "reads_endpoints", True)
                news |= reads or letter.config != before.config
            else:
                news = True
                if isinstance(sender, tuple):  # ("host", address)
                    hosts.append(sender[1])
        self._hosts_with_news = frozenset(hosts)
        if self._tree.lost is not None and any(map(_is_loss, letters.items())):
            self._tree.lost()
        return news

    def _decide(self, wishes: frozenset[Hashable], now: float) -> Decision:
        try:
            if self._policy is None:
                self._policy = self._make_policy()
            decision = self._policy.decide(self._inputs(wishes), now)
            if type(decision) is not Decision:
                raise TypeError(f"a policy decides by a Decision, not by {decision!r}")
            self._raised = False
            self._decision = decision
            return decision
        except Exception:
            # A policy may be the user's own: its bug fails this subtree, not the whole channel.
            self._raised = True
            _log.exception("policy %s raised; its RPCs fail until it decides again", self.path)
            status = Status(StatusCode.INTERNAL, f"load balancing policy {self.path} raised an exception, see the log")
            # All else stays as it was, so that the next decision finds its children and hosts. A time that
            # has come is over: it would wake the policy again at once, and for ever.
            wake_at = self._decision.wake_at if self._decision.wake_at > now else math.inf
            return replace(
                self._decision, state=Connectivity.TRANSIENT_FAILURE, picker=failing(status), wake_at=wake_at
            )

    def _make_policy(self) -> Policy:
        tree, leases = self._tree, self._leases
        surroundings = Surroundings(
            self._wish,
            leases.hold,
            leases.let_go,
            tree.hosts.find,
            tree.random,
            tree.limits,
            tree.loads,
            tree.observers,
            self.path,
        )
        return tree.registry.make(self._name, surroundings)

    def _wish(self, wish: Hashable) -> None:
        if self._wishes is None:
            self._wishes = set()
        self._wishes.add(wish)
        self._mailbox.put("wish", None)

    def _inputs(self, wishes: frozenset[Hashable]) -> Inputs:
        reports, hosts = self._children.reports(), self._leases.hosts
        given, news = self._given, self._hosts_with_news
        return Inputs(given.config, reports, hosts, wishes, self._health.ejected, given.endpoints, news)

    def _publish(self, decision: Decision) -> None:
        """Tell the parent, once every child has answered what it was sent.

        Until then another step is certain, and to report half of a change would make every node
        above step once more for each level below.
        """
        if not self._children.answered:
            return
        # The picker by identity: an equal but new one is how queued RPCs are told to look again.
        state, picker, generation, last = decision.state, decision.picker, self._given.generation, self._last
        if last is None or last.picker is not picker or last.state is not state or last.generation != generation:
            self._last = Report(state, picker, generation)
            self._tell(self._last)

    # -- making the world match

    def _carry_out(self, decision: Decision, now: float) -> None:
        if decision.ejected is not None:
            self._eject(decision.ejected)
        if decision.security is not self._security:
            self._secure(decision.security)
        if decision.collects is not None:
            self._trackers_below = decision.collects
        if decision.trackers is not self._attached:
            self._attach(decision.trackers)
        self._children.match(decision, self._given.endpoints, self._given.generation, now, self._start)
        if decision.tasks or self._tasks:
            self._shape_tasks(decision.tasks)
        if decision.resolve_again:
            self._tree.resolve_again(decision.resolve_again)

    def _eject(self, ejected: frozenset[str]) -> None:
        if self._health_below is self._health:
            self._health_below = Health(self._health)
        self._health_below.eject(ejected)

    def _secure(self, security: Security | None) -> None:
        self._security = security
        self._children.hosts = self._tree.hosts.over(security.of) if security is not None else self._tree.hosts

    def _attach(self, trackers: Mapping[str, Tracker] | None) -> None:
        self._attached = trackers
        if self._trackers is not None:
            self._trackers.attach(self, trackers or {})

    def _start(self, child: Child) -> None:
        path = f"{self.path}/{child.name}"
        self._begun[f"lb/{path}"] = partial(self._run_child, child, path)

    def _run_child(self, child: Child, path: str) -> Awaitable[None]:
        tree = self._tree if child.hosts is self._tree.hosts else replace(self._tree, hosts=child.hosts)
        below = self._health_below, self._trackers_below
        node = child.node = Node(path, child.policy, tree, child.mailbox, child.tell, *below)
        return node.run(child.scope, partial(self._children.over, child))

    def _shape_tasks(self, wanted: Mapping[str, Task]) -> None:
        for name in self._tasks.keys() - wanted.keys():
            self._tasks.pop(name)[1].cancel(reason="the policy does not want it any more")
        for name, task in wanted.items():
            if name in self._tasks and self._tasks[name][0] is task:
                continue
            if name in self._tasks:
                self._tasks[name][1].cancel(reason="replaced")
            scope = trio.CancelScope()
            self._tasks[name] = task, scope
            label = f"{self.path} {name}"
            self._begun[f"lb/{label}"] = partial(_run_task, task, scope, label)

    def wake(self) -> None:
        """Have whoever rests down here connect without waiting for an RPC. Plain."""
        policy: object = self._policy
        if isinstance(policy, Rests):
            policy.wake()
            self._mailbox.put("wake", None)
        for child in self._children.nodes():
            child.wake()

    # -- explaining

    @property
    def picker(self) -> Picker | None:
        """What it reported last."""
        return self._last.picker if self._last is not None else None

    @property
    def settled(self) -> bool:
        return self._mailbox.quiet and self._children.settled

    @property
    def policy_name(self) -> str:
        return self._name

    def describe(self, now: float) -> str:
        """Say what its policy sees; of one that does not say so, where it stands."""
        try:
            policy: object = self._policy
            inputs = self._inputs(frozenset())
            if isinstance(policy, Describes) and not self._raised and (says := policy.describe(inputs, now)):
                return says
        except Exception:
            # This is asked ten times a second, so a user's policy that raises is no news.
            _log.debug("policy %s raised when it was to describe itself", self.path, exc_info=True)
        return f"itself {self._last.state.name}" if self._last is not None else "nothing yet"

    def handed_on(self) -> TraceNote | None:
        """Why its picker is a child's, if it is: by the decision, or because it is the same object."""
        if self._raised or self._last is None or self._decision.handed_on is not None:
            return None if self._raised else self._decision.handed_on
        for name, report in self._children.reports().items():
            if report.picker is self._last.picker:
                return TraceNote("its picker is this child's", name)
        return None

    def child(self, name: str) -> TreeNode | None:
        """The one whose picker counts under that name, or its only child; None before the first decision."""
        child = self._children.get(name) if name else self._children.only
        return child.speaker.node if child is not None and child.heard is not None else None

    def survey(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]:
        """Itself under that name, then all below it."""
        says, problem = self.describe(trio.current_time()), _fails_all(self._last)
        if problem is not None and problem.message not in says:
            says = f"{says}; {problem.message}"
        ejected = self._health_below.ejected
        given, hosts = self._given, self._leases.all()
        yield NodeSnapshot(
            path, parent, self._name, self.state, says, given.config, hosts, ejected, warm, given.endpoints
        )
        for name, child, kept in self._children.everybody():
            yield from child.survey(f"{path}/{name}", path, warm or kept)

    def __repr__(self) -> str:
        state = self._last.state.name if self._last else "undecided"
        return f"<Node {self.path} {state}, {len(self._children)} children>"


def _fails_all(last: Report | None) -> Status | None:
    match last:
        case Report(picker=Always(Fail(status) | Drop(status))):
            return status
    return None


def _of_a_host(sender: Hashable) -> bool:
    return isinstance(sender, tuple) and sender[0] == "host"


def _is_loss(letter: tuple[Hashable, Any]) -> bool:
    sender, host = letter
    return _of_a_host(sender) and host.state in _LOST


async def _run_task(task: Task, scope: trio.CancelScope, name: str) -> None:
    with scope:
        try:
            await task()
        except Exception:
            _log.exception("task %s of a policy raised; it is over", name)
