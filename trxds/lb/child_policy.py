"""The children of one node are started, configured and ended as the policy's decision says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import trio
from msgspec import Struct

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity

from .endpoint_set import NO_ENDPOINTS
from .interfaces import SubchannelPoolInterface
from .pick import Picker, TraceNote
from .policy import CHILD_RETENTION, Decision, LbConfig, PolicyState
from .policy_node_snapshot import NodeSnapshot

_MIN_CHILDREN_TO_COMPARE = 8  # fewer are visited sooner than they are copied and compared


class Configure(Struct, frozen=True, gc=False):
    """A message from the parent: the configuration and endpoints to use from now on."""

    config: LbConfig | None
    generation: int

    # A policy above the clusters gets entries of clusters in place of endpoints.
    endpoints: Any = NO_ENDPOINTS


class TreeNode(Protocol):
    """A node of the policy tree, as its parent, its children and an explanation see it."""

    path: str
    policy_name: str

    @property
    def picker(self) -> Picker | None:
        """The picker that the node reported last."""

    @property
    def is_settled(self) -> bool:
        """Return whether no message is on its way through the subtree, so that parents and children agree."""

    def describe(self, now: float) -> str:
        """Return what the node's policy sees, in words."""

    def handed_on(self) -> TraceNote | None:
        """Return the reason why the node's picker is a child's; None if it is its own."""

    def child(self, name: str) -> TreeNode | None:
        """Return the child that picks under `name`, or the only child if it is empty; None before it has decided."""

    def pass_on(self, update: Configure | None = None) -> bool:
        """Pass on, in the caller's step, what changes nothing for the policy; return whether that could be done.

        It is the `update` of the endpoints, down, or the children's answer, up.
        """
        ...

    def exit_idle(self) -> None: ...

    def snapshot(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]: ...


