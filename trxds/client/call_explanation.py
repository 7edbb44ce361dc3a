"""This file explains where an RPC would go: the config selector, then the filters (A39), then the policy tree.

Everything is synchronous, and nothing is sent. Filters run in their order, because each may change the input of the
next ones, or end the RPC.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio
from msgspec import structs

from trxds.core import metadata as md
from trxds.core.metadata import Metadata, Pairs
from trxds.core.random_copies import RandomCopies
from trxds.lb.child_policy import TreeNode
from trxds.lb.pick import PickArgs, Trace
from trxds.lb.pick_explanation import explain_pick
from trxds.resolver.config_selector import Selector
from trxds.resolver.route_explanation import Explanation

from .call_scope import CallScope
from .channel_state import ChannelState
from .filter_protocol import ExplainableFilter
from .method import checked_path
from .open_session import OpenSession, why_not_sticky


async def explain_call(
    state: ChannelState, method: str, pairs: Pairs, timeout: float | None, session: OpenSession | None = None
) -> Explanation:
    """Wait for a configuration as a call does, and explain a call that starts then, in the session if there is one."""
    state.lifecycle.check_run()
    metadata, path = md.check(pairs), checked_path(method)
    scope = CallScope(state.lifecycle, path, state.now(), timeout, state.first_wait)
    selector, tree = await scope.run_with_deadline(state.data_plane.wait_settled)
    # Only now, as a call does: the session may have got its host meanwhile.
    sent = metadata if session is None else session.cookies.metadata.fill(metadata, path)
    explanation, call = explain(selector, tree, path, sent, trio.current_time())
    if state.client is not None and (stale := state.client.stale):
        explanation = structs.replace(explanation, stale=stale)
    has_session = session is not None or sent.first("cookie") is not None
    # Without steps a fault ended the call before the chain did, and nothing is known of the filters behind it.
    if not has_session or call is None or not explanation.steps:
        return explanation
    return structs.replace(explanation, unsticky=why_not_sticky(state.lifecycle.target, call))


def explain(
    selector: Selector, tree: TreeNode, path: str, metadata: Metadata, now: float
) -> tuple[Explanation, PickArgs | None]:
    """Return the explanation of a call that would start now, and the pick that it explains, if any.

    `now` is seconds on Trio's clock.
    """
    # Copies draw the numbers that the next RPC will draw, and leave the generators as they are.
    copies = RandomCopies()
    explanation, found = selector.explain(path, metadata, copies)
    if found is None:
        return explanation, None
    call = PickArgs(path, metadata, found.route, found.cluster.name, hash=found.hash, now=now, trace=Trace(copies))
    explanation = _add_filters(explanation, found.cluster.filters, call)
    if explanation.outcome:
        return explanation, call
    return structs.replace(explanation, steps=tuple(explain_pick(tree, call))), call


def _add_filters(explanation: Explanation, chain: Iterable[ExplainableFilter], call: PickArgs) -> Explanation:
    """Add the explanations of the filters, up to the one that ends the RPC."""
    for each in chain:
        explanation = structs.replace(explanation, filters=(*explanation.filters, each.explain(call)))
        if explanation.outcome:
            break
    return explanation
