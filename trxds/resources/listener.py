"""Listener: the filter chain of a service, and its routes by name or inline (LDS; A27, A39)."""

from __future__ import annotations

from dataclasses import dataclass

from .filters import HttpFilter
from .route import RouteConfig


@dataclass(frozen=True, slots=True)
class Listener:
    """Either `rds_name` or `route_config` is set; `max_stream_duration` in seconds, 0 is no limit.

    `api` False: no API listener, so none for a client. That is valid, and whoever wanted to
    dial it reports it.
    """

    name: str
    rds_name: str | None = None
    route_config: RouteConfig | None = None
    max_stream_duration: float | None = None
    http_filters: tuple[HttpFilter, ...] = ()
    api: bool = True
