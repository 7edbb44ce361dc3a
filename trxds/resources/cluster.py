"""Cluster: how to find a cluster's endpoints, and how to treat them (CDS; A27, A52, A55, A75)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .endpoint import HealthStatus
from .lb_policy import WRR_LOCALITY, LbPolicyConfig


@dataclass(frozen=True, slots=True)
class Eds:
    """The endpoints come from the ClusterLoadAssignment of that name."""

    service_name: str


# A union of one, until LOGICAL_DNS and aggregate clusters join it.
Discovery: TypeAlias = Eds

DEFAULT_OVERRIDE_STATUSES = frozenset({HealthStatus.UNKNOWN, HealthStatus.HEALTHY})
DEFAULT_IDLE_TIMEOUT = 3600.0
DEFAULT_MAX_REQUESTS = 1024


@dataclass(frozen=True, slots=True)
class Cluster:
    """`override_statuses`: the health states in which a cookie may still reach a host (A55).

    `idle_timeout` (seconds): how long a host is kept warm after its last session RPC (A75).
    `lrs`: load is reported to the server that sent this.
    """

    name: str
    discovery: Discovery
    lb_policy: LbPolicyConfig = WRR_LOCALITY
    override_statuses: frozenset[HealthStatus] = DEFAULT_OVERRIDE_STATUSES
    idle_timeout: float = DEFAULT_IDLE_TIMEOUT
    max_concurrent_requests: int = DEFAULT_MAX_REQUESTS
    lrs: bool = False
