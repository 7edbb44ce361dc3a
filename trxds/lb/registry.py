"""The registry finds a policy by its name (A24). `client/channel.py` adds override_host and the user's own."""

from __future__ import annotations

from collections.abc import Mapping

from .cds import Cds
from .cluster_impl import ClusterImpl
from .cluster_manager import ClusterManager
from .graceful_switch import GracefulSwitch
from .least_request import LeastRequest
from .outlier_detection.policy import OutlierDetection
from .pick_first import PickFirst
from .policy import ChannelControl, Policy, PolicyFactory
from .priority import Priority
from .random_subsetting import RandomSubsetting
from .ring_hash.policy import RingHash
from .round_robin import RoundRobin
from .sticky_priority.policy import StickyPriority
from .weighted_round_robin.policy import WeightedRoundRobin
from .weighted_target import WeightedTarget

# The names are those that the gRFCs gave to the policies' configurations.
BUILT_IN: Mapping[str, PolicyFactory] = {
    "xds_cluster_manager_experimental": ClusterManager,
    "cds_experimental": Cds,
    "graceful_switch": GracefulSwitch,
    "outlier_detection_experimental": OutlierDetection,
    "xds_cluster_impl_experimental": ClusterImpl,
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


class Registry:
    """The policies of one channel by name."""

    def __init__(self, more: Mapping[str, PolicyFactory] | None = None) -> None:
        self._factories = {**BUILT_IN, **(more or {})}

    def make(self, name: str, channel_control: ChannelControl) -> Policy:
        return self._factories[name](channel_control)
