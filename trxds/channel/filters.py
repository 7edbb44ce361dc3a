"""The call side of HTTP filters (A39): from merged configuration to what an RPC runs.

`resources/filters.py` knows what a control plane may say; this knows who acts on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from trxds.affinity.filter import StatefulSession
from trxds.ground.metadata import Metadata
from trxds.lb.pick import PickArgs
from trxds.resources.filters import FilterConfig, StatefulSessionConfig

Respond: TypeAlias = Callable[[Metadata], Metadata]


class Filter(Protocol):
    """One filter of a route, shared by its RPCs.

    `start` runs before the pick and may switch the cluster or set the override; what it
    returns is given the response's initial metadata (the trailing one of a trailers-only
    response), and is plain, because the connection's reader calls it.
    """

    def start(self, call: PickArgs) -> Awaitable[Respond | None]: ...


def _stateful_session(config: FilterConfig) -> Filter | None:
    assert isinstance(config, StatefulSessionConfig)
    return StatefulSession(config.cookie) if config.cookie else None


FACTORIES: Mapping[type[FilterConfig], Callable[[FilterConfig], Filter | None]] = {
    StatefulSessionConfig: _stateful_session,
}


def make_chain(configs: tuple[FilterConfig, ...]) -> tuple[Filter, ...]:
    """The filters that have something to do, in order."""
    made = (FACTORIES[type(config)](config) for config in configs)
    return tuple(one for one in made if one is not None)
