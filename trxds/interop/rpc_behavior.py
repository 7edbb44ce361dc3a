"""A load balancing policy of gRPC's mesh tests, which has servers behave as its configuration says.

It spreads RPCs by round_robin and adds the metadata `rpc-behavior`, which test servers obey. So a test sees whether a
client uses a policy of a program's own, and the settings that the control plane gives it (A52).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trxds.policies import (
    QUEUE_PICKER,
    ChannelControl,
    Complete,
    Connectivity,
    Decision,
    PickArgs,
    Picker,
    PickResult,
    PolicyInputs,
    PolicyType,
    RoundRobinConfig,
)

NAME = "test.RpcBehaviorLoadBalancer"


def _parse(settings: Mapping[str, Any]) -> str:
    behavior = settings.get("rpcBehavior", "")
    if not isinstance(behavior, str):
        raise ValueError(f"rpcBehavior is {behavior!r}; it must be a text such as 'error-code-15'")
    return behavior


class RpcBehaviorPicker(Struct, frozen=True):
    """Picks as `child` does, and adds the behavior to the RPC's metadata."""

    child: Picker
    behavior: str

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call)
        if isinstance(result, Complete):
            metadata = (*result.metadata, ("rpc-behavior", self.behavior))
            return Complete(result.host, result.trackers, result.authority, metadata)
        return result


class RpcBehavior:
    """The policy; its settings are the behavior."""

    def __init__(self, channel_control: ChannelControl) -> None: ...

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        children = {"": RoundRobinConfig()}
        child = inputs.children.get("")
        if child is None:
            return Decision(Connectivity.CONNECTING, QUEUE_PICKER, children=children)
        picker = RpcBehaviorPicker(child.picker, inputs.config.settings)
        return Decision(child.state, picker, children=children, in_first_pass=child.in_first_pass)


POLICIES: Mapping[str, PolicyType] = {NAME: PolicyType(RpcBehavior, _parse)}
"""For `open_channel(policies=...)`."""
