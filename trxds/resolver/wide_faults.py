"""Faults that are meant for some calls, and hit all of them.

Envoy's fault filter has fields that say which requests may have the fault. A33 does not support them, so gRPC clients
leave them out. A control plane that was written for Envoy may not know that.
"""

from __future__ import annotations

from typing import TypeGuard

from msgspec import Struct

from trxds.resources.fault import FaultConfig
from trxds.resources.filter_config import FilterConfig
from trxds.resources.listener import Listener
from trxds.resources.route import VirtualHost

from .config_log import shown
from .misplaced_overrides import has_type_of, override_scopes


class WideFault(Struct, frozen=True):
    """A fault filter with fields of Envoy's that should limit it, and the places that have it."""

    key: str
    limits: tuple[str, ...]
    in_listener: bool
    places: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f'{shown(self.places)}: the fault filter "{self.key}" is limited by {", ".join(self.limits)}, which only '
            "Envoy reads, so any call can have the fault; give the calls that should have it a route of their own, and "
            "put the fault into its typed_per_filter_config"
        )


def find_wide_faults(listener: Listener, host: VirtualHost) -> tuple[WideFault, ...]:
    filters = {each.name: each for each in listener.http_filters if isinstance(each.config, FaultConfig)}
    found = [
        WideFault(name, each.config.unread_limits, True, (f'LDS resource "{listener.name}"',))
        for name, each in filters.items()
        if not each.disabled and _is_wide(each.config)
    ]
    places: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for place, overrides in override_scopes(host) if filters else ():
        for name in filters.keys() & overrides.keys():
            override = overrides[name]
            if has_type_of(override, filters[name]) and _is_wide(override):
                # Grouped, as ten thousand routes of one template would make ten thousand warnings.
                places.setdefault((name, override.unread_limits), []).append(place)
    found += [WideFault(*which, False, tuple(those)) for which, those in places.items()]
    return tuple(found)


def _is_wide(config: FilterConfig) -> TypeGuard[FaultConfig]:
    """Return whether it is a fault, and not an empty one, that Envoy would limit."""
    if not isinstance(config, FaultConfig) or not config.unread_limits:
        return False
    return config.delay is not None or config.abort is not None
