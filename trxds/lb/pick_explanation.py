"""An explanation says node by node where an RPC would go: a pick leaves a trace, whose notes belong to nodes.

It is the same pick that RPCs make, so the explanation cannot differ from it. A node without a picker of its own hands
on its child's: the pick does not pass it, and its decision has the reason.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Protocol, assert_never, runtime_checkable

from trxds.core.connectivity import Connectivity
from trxds.resolver.pick_outcomes import (
    Outcome,
    PickDropped,
    PickedSubchannel,
    PickFailed,
    PickQueued,
    TraceStep,
    Unknown,
)

from .pick import QUEUE, Complete, Drop, Fail, PickArgs, Picker, PickResult, Queue, Trace, TraceNote
from .policy import PolicyInputs
from .policy_node_snapshot import NodeSnapshot

_log = logging.getLogger("trxds.lb")

_UNEXPLAINED = TraceNote("it does not explain itself")


@runtime_checkable
class Describes(Protocol):
    """A policy that describes what it sees, for `trxds lb` and explanations."""

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        """Return in a few words what the policy sees, such as `2 of 3 endpoints READY`. It changes nothing."""


class TreeNode(Protocol):
    """A node of the policy tree, as its parent and an explanation see it."""

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

    def exit_idle(self) -> None: ...

    def snapshot(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]: ...


def explain_pick(root: TreeNode, call: PickArgs) -> Iterator[TraceStep]:
    """Yield what the RPC would come to now, policy by policy. It leases and connects nothing."""
    if root.picker is None:
        end = PickQueued(f"{root.path} to decide")
        yield TraceStep(root.path, root.policy_name, "nothing yet", "to wait", "it has not decided yet", end)
        return
    trace = call.trace = call.trace or Trace()
    result: PickResult = QUEUE
    try:
        result = trace.pick(root.picker, call)
    except Exception:
        trace.is_opaque = True
        # The notes up to here are still worth showing.
        _log.exception("a picker raised during an explanation")
    yield from _explain_steps(root, trace, result, call.now)


def _explain_steps(root: TreeNode, trace: Trace, result: PickResult, now: float) -> Iterator[TraceStep]:
    node: TreeNode | None = root
    notes = deque(trace.notes)
    while node is not None:
        handed_on = node.handed_on()
        # A node that hands on its child's picker leaves no note: the pick never passes it.
        note = handed_on or (notes.popleft() if notes else _UNEXPLAINED)
        below: TreeNode | None = None
        end: Outcome | None = None
        chose = note.chose or "what is below it"
        if note is _UNEXPLAINED:
            chose, end = "one of what it has", Unknown(node.path)
        elif handed_on is None and not notes and not trace.is_opaque:
            chose, end = _describe_result(result, note)
        elif (below := node.child(note.chose)) is None:
            end = PickQueued(f"{node.path}/{note.chose} to decide")
        yield TraceStep(node.path, node.policy_name, note.saw or node.describe(now), chose, note.why, end)
        node = below


def _describe_result(result: PickResult, note: TraceNote) -> tuple[str, Outcome]:
    """Return the choice in words, and the outcome for the RPC."""
    match result:
        case Complete(host, authority=authority):
            return host.address, PickedSubchannel(
                host.address, host.state, host.security, authority, host.describe_connections()
            )
        case Queue():
            return "to wait", PickQueued(note.waits_for or "the tree to change", note.address)
        case Fail(status):
            return "to fail", PickFailed(status)
        case Drop(status):
            return "to drop it", PickDropped(status)
        case _ as never:
            assert_never(never)


def count_states(states: Iterable[Connectivity]) -> str:
    """Return the numbers of endpoints by state, as `2 of 3 endpoints READY, 1 CONNECTING`."""
    counts = Counter(states)
    total = sum(counts.values())
    ready = counts.pop(Connectivity.READY, 0)
    others = [f"{count} {state.name}" for state, count in counts.items()]
    return ", ".join([f"{ready} of {total} endpoints READY", *others])
