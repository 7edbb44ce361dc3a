"""weighted_target draws a READY child for each RPC, by weight; its children are localities (A28)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from typing import ClassVar

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.status import unavailable
from trxds.resources.leaf_policy import LbPolicyConfig

from .configs import WeightedTargetConfig
from .pick import QUEUE, Explainable, FixedPicker, PickArgs, Picker, PickResult, TraceNote, transient_failure_picker
from .policy import CONNECTING, EMPTY_SET, ChannelControl, Decision, PolicyInputs, PolicyState
from .state import StickyFailures, aggregate

_CONNECTING = FixedPicker(QUEUE, "none is READY yet", "a target to be READY")


class WeightedTarget:
    """The weighted_target policy; targets that leave the configuration are deactivated (A28)."""

    # RPCs are drawn among the READY ones, so an IDLE one would never get the RPC that makes it connect.
    connects_idle_children: ClassVar[bool] = True

    def __init__(self, channel_control: ChannelControl) -> None:
        self._random = channel_control.random
        self._failures = StickyFailures()
        self._states: Mapping[str, Connectivity] = {}  # the aggregated ones, of targets with a weight
        self._config: WeightedTargetConfig | None = None
        self._children: Mapping[str, LbPolicyConfig] = {}
        self._weights: Mapping[str, int] = {}
        self.reads_endpoints = True

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._config:
            self._apply_config(inputs.config)
        weights, reports = self._weights, {name: inputs.children.get(name, CONNECTING) for name in self._children}
        self._states = self._failures.states(weights, reports)
        self.reads_endpoints = not weights  # only for the reason why there are none
        # A28: a removed locality keeps its connections for 15 minutes.
        deactivate = frozenset(inputs.children.keys() - self._children.keys()) or EMPTY_SET
        if not weights:
            error = unavailable(inputs.endpoints.note or "no localities with endpoints")
            no_targets = transient_failure_picker(error, "there is none to draw")
            return Decision(Connectivity.TRANSIENT_FAILURE, no_targets, children=self._children, deactivate=deactivate)
        state = aggregate(self._states.values())
        picker, handed_on = self._picker(state, reports)
        return Decision(
            state,
            picker,
            handed_on=handed_on,
            children=self._children,
            deactivate=deactivate,
            in_first_pass=any(reports[name].in_first_pass for name in weights),
        )

    def _apply_config(self, config: WeightedTargetConfig) -> None:
        self._config = config
        self._children = {name: target.config for name, target in config.targets.items()}
        # A target of weight 0 is never drawn, so it must not make the policy READY.
        self._weights = {name: target.weight for name, target in config.targets.items() if target.weight}

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        targets = inputs.config.targets
        described = [f"{name} {state.name} of weight {targets[name].weight}" for name, state in self._states.items()]
        return ", ".join(described) or "no targets"

    def _picker(self, state: Connectivity, reports: Mapping[str, PolicyState]) -> tuple[Picker, TraceNote | None]:
        """Return the picker, and the reason if it is a child's own."""
        if state is Connectivity.CONNECTING:
            return _CONNECTING, None
        names = tuple(name for name, child_state in self._states.items() if child_state is state)
        if len(names) == 1 or state is not Connectivity.READY:
            # IDLE: a pick makes that child connect. Failure: one error stands for all, as in C-core.
            only = "the only one" if len(names) == 1 else "the last one, which speaks for all,"
            return reports[names[-1]].picker, TraceNote(f"{only} that is {state.name}", names[-1])
        bounds = tuple(accumulate(self._weights[name] for name in names))
        return WeightedTargetPicker(names, tuple(reports[name].picker for name in names), bounds, self._random), None


class WeightedTargetPicker(Explainable, Struct, frozen=True):
    """A picker that draws one of the READY targets by weight."""

    names: tuple[str, ...]
    pickers: tuple[Picker, ...]
    bounds: tuple[int, ...]  # running sums of the weights
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        # `hi`, because the product may be rounded up to the last bound if the sum is beyond 2**53.
        trace, bounds = call.trace, self.bounds
        random = self.random if trace is None else trace.random(self.random)
        number = random.random() * bounds[-1]
        drawn = bisect(bounds, number, hi=len(bounds) - 1)
        if trace is None:
            return self.pickers[drawn].pick(call)
        trace.note(f"drew {number:.1f} of {bounds[-1]}", self.names[drawn])
        return trace.pick(self.pickers[drawn], call)
