"""The time that a route lets an RPC take from its start, and the field that sets it (A31)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from trxds.resources.route_action import RouteAction

LEGACY_DEFAULT_TIMEOUT = 15.0


class RouteTimeout(Struct, frozen=True):
    """A limit in seconds, `inf` for none; `source` names the field that sets it."""

    seconds: float
    source: str

    def __str__(self) -> str:
        limit = "no limit" if math.isinf(self.seconds) else f"{self.seconds:g} s"
        return f"{limit} ({self.source})"


TimeoutRule: TypeAlias = Callable[[RouteAction, float | None], RouteTimeout]

NO_LIMIT = RouteTimeout(math.inf, "no field sets one")


def max_stream_duration(action: RouteAction, listener_limit: float | None) -> RouteTimeout:
    """Return the limit from the first field that is set; 0 there means no limit, whatever the later fields say."""
    return _first_set(
        (action.grpc_timeout_header_max, "the route's max_stream_duration.grpc_timeout_header_max"),
        (action.max_stream_duration, "the route's max_stream_duration.max_stream_duration"),
        (listener_limit, "the listener's common_http_protocol_options.max_stream_duration"),
    )


def legacy_route_timeout(action: RouteAction, listener_limit: float | None) -> RouteTimeout:
    """Return the limit by A31's first draft: other fields, a default of 15 s, and nothing from the listener."""
    return _first_set(
        (action.max_grpc_timeout, "the route's max_grpc_timeout"),
        (action.timeout, "the route's timeout"),
        (LEGACY_DEFAULT_TIMEOUT, "the default of A31's first draft"),
    )


def _first_set(*fields: tuple[float | None, str]) -> RouteTimeout:
    for seconds, source in fields:
        if seconds is not None:
            # A31: an explicit 0 means no limit; it does not fall through to the next field.
            return RouteTimeout(seconds or math.inf, source)
    return NO_LIMIT
