"""The number of connections that a channel allows to each of its hosts, for want of streams (A105)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from trxds.core.arguments import check_whole
from trxds.resolver.service_config import ServiceConfig

_log = logging.getLogger("trxds.client")

VARIABLE = "GRPC_EXPERIMENTAL_MAX_CONCURRENT_STREAMS_CONNECTION_SCALING"


def max_connections_of(config: ServiceConfig, environ: Mapping[str, str]) -> int:
    """Return how many connections the service config allows; 1 if the environment switches that off."""
    if config.max_connections is None:
        return 1
    # A105 has the variable for the time before its interop tests. C-core 1.85 does without it.
    if environ.get(VARIABLE, "").lower() == "false":
        text = "the service config's connectionScaling has no effect; take %s=false out of the environment to use it"
        _log.warning(text, VARIABLE)
        return 1
    return config.max_connections


def checked_max_connections_cap(number: int) -> int:
    """Return the cap; `ValueError` unless it is a whole number from 1."""
    check_whole("max_connections_per_subchannel_cap", number, 1, "a whole number, 1 or more")
    return number
