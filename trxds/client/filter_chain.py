"""A channel's registry of HTTP filters makes the filters that RPCs run (A39) from their merged configurations.

`resources/filters.py` parses what a control plane may configure; here each configuration gets its filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from trxds.resources.custom_filter import CustomFilterConfig
from trxds.resources.fault import FaultConfig
from trxds.resources.filter_config import FilterConfig
from trxds.resources.stateful_session import StatefulSessionConfig
from trxds.session_affinity.stateful_session_filter import StatefulSession

from .custom_filter import FilterType, make_custom_filter
from .fault_injection_filter import ActiveFaults, Fault
from .filter_protocol import Filter, FilterContext, MakeFilter


def _stateful_session(config: StatefulSessionConfig, context: FilterContext) -> Filter | None:
    return StatefulSession(config.state, config.strict) if config.state else None


def _fault(config: FaultConfig, context: FilterContext) -> Filter | None:
    active = context.shared.setdefault("active", ActiveFaults())
    return Fault(config, active, context.random) if config.delay or config.abort else None


BUILT_IN: Mapping[str, MakeFilter] = {
    StatefulSessionConfig.config_type: _stateful_session,
    FaultConfig.config_type: _fault,
}


class FilterRegistry:
    """The types of HTTP filters of one channel, by the message names of their configurations."""

    def __init__(self, target: str, random: Random, custom: Mapping[str, FilterType]) -> None:
        self._target = target
        self._random = random
        self._custom = custom
        self._shared: dict[str, dict[str, Any]] = {}

    def make_chain(self, configs: tuple[FilterConfig, ...]) -> tuple[Filter, ...]:
        """Return the filters that have something to do, in the order of the listener's configuration (A39)."""
        filters = (self._make(config) for config in configs)
        return tuple(each for each in filters if each is not None)

    def _make(self, config: FilterConfig) -> Filter | None:
        shared = self._shared.setdefault(config.config_type, {})
        if isinstance(config, CustomFilterConfig):
            context = FilterContext(config.name, self._target, self._random, shared)
            return make_custom_filter(self._custom[config.config_type], config, context)
        return BUILT_IN[config.config_type](config, FilterContext("", self._target, self._random, shared))
