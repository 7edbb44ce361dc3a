"""The call side of HTTP filters (A39): from merged configuration to what an RPC runs.

`resources/filters.py` knows what a control plane may say; this knows who acts on it.
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
    """What the filters of one channel have in common."""

    random: Random
    faults: ActiveFaults = field(default_factory=ActiveFaults)


def _filter(config: FilterConfig, shared: FilterContext) -> Filter | None:
    """Return the filter that does what the configuration says; None where there is nothing to do."""
    match config:
        case StatefulSessionConfig():
            return StatefulSession(config.state, config.strict) if config.state else None
        case FaultConfig():
            return Fault(config, shared.faults, shared.random) if config.delay or config.abort else None
    # `resources/filters.py` registers a kind that has no filter here: a bug of ours, not of the configuration.
    raise NotImplementedError(f"no filter acts on {type(config).__name__}; add it to channel/filters.py")


def make_chain(shared: FilterContext, configs: tuple[FilterConfig, ...]) -> tuple[Filter, ...]:
    """The filters that have something to do, in order."""
    made = (_filter(config, shared) for config in configs)
    return tuple(one for one in made if one is not None)
