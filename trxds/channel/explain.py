"""Where an RPC would go and why, whole: the selector, then the sessions, then the tree. Plain, and nothing is sent.

Of the filters only those of sessions are asked, for what they read decides where an RPC goes.
"""

from __future__ import annotations

from dataclasses import replace

from trxds.affinity.filter import StatefulSession
from trxds.config.explain import Explanation
from trxds.config.methods import MethodSelector
from trxds.config.routes import BoundRoute
from trxds.config.select import ConfigSelector, Selector
from trxds.ground.metadata import Metadata
from trxds.lb.explain import Explained
from trxds.lb.pick import PickArgs


def explain(selector: Selector, tree: Explained, path: str, metadata: Metadata, now: float) -> Explanation:
    told = selector.explain(path, metadata)
    if told.chosen is None or (route := _route(selector, path, told.chosen.number)) is None:
        return told
    call = PickArgs(path, metadata, route, told.chosen.cluster, hash=told.chosen.hash, now=now)
    chain = route.clusters[told.chosen.entry].chain
    sessions = tuple(one.explain(call) for one in chain if isinstance(one, StatefulSession))
    return replace(told, sessions=sessions, steps=tuple(tree.explain(call)))


def _route(selector: Selector, path: str, number: int) -> BoundRoute | None:
    match selector:
        case ConfigSelector(routes):
            return routes.bound(number)
        case MethodSelector():
            return selector.bound(path)
    return None
