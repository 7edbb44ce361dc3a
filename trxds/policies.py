"""What a load balancing policy of your own is written with; `docs/writing-a-policy.md` tells how.

async with trxds.open_channel(target, policies={"my.pkg.Policy": PolicyType(MyPolicy)}) as channel: ...
"""

from trxds.ground.connectivity import Connectivity
from trxds.lb.configs import Target, WeightedTargetConfig
from trxds.lb.custom import PolicyType
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.endpoints import ConnectedEndpoints, EndpointState, Key
from trxds.lb.pick import (
    QUEUEING,
    Always,
    Complete,
    Drop,
    Explainable,
    Fail,
    Override,
    PickArgs,
    Picker,
    PickResult,
    Queue,
    Trace,
    TraceNote,
    Tracker,
    failing,
)
from trxds.lb.policy import CONNECTING, Decision, Inputs, LbConfig, Policy, Report, Surroundings
from trxds.lb.ports import Host
from trxds.lb.state import aggregate
from trxds.resources.endpoint import Endpoint
from trxds.resources.lb_policy import CustomPolicy as CustomConfig
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig

__all__ = [
    "CONNECTING",
    "QUEUEING",
    "Always",
    "Complete",
    "ConnectedEndpoints",
    "Connectivity",
    "CustomConfig",
    "Decision",
    "Drop",
    "Endpoint",
    "EndpointState",
    "Endpoints",
    "Explainable",
    "Fail",
    "Host",
    "Inputs",
    "Key",
    "LbConfig",
    "LeastRequestConfig",
    "Override",
    "PickArgs",
    "PickFirstConfig",
    "PickResult",
    "Picker",
    "Policy",
    "PolicyType",
    "Queue",
    "Report",
    "RingHashConfig",
    "RoundRobinConfig",
    "Surroundings",
    "Target",
    "Trace",
    "TraceNote",
    "Tracker",
    "WeightedTargetConfig",
    "aggregate",
    "failing",
]
