"""What a kind of HTTP filter is to the resources: how its configuration reads, and where it may stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from .extension import Extension


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """What any filter's configuration is; the call side finds the filter by its class.

    It comes as a `config_type` in the listener and as an `override_type` in routes; both are message names.
    """

    config_type: ClassVar[str] = ""
    override_type: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class HttpFilterType:
    """One kind of filter; the registry lists it under the types of its configurations.

    A parser returns None after it has noted a problem. A `terminal` filter ends the chain and
    nothing else does; `on_clients` False is for filters that only servers run.
    """

    config_type: str
    parse: Callable[[Extension], FilterConfig | None]
    # A39: some filters have one type for both, some have two, and some cannot be overridden at all.
    override_type: str | None = None
    parse_override: Callable[[Extension], FilterConfig | None] | None = None
    terminal: bool = False
    on_clients: bool = True
    session_affinity: bool = False  # goes when A55's guard is off
