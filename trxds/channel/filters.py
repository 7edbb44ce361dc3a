"""The call side of HTTP filters (A39): from merged configuration to what an RPC runs.

`resources/filters.py` knows what a control plane may say; this knows who acts on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeAlias

from trxds.affinity.filter import StatefulSession
from trxds.ground.metadata import Metadata
from trxds.ground.status import Status
from trxds.lb.pick import PickArgs
from trxds.resources.fault import FaultConfig
from trxds.resources.filters import FilterConfig, StatefulSessionConfig

from .fault import ActiveFaults, Fault

Respond: TypeAlias = Callable[[Metadata], Metadata]


class Filter(Protocol):
    """One filter of a route, shared by its RPCs.

    `start` runs before the pick and may wait, switch the cluster or set the override. A Status
    that it returns ends the RPC. A function that it returns is given the response's initial
    metadata (the trailing one of a trailers-only response), and is plain, because the
    connection's reader calls it.
    """

    def start(self, call: PickArgs) -> Awaitable[Respond | Status | None]: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What the filters of one channel have in common."""

    random: Random
    faults: ActiveFaults = field(default_factory=ActiveFaults)


Factory: TypeAlias = Callable[[FilterConfig, Shared], Filter | None]


def _stateful_session(config: FilterConfig, shared: Shared) -> Filter | None:
    assert isinstance(config, StatefulSessionConfig)
    return StatefulSession(config.state, config.strict) if config.state else None


def _fault(config: FilterConfig, shared: Shared) -> Filter | None:
    assert isinstance(config, FaultConfig)
    return Fault(config, shared.faults, shared.random) if config.delay or config.abort else None


FACTORIES: Mapping[type[FilterConfig], Factory] = {StatefulSessionConfig: _stateful_session, FaultConfig: _fault}


def make_chain(shared: Shared, configs: tuple[FilterConfig, ...]) -> tuple[Filter, ...]:
    """The filters that have something to do, in order."""
    made = (FACTORIES[type(config)](config, shared) for config in configs)
    return tuple(one for one in made if one is not None)
