"""graceful_switch is the root where a target's policy may change: its one child is replaced without a gap (A24).

The old child goes on picking until the new one leaves CONNECTING; `child_policy.py` has that rule for all parents.
"""

from __future__ import annotations

from typing import ClassVar

from .pick import TraceNote
from .policy import CONNECTING, ChannelControl, Decision, PolicyInputs

_CHILD = "target"
_HANDED_ON = TraceNote("the policy of the service config in force")


class GracefulSwitch:
    """The graceful_switch policy; it reads no endpoints, and all of them go to its child."""

    reads_endpoints = False
    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl) -> None:
        pass

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        report = inputs.children.get(_CHILD, CONNECTING)
        return Decision(
            report.state,
            report.picker,
            children={_CHILD: inputs.config.child},
            handed_on=_HANDED_ON,
            in_first_pass=report.in_first_pass,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return f"policy {inputs.config.child.policy}"
