"""An explanation says node by node where an RPC would go: a pick leaves a trace, whose notes belong to nodes.

It is the same pick that RPCs make, so the explanation cannot differ from it. A node without a picker of its own hands
on its child's: the pick does not pass it, and its decision has the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import assert_never

from trxds.resolver.pick_outcomes import (
    Outcome,
    PickDropped,
    PickedSubchannel,
    PickFailed,
    PickQueued,
    TraceStep,
    Unknown,
)

from .child_policy import TreeNode
from .pick import QUEUE, Complete, Drop, Fail, PickArgs, PickResult, Queue, Trace, TraceNote

_log = logging.getLogger("trxds.lb")

_UNEXPLAINED = TraceNote("it does not explain itself")


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
