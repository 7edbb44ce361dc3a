"""What is in force while the next configuration is incomplete, brought up to date where it fails RPCs.

A configuration comes into force complete or not at all (A74), and until then RPCs go by the one before. But an
RPC that fails in a cluster has to be told what is wrong now: its resource may have come back since, and only its
endpoints be missing. A cluster that nobody can be served by has nothing to lose, so it need not wait for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .snapshot import AggregateConfig, ClusterConfig, ClusterError, ClusterOutcome, can_serve


def is_troubled(cluster: ClusterOutcome) -> bool:
    """Return whether RPCs may be told of an error in the cluster's resources."""
    return not can_serve(cluster) or (isinstance(cluster, AggregateConfig) and bool(cluster.left_out))


def up_to_date(cluster: ClusterOutcome, present: Mapping[str, ClusterOutcome]) -> ClusterOutcome:
    """Return what is to be in force in place of `cluster`.

    `present` has the clusters as they would be if all that is still awaited were in error.
    """
    match cluster:
        case AggregateConfig() if can_serve(cluster):
            return _without_old_errors(cluster, present)
        case ClusterConfig(its, endpoints) if endpoints is not None and any(endpoints.priorities):
            # It may have DRAINING hosts, which sessions use: all but the reason why there are no others stays.
            now = present.get(its.name)
            return replace(cluster, note=now.note) if isinstance(now, ClusterConfig) and now.note else cluster
        case ClusterConfig(its):
            return present.get(its.name, cluster)
        case _:
            return present.get(cluster.name, cluster)


def _without_old_errors(aggregate: AggregateConfig, present: Mapping[str, ClusterOutcome]) -> AggregateConfig:
    errors = [error for name in aggregate.left_out if isinstance(error := present.get(name), ClusterError)]
    return replace(
        aggregate,
        left_out=tuple(error.name for error in errors),
        note="; ".join(error.status.message for error in errors),
    )
