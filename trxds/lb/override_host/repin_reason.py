"""Why a session is not on its host any more: a word for people and for the label `reason` of a metric."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from trxds.lb.pick import Override


class RepinReason(enum.StrEnum):
    """Of the rules by which a cookie's host is used, the one that was not met (A55, A60)."""

    NO_COOKIE = "no_cookie"  # the call had none, or one that is too old or cannot be read
    CLUSTER_MISMATCH = "cluster_mismatch"  # the route does not have the cookie's cluster any more
    UNKNOWN_HOST = "unknown_host"  # the cluster does not have the host any more
    STATUS_NOT_ALLOWED = "status_not_allowed"  # its health is none of override_host_status
    NOT_READY = "not_ready"  # it cannot be reached


@dataclass(frozen=True, slots=True)
class Repin:
    """`at` is in seconds on Trio's clock."""

    at: float
    old: str
    new: str
    reason: RepinReason


def reason_of(override: Override, same_cluster: bool) -> RepinReason:
    """Why the call that this belongs to went elsewhere; `same_cluster`: as the session was in before."""
    if not override.addresses:
        return RepinReason.NO_COOKIE
    if not same_cluster:
        return RepinReason.CLUSTER_MISMATCH
    return RepinReason(override.fallback_reason) if override.fallback_reason else RepinReason.UNKNOWN_HOST
