"""Where an RPC would go, node by node: a pick leaves a trace, and the tree says to whom its notes belong.

The pick is the one that RPCs make, so it cannot differ from what is told. A node without a picker of its own hands on
its child's; its decision says why, and the pick does not notice it.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Protocol, assert_never, runtime_checkable

from trxds.config.steps import Outcome, PickDropped, PickedSubchannel, PickFailed, PickQueued, TraceStep, Unknown
from trxds.ground.connectivity import Connectivity

from .node_snapshot import NodeSnapshot
from .pick import QUEUE, Complete, Drop, Fail, PickArgs, Picker, PickResult, Queue, Trace, TraceNote
from .policy import Inputs

_log = logging.getLogger("trxds.lb")


@runtime_checkable
class Describes(Protocol):
    """What a policy may have besides `decide`."""

    def describe(self, inputs: Inputs, now: float) -> str:
        """Say in a few words what it sees, whatever the RPC: `2 of 3 endpoints READY`. Changes nothing."""


class TreeNode(Protocol):
    """A node of the tree, as its parent and an explanation see it."""

    @property
    def path(self) -> str: ...

    @property
    def policy_name(self) -> str: ...

    @property
    def picker(self) -> Picker | None:
        """What it reported last."""

    @property
    def settled(self) -> bool:
        """No news is on its way through it, so that parents and children say the same."""

    def describe(self, now: float) -> str:
        """Say what its policy sees."""

    def handed_on(self) -> TraceNote | None:
        """Why its picker is a child's, if it is."""

    def child(self, name: str) -> TreeNode | None:
        """The one whose picker counts under that name, or its only child; None before the first decision."""

    def wake(self) -> None: ...

    def survey(self, path: str, parent: str | None = None, warm: bool = False) -> Iterator[NodeSnapshot]: ...


def explain_pick(root: TreeNode, call: PickArgs) -> Iterator[TraceStep]:
    """What the RPC would come to now, policy by policy. Nothing is wished, leased or connected for it."""
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
        _log.exception("a picker raised when it was to explain itself")
    yield from _told(root, trace, result, call.now)


def _told(root: TreeNode, trace: Trace, result: PickResult, now: float) -> Iterator[TraceStep]:
    node: TreeNode | None = root
    notes = deque(trace.notes)
    while node is not None:
        handed_on = node.handed_on()
        note = handed_on or (notes.popleft() if notes else None)
        saw = note.saw if note is not None and note.saw else node.describe(now)
        if note is None:
            unknown = Unknown(node.path)
            yield TraceStep(
                node.path, node.policy_name, saw, "one of what it has", "it does not explain itself", unknown
            )
            return
        if handed_on is None and not notes and not trace.is_opaque:
            yield TraceStep(node.path, node.policy_name, saw, _chosen(result), note.why, _outcome(result, note))
            return
        below = node.child(note.chose)
        end = PickQueued(f"{node.path}/{note.chose} to decide") if below is None else None
        yield TraceStep(node.path, node.policy_name, saw, note.chose or "what is below it", note.why, end)
        node = below


def _chosen(result: PickResult) -> str:
    match result:
        case Complete(host):
            return host.address
        case Queue():
            return "to wait"
        case Fail():
            return "to fail"
        case Drop():
            return "to drop it"
        case _ as never:
            assert_never(never)


def _outcome(result: PickResult, note: TraceNote) -> Outcome:
    match result:
        case Complete(host):
            return PickedSubchannel(host.address, host.state)
        case Queue():
            return PickQueued(note.waits_for or "the tree to change", note.address)
        case Fail(status):
            return PickFailed(status)
        case Drop(status):
            return PickDropped(status)
        case _ as never:
            assert_never(never)


def counted(states: Iterable[Connectivity]) -> str:
    """`2 of 3 endpoints READY, 1 CONNECTING`."""
    counts = Counter(states)
    total = sum(counts.values())
    ready = counts.pop(Connectivity.READY, 0)
    return ", ".join(
        [f"{ready} of {total} endpoints READY", *(f"{count} {state.name}" for state, count in counts.items())]
    )
