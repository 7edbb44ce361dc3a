"""HTTP filters as resources configure them (A39); Router and StatefulSession (A55).

The registry goes by the type of the configuration; a filter's name only tells instances
apart and ties overrides to them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """What any filter's configuration is; the call side finds the filter by its class."""


@dataclass(frozen=True, slots=True)
class HttpFilter:
    """One place in the chain. A `disabled` filter runs only where an override configures it."""

    name: str
    config: FilterConfig
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class RouterConfig(FilterConfig):
    """The end of every chain; none of its fields concerns a client."""


@dataclass(frozen=True, slots=True)
class CookieConfig:
    """`path` "" means every path; `ttl` is in seconds, 0 makes a session cookie."""

    name: str
    path: str = ""
    ttl: float = 0.0


@dataclass(frozen=True, slots=True)
class StatefulSessionConfig(FilterConfig):
    """Without a cookie the filter is there but off, until an override switches it on."""

    cookie: CookieConfig | None = None
