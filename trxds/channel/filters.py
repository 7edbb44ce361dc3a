"""The call side of HTTP filters (A39): from merged configuration to what an RPC runs.

`resources/filters.py` knows what a control plane may say; this knows who acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from trxds.affinity.filter import StatefulSession
from trxds.resources.fault import FaultConfig
from trxds.resources.filter_config import FilterConfig
from trxds.resources.stateful_session import StatefulSessionConfig

from .fault import ActiveFaults, Fault
from .filter import Filter


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
