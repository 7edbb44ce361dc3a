"""The reasons for which a session moves to another host are the label `reason` of `trxds.session.repinned`."""

from __future__ import annotations

import enum

from trxds.lb.pick import Override


class RepinReason(enum.StrEnum):
    """Why a session moves: the rule for the use of a cookie's host that was not met (A55, A60), or who asked for it."""

    NO_COOKIE = "no_cookie"  # the call had none, or one that is too old or cannot be read
    CLUSTER_MISMATCH = "cluster_mismatch"  # the route does not have the cookie's cluster any more
    UNKNOWN_HOST = "unknown_host"  # it left the cluster, or is DRAINING and override_host_status forbids that
    STATUS_NOT_ALLOWED = "status_not_allowed"  # its health status is not in override_host_status
    NOT_READY = "not_ready"  # it cannot be reached
    REQUESTED = "requested"  # the program moved the session
    RELEASED = "released"  # the program let the next call choose anew
    REBALANCED = "rebalanced"  # the host had more than its fair share of sessions


def reason_of(override: Override, same_cluster: bool) -> RepinReason:
    """Return why a call did not go to its session's host; `same_cluster` says that it went to the session's cluster."""
    if not override.addresses:
        return RepinReason.NO_COOKIE
    if not same_cluster:
        return RepinReason.CLUSTER_MISMATCH
    return RepinReason(override.fallback_reason) if override.fallback_reason else RepinReason.UNKNOWN_HOST
