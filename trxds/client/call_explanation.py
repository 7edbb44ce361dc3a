"""This file explains where an RPC would go: the config selector, then the filters (A39), then the policy tree.

Everything is synchronous, and nothing is sent. Filters run in their order, because each may change the input of the
next ones, or end the RPC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trxds.core.metadata import Metadata
from trxds.core.random_copies import RandomCopies
from trxds.lb.pick import PickArgs, Trace
from trxds.lb.pick_explanation import TreeNode, explain_pick
from trxds.resolver.config_selector import Selector
from trxds.resolver.route_explanation import Explanation
from trxds.session_affinity.stateful_session_filter import StatefulSession

from .fault_injection_filter import Fault
from .filter_protocol import Filter


def explain(selector: Selector, tree: TreeNode, path: str, metadata: Metadata, now: float) -> Explanation:
    """Return the explanation of a call that would start now; `now` is seconds on Trio's clock."""
    # Copies draw the numbers that the next RPC will draw, and leave the generators as they are.
    copies = RandomCopies()
    explanation, found = selector.explain(path, metadata, copies)
    if found is None:
        return explanation
    call = PickArgs(path, metadata, found.route, found.cluster.name, hash=found.hash, now=now, trace=Trace(copies))
    explanation = _add_filters(explanation, found.cluster.filters, call)
    if explanation.outcome:
        return explanation
    return replace(explanation, steps=tuple(explain_pick(tree, call)))


def _add_filters(explanation: Explanation, chain: Iterable[Filter], call: PickArgs) -> Explanation:
    """Add the explanations of the filters, up to the one that ends the RPC."""
    for each in chain:
        if isinstance(each, StatefulSession):
            explanation = replace(explanation, sessions=(*explanation.sessions, each.explain(call)))
        elif isinstance(each, Fault):
            explanation = replace(explanation, faults=(*explanation.faults, each.explain(call)))
        if explanation.outcome:
            break
    return explanation
