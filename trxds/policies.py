"""`trxds.policies` has the classes for a custom load balancing policy (A52); see `docs/writing-a-policy.md`.

async with trxds.open_channel(target, policies={"my.pkg.Policy": PolicyType(MyPolicy)}) as channel: ...
"""

from trxds.core.connectivity import Connectivity
from trxds.core.status import OK
from trxds.lb.configs import Target, WeightedTargetConfig
from trxds.lb.custom_policy import PolicyType
from trxds.lb.endpoint_list import EndpointList, EndpointState, Key
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.pick import (
    QUEUE_PICKER,
    Complete,
    Drop,
    Explainable,
    Fail,
    FixedPicker,
    Override,
    PickArgs,
    Picker,
    PickResult,
    Queue,
    Trace,
    TraceNote,
    Tracker,
    transient_failure_picker,
)
from trxds.lb.policy import CONNECTING, ChannelControl, Decision, LbConfig, Policy, PolicyInputs, PolicyState
from trxds.lb.state import aggregate
from trxds.resources.endpoint import Endpoint
from trxds.resources.lb_policy import CustomPolicy as CustomConfig
from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig
from trxds.resources.leaf_policy import PickFirst as PickFirstConfig
from trxds.resources.leaf_policy import RingHash as RingHashConfig
from trxds.resources.leaf_policy import RoundRobin as RoundRobinConfig

__all__ = [
    "CONNECTING",
    "OK",
    "QUEUE_PICKER",
    "ChannelControl",
    "Complete",
    "Connectivity",
    "CustomConfig",
    "Decision",
    "Drop",
    "Endpoint",
    "EndpointList",
    "EndpointState",
    "Endpoints",
    "Explainable",
    "Fail",
    "FixedPicker",
    "Key",
    "LbConfig",
    "LeastRequestConfig",
    "Override",
    "PickArgs",
    "PickFirstConfig",
    "PickResult",
    "Picker",
    "Policy",
    "PolicyInputs",
    "PolicyState",
    "PolicyType",
    "Queue",
    "RingHashConfig",
    "RoundRobinConfig",
    "SubchannelInterface",
    "Target",
    "Trace",
    "TraceNote",
    "Tracker",
    "WeightedTargetConfig",
    "aggregate",
    "transient_failure_picker",
]