class Child:
    """A child policy as its parent sees it. Reports carry this object, so an ended child cannot report for a new one.

    When a name gets another policy, or other `hosts` to lease, the old child becomes the new one's `current`
    (graceful switch): it goes on picking until the new one leaves CONNECTING. It is sent nothing meanwhile, and
    the parent does not wait for it.
    """

    __slots__ = (
        "_ends_at",
        "_is_cancelled",
        "_scope",
        "awaited",
        "config",
        "current",
        "endpoints",
        "hosts",
        "is_deactivated",
        "name",
        "node",
        "parent",
        "policy",
        "queue",
        "report",
    )

    node: TreeNode

    def __init__(
        self, name: str, policy: str, hosts: SubchannelPoolInterface, parent: Children, current: Child | None
    ) -> None:
        self.name = name
        self.policy = policy
        self.hosts = hosts
        self.parent = parent
        self.current = current
        # The scope of its nursery, once its task runs: a scope of its own would be five more objects for each node.
        self._scope: trio.CancelScope | None = None
        self._is_cancelled = False
        self._ends_at = math.inf
        self.queue: ConflatingQueue[Any] = ConflatingQueue()
        # What was sent last.
        self.config: LbConfig | None = None
        self.endpoints: Any = None
        self.awaited: int | None = None  # the generation of that, until the child has decided by it
        self.report: PolicyState | None = None
        self.is_deactivated = False  # A56: it keeps its connections, is sent nothing and not waited for

    def begin(self, scope: trio.CancelScope) -> None:
        """Note the scope of the child's task, which runs from now on; the parent may have ended the child before."""
        self._scope = scope
        scope.deadline = self._ends_at
        if self._is_cancelled:
            self.cancel()

    def cancel(self) -> None:
        """End the child's task, if need be as soon as it begins."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel(reason=f"the policy has no child {self.name!r} any more")

    def send(self, config: LbConfig, endpoints: Any, generation: int) -> None:
        """Send the child its configuration, unless it is unchanged; an equal one is sent as the same object again."""
        if self.config is config or self.config == config:
            if self.endpoints is endpoints or self.endpoints == endpoints:
                return
            assert self.config is not None
            # The old object, so that the levels below find an unchanged configuration by identity.
            config = self.config
        self.config, self.endpoints = config, endpoints
        if self.report is None or self.report.generation < generation:
            self.parent.num_awaited += self.awaited is None
            self.awaited = generation
        update = Configure(config, generation, endpoints)
        if not self.node.pass_on(update):
            self.queue.put("config", update)

    def stop_awaiting(self) -> None:
        """Have the parent no longer wait until the child has decided by what it was sent."""
        if self.awaited is not None:
            self.awaited = None
            self.parent.num_awaited -= not self.is_deactivated

    def post_report(self, report: PolicyState) -> None:
        """Post the child's decision to its parent. If the parent has ended the child, it changes nothing there."""
        parent = self.parent
        if not self.is_news(report):
            self.record_report(report)
            if parent.node.pass_on():
                return
        parent.queue.put(self, report)

    def record_report(self, report: PolicyState) -> None:
        """Record a report of the child, and whether it is the answer that its parent waits for."""
        self.report = report
        if self.awaited is not None and report.generation >= self.awaited:
            self.stop_awaiting()

    def is_news(self, report: PolicyState) -> bool:
        """Return whether the parent has to decide again because of this report."""
        before = self.report
        if self.is_deactivated:
            return False  # no decision depends on a deactivated child
        # While this child replaces another one, any report may be the one that ends the switch.
        if before is None or self.current is not None:
            return True
        # By identity: a new picker, even an equal one, has to reach the RPCs that wait.
        return (
            before.picker is not report.picker
            or before.state is not report.state
            or before.in_first_pass is not report.in_first_pass
        )

    @property
    def is_active(self) -> bool:
        """Return whether this child picks, and not the one that it replaces."""
        old = self.current
        # As in C-core's ChildPolicyHandler: an old policy that cannot serve is no reason to wait for the new one.
        if old is None or old.report is None or old.report.state is not Connectivity.READY:
            return True
        return self.report is not None and self.report.state is not Connectivity.CONNECTING

    @property
    def active(self) -> Child:
        """The child that picks under this name."""
        return self if self.current is None else self.current

    def deactivate(self, now: float) -> None:
        if not self.is_deactivated:
            # The deadline ends the child's task, so a deactivated child needs no timer of its own (A56).
            self.is_deactivated = True
            self.parent.num_awaited -= self.awaited is not None
            self._end_at(now + CHILD_RETENTION)

    def reactivate(self) -> bool:
        """Have the child go on; return whether it does: its time may have just run out."""
        if self._scope is not None and self._scope.cancel_called:
            return False
        self.is_deactivated = False
        self.parent.num_awaited += self.awaited is not None
        self._end_at(math.inf)
        return True

    def _end_at(self, deadline: float) -> None:
        self._ends_at = deadline
        if self._scope is not None:
            self._scope.deadline = deadline


