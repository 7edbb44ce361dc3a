"""This file makes a channel's health checks, which carry its call credentials (A17)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random

from trxds.core.metadata import Headers
from trxds.core.status import Status
from trxds.transport.health_watch import PATH, HealthCheck, WatchedHost

from .call_credentials import CallCredentials, authorize, requires_tls


def make_health_check(
    service: str | None, authority: str, credentials: tuple[CallCredentials, ...], random: Random
) -> HealthCheck | None:
    """Return the check of a service; None if no service is named, because then no host is asked."""
    if service is None:
        return None
    return HealthCheck(service, authority, partial(_metadata, credentials, authority), random)


async def _metadata(credentials: Iterable[CallCredentials], authority: str, host: WatchedHost) -> Headers | Status:
    # A17: a Watch call carries the credentials that the channel's own calls carry, with the same rule for TLS.
    return requires_tls(credentials, host) or await authorize(credentials, authority, PATH)
