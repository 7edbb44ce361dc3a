"""A node runs one policy: it reads messages, has the policy decide, applies the decision and reports to its parent.

A node is a task with a nursery for its children and for its policy's own tasks, so the tree of nurseries is
the tree of policies. A parent never waits for a child: configuration goes down and reports come up by
queues, and each edge has its own generations (docs/adr/0003-generations.md).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from random import Random
from typing import Any

import trio
from msgspec import Struct, structs

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.core.observers import Observers
from trxds.core.policy_names import short_policy_name
from trxds.resources.cooperative_parse import Slices

from .child_policy import Child, Children, Configure, TreeNode
from .circuit_breakers import CircuitBreakers
from .guarded_policy import GuardedPolicy
from .host_trackers import HostTrackers
from .interfaces import SubchannelPoolInterface
from .load_report.load_store import LoadStore
from .pick import Drop, Fail, FixedPicker, Picker, TraceNote
from .policy import EMPTY_SET, ChannelControl, Decision, Policy, PolicyInputs, PolicyState
from .policy_node_snapshot import NodeSnapshot
from .policy_node_tasks import NO_TASKS, reconcile_tasks
from .registry import Registry
from .subchannel_leases import Leases
from .subtree import Ejections, Subtree

_log = logging.getLogger("trxds.lb")

# A host whose connection is lost is IDLE; one that could not be connected is in TRANSIENT_FAILURE.
_LOST_STATES = frozenset({Connectivity.TRANSIENT_FAILURE, Connectivity.IDLE})

_NO_CONFIG = Configure(None, 0)  # before the first one

_MAX_DECISIONS = 100  # in one step: a policy that wants other hosts each time would never end

# A node with so many hosts gathers their news, for so many seconds.
_MIN_HOSTS_TO_COALESCE = 50
_DELAY_PER_HOST = 20e-6
_MAX_DELAY = 0.05


class _PickEvent(Struct, frozen=True):
    """The sender of a message that a pick has passed `value` to the policy."""

    value: Hashable


class PolicyContext(Struct, frozen=True):
    """The values that all nodes of one channel share.

    `re_resolve` is called with a DNS name whose addresses may be out of date. `request_re_resolution`, in a channel
    whose addresses all come from one resolver, is called when a host fails or loses its connection. `log_decision`, if
    decisions are logged, is called with each.
    """

    registry: Registry
    hosts: SubchannelPoolInterface
    random: Random
    circuit_breakers: CircuitBreakers
    loads: LoadStore
    re_resolve: Callable[[str], object]
    request_re_resolution: Callable[[], object] | None
    observers: Observers
    log_decision: Callable[[Node, Connectivity, float], None] | None


class Node:
    """A policy and the task that runs it. `report` is called with each new state."""

    __slots__ = (  # a thousand clusters have seven thousand nodes
        "_children",
        "_context",
        "_hosts_with_news",
        "_last_report",
        "_last_step_at",
        "_leases",
        "_pick_events",
        "_policy",
        "_queue",
        "_report",
        "_subtree",
        "_tasks",
        "_update",
        "path",
        "policy_name",
    )

    def __init__(
        self,
        path: str,
        policy: str,
        context: PolicyContext,
        queue: ConflatingQueue[Any],
        report: Callable[[PolicyState], object],
        ejections: Ejections | None = None,
        trackers: HostTrackers | None = None,
    ) -> None:
        self.path = path
        self.policy_name = policy
        self._context = context
        self._queue = queue
        self._report = report
        self._update = _NO_CONFIG  # what is in force
        self._policy = GuardedPolicy(path, self._make_policy)
        self._subtree = Subtree(context.hosts, ejections, trackers)
        self._children = Children(context.hosts, queue, self)
        self._leases = Leases(context.hosts, queue, self._subtree.ejections)
        self._tasks = NO_TASKS  # the policy's
        # In the last messages:
        self._pick_events: frozenset[Hashable] = EMPTY_SET
        self._hosts_with_news: frozenset[str] = EMPTY_SET
        self._last_report: PolicyState | None = None
        self._last_step_at = -math.inf

    @property
    def endpoints(self) -> Any:
        """The endpoints in force, or the clusters' entries above the clusters."""
        return self._update.endpoints

    @property
    def pool(self) -> SubchannelPoolInterface:
        """The pool from which the policy leases its hosts."""
        return self._context.hosts

    @property
    def state(self) -> Connectivity:
        """The connectivity state that the node reported last."""
        return self._last_report.state if self._last_report is not None else Connectivity.CONNECTING

    async def run(self, child: Child | None = None) -> None:
        """Run the policy until this task is cancelled, or its parent ends `child`, which is this node.

        No child, task or lease of the node is left afterwards.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._children.nursery = nursery
                if child is not None:
                    child.begin(nursery.cancel_scope)
                while True:
                    many = len(self._leases.of_decision) >= _MIN_HOSTS_TO_COALESCE
                    news = self._gather_messages() if many else self._queue.next(self._policy.wake_at)
                    must_decide = self._read_messages(await news)
                    if self._update.config is None:
                        continue
                    if must_decide or self._policy.must_decide:
                        for _ in self._step():
                            await trio.lowlevel.checkpoint()
                    else:
                        self._pass_on()
        finally:
            # No await below: it would raise Cancelled, and the leases would stay.
            self._queue.close()
            self._subtree.end(self._queue)
            self._leases.release_all()
        # Reached if the nursery's own scope was cancelled, and not if the parent's was, which does not need to know.
        if child is not None:  # type: ignore[unreachable]
            child.parent.forget(child)

    async def _gather_messages(self) -> Mapping[Hashable, Any]:
        """Wait for messages; while the policy can serve, gather more of them for a moment if there are many hosts.

        Otherwise a thousand hosts that turn READY one by one would cost a thousand decisions about
        a thousand hosts each.
        """
        messages = await self._queue.next(self._policy.wake_at)
        # While RPCs wait, the first host that connects has to serve them at once.
        if self.state is not Connectivity.READY:
            return messages
        delay = min(_DELAY_PER_HOST * len(self._leases.of_decision), _MAX_DELAY)
        until = min(self._policy.wake_at, self._last_step_at + delay)
        # Only news of hosts wait: a configuration, a child's report or a pick's event ends the gathering at once.
        while trio.current_time() < until and all(isinstance(sender, tuple) for sender in messages):
            messages |= await self._queue.next(until)
        return messages

    # -- one step: synchronous, so that nothing can change during a decision

    def pass_on(self, update: Configure | None = None) -> bool:
        """Pass on, in the sender's step, what changes nothing for the policy; return whether that could be done.

        It is the `update` of endpoints that the policy does not read, or without it the children's answer. The node's
        own task must wait for a message, or it may be in the middle of a step. So of the eight nodes between a cluster
        and its endpoints only three run when an endpoint is added.
        """
        if not self._queue.has_parked_reader or self._policy.must_decide:
            return False
        if update is not None:
            if self._policy.reads_endpoints or update.config is not self._update.config:
                return False
            self._update = update
        self._pass_on()
        return True

    def _pass_on(self) -> None:
        """Pass up a report that changes nothing, and down endpoints that the policy does not read."""
        decision, update, children = self._policy.decision, self._update, self._children
        if children.endpoints is not update.endpoints:
            # A child may answer at once, and must not pass for all while the others have not been sent anything.
            children.num_awaited += 1
            children.reconcile(decision, update.endpoints, update.generation, trio.current_time(), self._start)
            children.num_awaited -= 1
        self._publish(decision)

    def _step(self) -> Slices[None]:
        """Decide and apply the decision; yield where other tasks may run, between slices of thousands of hosts."""
        now = self._last_step_at = trio.current_time()
        if self._children.may_be_switching:
            self._children.finish_switches()
        decision = self._policy.decide(self._make_inputs(), now)
        # A decision cannot see the state of the hosts that it leases, so another one follows. That may lease more, past
        # a host that says NOT_SERVING, say, which a session had connected (A17, A61).
        for _ in range(_MAX_DECISIONS):
            if decision.hosts == self._leases.wanted:
                break
            if not (yield from self._leases.lease_exactly(decision.hosts)):
                break
            if len(self._leases.of_decision) >= _MIN_HOSTS_TO_COALESCE:
                yield
                now = trio.current_time()
            decision = self._policy.decide(self._make_inputs(), now)
        self._subtree.apply(decision)
        # The subtree comes first: the children lease from its hosts.
        update, children = self._update, self._children
        if decision.children or children.by_name:
            children.hosts = self._subtree.hosts
            children.reconcile(decision, update.endpoints, update.generation, now, self._start)
            if self._policy.connects_idle_children:
                children.connect_idle()
        if decision.tasks or self._tasks:
            self._tasks = reconcile_tasks(self._tasks, decision.tasks, children.nursery, self.path)
        if decision.re_resolve:
            self._context.re_resolve(decision.re_resolve)
        if self._context.log_decision is not None:
            self._context.log_decision(self, decision.state, now)
        self._publish(decision)
        if decision.connect:
            yield from self._leases.connect(decision.connect)

    def _read_messages(self, messages: Mapping[Hashable, Any]) -> bool:
        """Record the messages; return whether the policy has to decide. Without a message its `wake_at` has come."""
        news, hosts, pick_events = not messages, [], []
        for sender, message in messages.items():
            if isinstance(sender, Child):
                news |= sender.is_news(message)
                sender.record_report(message)
            elif isinstance(message, Configure):
                before, self._update = self._update, message
                reads = message.endpoints is not before.endpoints and self._policy.reads_endpoints
                # By identity first: most messages have other endpoints and the configuration of the last one.
                news |= reads or (message.config is not before.config and message.config != before.config)
            else:
                news = True
                if isinstance(sender, tuple):  # ("host", address)
                    hosts.append(sender[1])
                elif isinstance(sender, _PickEvent):
                    pick_events.append(sender.value)
        self._hosts_with_news = frozenset(hosts) if hosts else EMPTY_SET
        self._pick_events = frozenset(pick_events) if pick_events else EMPTY_SET
        re_resolve = self._context.request_re_resolution
        if re_resolve is not None and any(messages["host", each].state in _LOST_STATES for each in hosts):
            re_resolve()
        return news

    def _make_policy(self) -> Policy:
        context, leases = self._context, self._leases
        channel_control = ChannelControl(
            self._notify_policy,
            leases.acquire,
            leases.release,
            context.hosts.lookup,
            context.random,
            context.circuit_breakers,
            context.loads,
            context.observers,
            self.path,
        )
        return context.registry.make(self.policy_name, channel_control)

    def _notify_policy(self, event: Hashable) -> None:
        # One message for each value, however many of the RPCs raise it.
        self._queue.put(_PickEvent(event), None)

    def _make_inputs(self) -> PolicyInputs:
        return PolicyInputs(
            self._update.config,
            self._children.reports() if self._children.by_name else {},
            self._leases.hosts,
            self._pick_events,
            self._subtree.ejections.ejected,
            self._update.endpoints,
            self._hosts_with_news,
        )

    def _publish(self, decision: Decision) -> None:
        """Report to the parent, once every child has answered the configuration that it was sent.

        Until then another step is certain, and a report of half a change would make every node
        above decide once more for each level below.
        """
        # Pickers are compared by identity: an equal but new one makes queued RPCs pick again.
        state, picker, generation, last = decision.state, decision.picker, self._update.generation, self._last_report
        if (
            last is not None
            and last.picker is picker
            and last.state is state
            and last.generation == generation
            and last.in_first_pass is decision.in_first_pass
        ):
            return
        if not self._children.num_awaited:
            self._last_report = PolicyState(state, picker, generation, decision.in_first_pass)
            self._report(self._last_report)

    # -- children

    def _start(self, child: Child) -> TreeNode:
        """Start the task of a child, and return its node."""
        # Its name in paths is its policy's, where the policy above has one child and no name for it.
        label = short_policy_name(child.policy) if child.name == self._policy.only_child else child.name
        # Hosts with other security are another pool, for the whole subtree below.
        same = child.hosts is self._context.hosts
        context = self._context if same else structs.replace(self._context, hosts=child.hosts)
        path, below = f"{self.path}/{label}", (self._subtree.ejections_below, self._subtree.trackers_below)
        node = Node(path, child.policy, context, child.queue, child.post_report, *below)
        self._children.nursery.start_soon(node.run, child, name=f"lb/{path}")
        return node

    def exit_idle(self) -> None:
        """Have the IDLE policies of this subtree connect without an RPC. Does not block."""
        if self._policy.exit_idle():
            self._queue.put("wake", None)
        for child in self._children.active_nodes():
            child.exit_idle()

    # -- explaining

    @property
    def picker(self) -> Picker | None:
        """The picker that the node reported last; None before its first report."""
        return self._last_report.picker if self._last_report is not None else None

    @property
    def is_settled(self) -> bool:
        return self._queue.idle and self._children.are_settled

    def describe(self, now: float) -> str:
        """Describe what the policy sees; if it has no description, the state that it reported."""
        outside = f"itself {self._last_report.state.name}" if self._last_report is not None else "nothing yet"
        return self._policy.describe(self._make_inputs(), now) or outside

    def handed_on(self) -> TraceNote | None:
        """Return the reason why its picker is a child's; None if it is the policy's own."""
        if self._policy.handed_on is not None:
            return self._policy.handed_on
        for name, report in self._children.reports().items():
            if report.picker is self.picker:
                return TraceNote("its picker is this child's", name)
        return None

    def child(self, name: str) -> TreeNode | None:
        """Return the child that picks under `name`, or the only child if it is empty; None before it has decided."""
        child = self._children.by_name.get(name) if name else self._children.only_child
        return child.active.node if child is not None and child.active.report is not None else None

    def snapshot(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]:
        """Yield a snapshot of this node under `path`, then of all nodes below it."""
        says = self.describe(trio.current_time())
        match self.picker:
            case FixedPicker(Fail(status) | Drop(status)) if status.message not in says:
                says = f"{says}; {status.message}"
        ejected = self._subtree.ejections_below.ejected
        update, hosts = self._update, self._leases.all_hosts()
        yield NodeSnapshot(
            path, parent, self.policy_name, self.state, says, update.config, hosts, ejected, warm, update.endpoints
        )
        for child, kept, suffix in self._children.all_children():
            label = child.path.removeprefix(f"{self.path}/")
            yield from child.snapshot(f"{path}/{label}{suffix}", path, warm or kept)

    def __repr__(self) -> str:
        state = self._last_report.state.name if self._last_report else "undecided"
        return f"<Node {self.path} {state}, {len(self._children.by_name)} children>"
