"""All policies of trxds by their names, which are those that the gRFCs gave to the policies' configurations.

A channel without a control plane needs few of them, so `registry.py` imports this file when another one is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from .cds import Cds
from .cluster_impl import ClusterImpl
from .cluster_manager import ClusterManager
from .graceful_switch import GracefulSwitch
from .least_request import LeastRequest
from .outlier_detection.policy import OutlierDetection
from .override_host.policy import OverrideHost
from .pick_first import PickFirst
from .policy import PolicyFactory
from .policy_options import PolicyOptions
from .priority import Priority
from .random_subsetting import RandomSubsetting
from .ring_hash.policy import RingHash
from .round_robin import RoundRobin
from .sticky_priority.policy import StickyPriority
from .weighted_round_robin.policy import WeightedRoundRobin
from .weighted_target import WeightedTarget

BUILT_IN: Mapping[str, PolicyFactory] = {
    "xds_cluster_manager_experimental": ClusterManager,
    "cds_experimental": Cds,
    "graceful_switch": GracefulSwitch,
    "outlier_detection_experimental": OutlierDetection,
    "xds_cluster_impl_experimental": ClusterImpl,
    "xds_override_host_experimental": OverrideHost,
    "priority_experimental": Priority,
    "sticky_priority": StickyPriority,
    "weighted_target_experimental": WeightedTarget,
    "random_subsetting_experimental": RandomSubsetting,
    "round_robin": RoundRobin,
    "pick_first": PickFirst,
    "ring_hash_experimental": RingHash,
    "least_request_experimental": LeastRequest,
    "weighted_round_robin": WeightedRoundRobin,
}


def with_options(options: PolicyOptions) -> Mapping[str, PolicyFactory]:
    """Return the policies of a channel with these options."""
    return {
        **BUILT_IN,
        "cds_experimental": partial(Cds, sticky_aggregates=options.sticky_aggregates),
        "xds_override_host_experimental": partial(OverrideHost, spread_within=options.spread_within),
        "ring_hash_experimental": partial(RingHash, size_cap=options.ring_size_cap),
    }
