"""This file makes a channel's health checks, which a service config asks for (A17)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random

from trxds.core.metadata import Headers
from trxds.core.status import Status
from trxds.lb.configs import OutlierDetectionConfig
from trxds.resolver.service_config import ServiceConfig
from trxds.resources.lb_policy import RandomSubsetting
from trxds.resources.leaf_policy import LbPolicyConfig, PickFirst
from trxds.transport.health_watch import PATH, HealthCheck, WatchedHost

from .call_credentials import CallCredentials, authorize, requires_tls


def health_check_service(config: ServiceConfig) -> str | None:
    """Return the name to ask hosts for; None to ask none."""
    # A17: pick_first takes no notice of health.
    return None if _is_pick_first(config.lb_policy or PickFirst()) else config.health_check_service


def _is_pick_first(policy: LbPolicyConfig) -> bool:
    """Return whether pick_first chooses the host, which inhibits health checks (A17)."""
    # These two choose no host themselves: they pass on what their child chooses.
    while isinstance(policy, OutlierDetectionConfig | RandomSubsetting):
        policy = policy.child
    return isinstance(policy, PickFirst)


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
