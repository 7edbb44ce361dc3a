"""Overrides in a route table whose type does not fit the listener's filter of their name.

A39 has no rule for them: routes are validated without their listener, and one route table may serve several. So such an
override is only found when the two are combined, and is ignored then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

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


class MisplacedOverride(Struct, frozen=True):
    """One key with an override of the wrong type, and the places that have it; the types are message names."""

    in_listener: ClassVar[bool] = False
    key: str
    override_type: str
    filter_type: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        places = shown(self.places)
        return (
            f'{places}: typed_per_filter_config["{self.key}"] has the type {self.override_type}, and the listener\'s '
            f"filter of that name the type {self.filter_type}; the override is left out, and the filter keeps its own "
            "configuration"
        )


def find_misplaced_overrides(listener: Listener, host: VirtualHost) -> tuple[MisplacedOverride, ...]:
    filters = {each.name: each for each in listener.http_filters}
    found: dict[tuple[str, str, str], list[str]] = {}
    for place, overrides in override_scopes(host):
        for key, override in overrides.items():
            http_filter = filters.get(key)
            if http_filter is not None and not has_type_of(override, http_filter):
                # Grouped by error, or ten thousand routes of one template would make ten thousand warnings.
                found.setdefault((key, override.override_type, http_filter.config.config_type), []).append(place)
    return tuple(MisplacedOverride(*which, tuple(places)) for which, places in found.items())


def override_scopes(host: VirtualHost) -> Iterator[tuple[str, Mapping[str, FilterConfig]]]:
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
