"""Mistakes in the configuration of filters that fail no call, and so are warnings.

A39 has no rule for an override whose type does not fit the listener's filter of its name: routes are validated without
their listener, and one route table may serve several. So such an override is only found when the two are combined, and
is ignored then. Envoy's fault filter has fields that say which requests may have the fault. A33 does not support them,
so gRPC clients leave them out; a control plane that was written for Envoy may not know that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from msgspec import Struct

from trxds.resources.fault import FaultConfig
from trxds.resources.filter_config import FilterConfig
from trxds.resources.filters import HttpFilter
from trxds.resources.listener import Listener
from trxds.resources.route import VirtualHost

from .config_log import shown


def has_type_of(override: FilterConfig, http_filter: HttpFilter) -> bool:
    """Return whether the override is one for this type of filter."""
    # A filter parses both of its messages into one class, so that an override can replace the listener's value. All of
    # the program's own filters have one class.
    config = http_filter.config
    return type(override) is type(config) and override.config_type == config.config_type


class FilterMistake(Struct, frozen=True):
    """One mistake, and the places that have it."""

    text: str
    places: tuple[str, ...]
    in_listener: bool = False

    def __str__(self) -> str:
        return f"{shown(self.places)}: {self.text}"


def find_filter_mistakes(listener: Listener, host: VirtualHost) -> tuple[FilterMistake, ...]:
    filters = {each.name: each for each in listener.http_filters}
    of_listener = [
        FilterMistake(_describe_wide_fault(name, each.config), (f'LDS resource "{listener.name}"',), in_listener=True)
        for name, each in filters.items()
        if not each.disabled and _is_wide_fault(each.config)
    ]
    # Grouped by text, or ten thousand routes of one template would make ten thousand warnings.
    places: dict[str, list[str]] = {}
    for place, overrides in _override_scopes(host):
        for name, override in overrides.items():
            text = _describe_mistake(override, filters[name]) if name in filters else ""
            if text:
                places.setdefault(text, []).append(place)
    return (*of_listener, *(FilterMistake(text, tuple(those)) for text, those in places.items()))


def _override_scopes(host: VirtualHost) -> Iterator[tuple[str, Mapping[str, FilterConfig]]]:
    """Yield the places that have overrides; of ten thousand routes there may be none."""
    name = f'virtual host "{host.name}"'
    if host.filter_overrides:
        yield name, host.filter_overrides
    for number, route in enumerate(host.routes):
        if route.filter_overrides:
            yield f"route {number} of {name}", route.filter_overrides
        for cluster in route.action.clusters if route.action is not None else ():
            if cluster.filter_overrides:
                yield f'cluster "{cluster.name}" of route {number} of {name}', cluster.filter_overrides


def _describe_mistake(override: FilterConfig, http_filter: HttpFilter) -> str:
    """Describe what is wrong with an override; empty if nothing is."""
    if not has_type_of(override, http_filter):
        return (
            f'typed_per_filter_config["{http_filter.name}"] has the type {override.override_type}, and the listener\'s '
            f"filter of that name the type {http_filter.config.config_type}; the override is left out, and the filter "
            "keeps its own configuration"
        )
    return _describe_wide_fault(http_filter.name, override) if _is_wide_fault(override) else ""


def _is_wide_fault(config: FilterConfig) -> TypeGuard[FaultConfig]:
    """Return whether it is a fault, and not an empty one, that Envoy would limit: here any call can have it."""
    if not isinstance(config, FaultConfig) or not config.unread_limits:
        return False
    return config.delay is not None or config.abort is not None


def _describe_wide_fault(name: str, config: FaultConfig) -> str:
    return (
        f'the fault filter "{name}" is limited by {", ".join(config.unread_limits)}, which only Envoy reads, so any '
        "call can have the fault; give the calls that should have it a route of their own, and put the fault into its "
        "typed_per_filter_config"
    )
