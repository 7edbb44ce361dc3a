"""The number of connections that a channel allows to each of its hosts, for want of streams (A105)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trxds.resolver.service_config import ServiceConfig

_log = logging.getLogger("trxds.client")

VARIABLE = "GRPC_EXPERIMENTAL_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


def max_connections_of(config: ServiceConfig, environ: Mapping[str, str]) -> int:
    """Return how many connections the service config allows; 1 unless the environment switches that on."""
    if config.max_connections is None:
        return 1
    # A105: by default only once it has passed the interop tests.
    if environ.get(VARIABLE, "").lower() != "true":
        text = "the service config's connectionScaling has no effect; set %s=true in the environment to switch it on"
        _log.warning(text, VARIABLE)
        return 1
    return config.max_connections


def checked_max_connections_cap(number: object) -> int:
    """Return the cap; `ValueError` unless it is a whole number from 1."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"max_connections_per_subchannel_cap is {number!r}; it must be a whole number, 1 or more")
    return number