class Children:
    """All children of a node by name, deactivated ones too. New children lease from `hosts`."""

    __slots__ = (
        "_last_wanted",
        "by_name",
        "endpoints",
        "hosts",
        "may_be_switching",
        "node",
        "num_awaited",
        "nursery",
        "queue",
    )

    nursery: trio.Nursery  # of their tasks

    def __init__(self, hosts: SubchannelPoolInterface, queue: ConflatingQueue[Any], node: TreeNode) -> None:
        self.node = node  # whose children they are
        self.hosts = hosts
        self.queue = queue  # for the reports of the children
        self.by_name: dict[str, Child] = {}
        # The arguments of the last `reconcile`, if there are many children: most calls have the same ones.
        self._last_wanted: tuple[object, ...] | None = None
        self.endpoints: Any = None
        self.may_be_switching = False  # False only if no child replaces another
        # How many children have not decided yet by what they were sent, apart from deactivated ones. A count, because
        # each report of one of a thousand children asks for it.
        self.num_awaited = 0

    @property
    def only_child(self) -> Child | None:
        """The one child of a policy that never has more, if it exists."""
        return next(iter(self.by_name.values()), None)

    def active_nodes(self) -> Iterator[TreeNode]:
        """Yield the nodes of the children that are not deactivated."""
        return (child.node for child in self.by_name.values() if not child.is_deactivated)

    def connect_idle(self) -> None:
        """Have the children that are IDLE connect without an RPC."""
        for child in self.by_name.values():
            report = child.active.report
            if report is not None and report.state is Connectivity.IDLE and not child.is_deactivated:
                child.active.node.exit_idle()

    def all_children(self) -> Iterator[tuple[TreeNode, bool, str]]:
        """Yield each child's node, whether it is deactivated, and " (before)" for one that is being replaced."""
        for child in tuple(self.by_name.values()):
            yield child.node, child.is_deactivated, ""
            if child.current is not None:
                yield child.current.node, False, " (before)"

    @property
    def are_settled(self) -> bool:
        return all(node.is_settled for node in self.active_nodes())

    def reports(self) -> dict[str, PolicyState]:
        """Return the states that a decision sees, by the children's names."""
        reports: dict[str, PolicyState] = {}
        for name, child in self.by_name.items():
            report = (child.current or child).report
            if report is not None:
                reports[name] = report
        return reports

    def reconcile(
        self, decision: Decision, endpoints: Any, generation: int, now: float, start: Callable[[Child], TreeNode]
    ) -> None:
        """Start, configure, deactivate and end children until they are those of the decision.

        Each child gets its part of the policy's `endpoints`, unless the decision names other endpoints for it. `start`
        starts the task of a new child, and returns its node.
        """
        wanted = None
        if len(decision.children) >= _MIN_CHILDREN_TO_COMPARE:
            wanted = self.hosts, dict(decision.children), decision.deactivate, decision.endpoints
            if endpoints is self.endpoints and wanted == self._last_wanted:
                return  # the common case: one of a thousand children has reported
        own_endpoints, hosts = decision.endpoints, self.hosts
        self._last_wanted, self.endpoints = wanted, endpoints
        for name, config in decision.children.items():
            child = self.by_name.get(name)
            # A child with another policy or other hosts is replaced, and so is one whose time has just run out.
            if (
                child is None
                or child.policy != config.policy
                or child.hosts is not hosts
                or (child.is_deactivated and not child.reactivate())
            ):
                child = self._create(name, config.policy, start)
            part = own_endpoints[name] if own_endpoints is not None and name in own_endpoints else endpoints.part(name)
            # Often both are as before: a child has reported, and what the children get does not depend on reports.
            if child.config is not config or child.endpoints is not part:
                child.send(config, part, generation)
        # Every wanted child exists by now, so equal sizes mean that no other one is left.
        if len(self.by_name) == len(decision.children):
            return
        for name in [name for name in self.by_name if name not in decision.children]:
            if name in decision.deactivate:
                self.by_name[name].deactivate(now)
            else:
                self._remove(name)

    def finish_switches(self) -> None:
        """End each child whose replacement has left CONNECTING."""
        self.may_be_switching = False
        for child in self.by_name.values():
            if child.current is not None and child.is_active:
                self._cancel(child.current)
                child.current = None
            self.may_be_switching |= child.current is not None

    def forget(self, child: Child) -> None:
        """Forget a child whose task has ended because its time as a deactivated child is over."""
        # By identity, because the name may belong to a new child by then.
        if self.by_name.get(child.name) is child:
            self._remove(child.name)

    # -- one child

    def _create(self, name: str, policy: str, start: Callable[[Child], TreeNode]) -> Child:
        before = self._keep_picking_child(self.by_name.get(name))
        if before is not None:
            before.stop_awaiting()
        child = self.by_name[name] = Child(name, policy, self.hosts, self, before)
        self.may_be_switching |= before is not None
        child.node = start(child)
        return child

    def _keep_picking_child(self, child: Child | None) -> Child | None:
        """Return the child that picks while a new one of its name connects, and end the others of that name."""
        if child is None:
            return None
        # As in C-core's ChildPolicyHandler: a third policy ends the second one, and the first goes on picking.
        # A deactivated child picks for nobody, so there is nothing to bridge.
        picking = None if child.is_deactivated else child.active if not child.is_active else child
        for other in (child, child.current):
            if other is not None and other is not picking:
                self._cancel(other)
        child.current = None
        return picking

    def _remove(self, name: str) -> None:
        child = self.by_name.pop(name)
        self._cancel(child)
        if child.current is not None:
            self._cancel(child.current)

    def _cancel(self, child: Child) -> None:
        child.cancel()
        child.stop_awaiting()
        # An unread report of an ended child must not reach the policy.
        self.queue.discard(child)
