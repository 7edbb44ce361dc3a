"""This file makes the HTTP filters that RPCs run (A39) from their merged configuration.

`resources/filters.py` parses what a control plane may configure; here each configuration gets its filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from trxds.resources.fault import FaultConfig
from trxds.resources.filter_config import FilterConfig
from trxds.resources.stateful_session import StatefulSessionConfig
from trxds.session_affinity.stateful_session_filter import StatefulSession

from .fault_injection_filter import ActiveFaults, Fault
from .filter_protocol import Filter


@dataclass(frozen=True, slots=True)
class FilterContext:
    """`FilterContext` is the state that the filters of one channel share."""

    random: Random
    faults: ActiveFaults = field(default_factory=ActiveFaults)


def _filter(config: FilterConfig, shared: FilterContext) -> Filter | None:
    """Return the filter of a configuration; None if it has nothing to do."""
    match config:
        case StatefulSessionConfig():
            return StatefulSession(config.state, config.strict) if config.state else None
        case FaultConfig():
            return Fault(config, shared.faults, shared.random) if config.delay or config.abort else None
    # `resources/filters.py` registers a kind that has no filter here: a bug in trxds, not in the configuration.
    raise NotImplementedError(f"no filter acts on {type(config).__name__}; add it to client/filter_chain.py")


def make_chain(shared: FilterContext, configs: tuple[FilterConfig, ...]) -> tuple[Filter, ...]:
    """Return the filters that have something to do, in the order of the listener's configuration (A39)."""
    filters = (_filter(config, shared) for config in configs)
    return tuple(each for each in filters if each is not None)
