"""Updates to the clusters in force while the next configuration is incomplete.

A configuration comes into force complete or not at all (A74), and until then RPCs use the one before. But an RPC that
fails in a cluster must get the present reason: the cluster's resource may have come back, and only its endpoints be
missing. A cluster that serves no RPC has nothing to lose, so it need not wait for the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from .snapshot import AggregateConfig, ClusterConfig, ClusterError, ClusterResult, can_serve, endpoints_of


def may_fail_rpcs(cluster: ClusterResult) -> bool:
    """Return whether RPCs may fail with an error of the cluster's resources."""
    return not can_serve(cluster) or (isinstance(cluster, AggregateConfig) and bool(cluster.skipped_clusters))


def with_present_errors(cluster: ClusterResult, present: Mapping[str, ClusterResult]) -> ClusterResult:
    """Return the cluster that replaces `cluster`.

    `present` has the clusters as they would be if all awaited resources were in error.
    """
    if isinstance(cluster, AggregateConfig) and can_serve(cluster):
        return _without_old_errors(cluster, present)
    now = present.get(_name(cluster), cluster)
    # A cluster that begins to serve again takes effect at once: no RPC of it could succeed before.
    if can_serve(now) or next(endpoints_of(cluster), None) is None:
        return now
    # Its hosts are DRAINING, and sessions use them. Only the reason why there are no others has changed.
    reason = now.status.message if isinstance(now, ClusterError) else now.note
    return structs.replace(cluster, note=reason) if reason and isinstance(cluster, ClusterConfig) else cluster


def _name(cluster: ClusterResult) -> str:
    return cluster.cluster.name if isinstance(cluster, ClusterConfig) else cluster.name


def _without_old_errors(aggregate: AggregateConfig, present: Mapping[str, ClusterResult]) -> AggregateConfig:
    errors = [error for name in aggregate.skipped_clusters if isinstance(error := present.get(name), ClusterError)]
    return structs.replace(
        aggregate,
        skipped_clusters=tuple(error.name for error in errors),
        note="; ".join(error.status.message for error in errors),
    )
