"""Where a cluster's own limits will stand: drops, circuit breaking, load counters. Passes through yet."""

from __future__ import annotations

from .policy import CONNECTING, Decision, Inputs, Surroundings

_CHILD = "hosts"


class ClusterImpl:
    def __init__(self, surroundings: Surroundings) -> None:
        pass

    def decide(self, inputs: Inputs, now: float) -> Decision:
        report = inputs.children.get(_CHILD, CONNECTING)
        return Decision(report.state, report.picker, children={_CHILD: inputs.config.child})
