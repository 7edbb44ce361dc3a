"""Localities by weight (A28): a draw among those that are READY."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from trxds.ground.connectivity import Connectivity
from trxds.ground.status import Status, unavailable

from .endpoint_set import Endpoints
from .explain import Said, to_fail, to_wait
from .pick import QUEUEING, PickArgs, Picker, PickResult, failing
from .policy import CONNECTING, Decision, Inputs, Report, Surroundings
from .state import StickyFailures, aggregate


class WeightedTarget:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._failures = StickyFailures()
        self.reads_endpoints = True

    def decide(self, inputs: Inputs, now: float) -> Decision:
        targets = inputs.config.targets
        reports = {name: inputs.children.get(name, CONNECTING) for name in targets}
        # A target of weight 0 is never drawn, so it cannot make the whole READY.
        drawn = {name: target.weight for name, target in targets.items() if target.weight}
        states = self._failures.states(drawn, reports)
        self.reads_endpoints = not drawn  # then for the reason why there are none
        if not drawn:
            return Decision(Connectivity.TRANSIENT_FAILURE, failing(_empty(inputs.endpoints)))
        state = aggregate(states.values())
        return Decision(
            state,
            self._picker(state, states, reports, drawn),
            children={name: target.config for name, target in targets.items()},
            keep=frozenset(inputs.children.keys() - targets.keys()),
        )

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        weights = {name: target.weight for name, target in inputs.config.targets.items() if target.weight}
        states = self._failures.states(weights, inputs.children)
        saw = ", ".join(f"{name} {states[name].name} of weight {weight}" for name, weight in weights.items())
        if not weights:
            return to_fail("no targets", _empty(inputs.endpoints), "there is none to draw")
        state = aggregate(states.values())
        if state is Connectivity.CONNECTING:
            return to_wait(saw, "a target to be READY", "none is yet")
        names = [name for name, its in states.items() if its is state]
        if len(names) == 1 or state is not Connectivity.READY:
            why = "the only one" if len(names) == 1 else "the last one, which speaks for all,"
            return Said(saw, names[-1], f"{why} that is {state.name}", names[-1])
        bounds = tuple(accumulate(weights[name] for name in names))
        number = self._random.random() * bounds[-1]
        chosen = names[bisect(bounds, number, hi=len(bounds) - 1)]
        return Said(saw, chosen, f"drew {number:.1f} of {bounds[-1]}", chosen)

    def _picker(
        self,
        state: Connectivity,
        states: Mapping[str, Connectivity],
        reports: Mapping[str, Report],
        weights: Mapping[str, int],
    ) -> Picker:
        if state is Connectivity.CONNECTING:
            return QUEUEING
        pickers = {name: reports[name].picker for name, its in states.items() if its is state}
        if len(pickers) == 1 or state is not Connectivity.READY:
            # IDLE: any pick wakes its child. Failure: the last target's error speaks for all.
            return list(pickers.values())[-1]
        return Draw(tuple(pickers.values()), tuple(accumulate(weights[name] for name in pickers)), self._random)


def _empty(endpoints: Endpoints) -> Status:
    return unavailable(endpoints.note or "no localities with endpoints")


@dataclass(frozen=True, slots=True)
class Draw:
    pickers: tuple[Picker, ...]
    bounds: tuple[int, ...]  # running sums of the weights
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        # `hi`: of sums beyond 2**53 the product may come to be the last bound itself.
        drawn = bisect(self.bounds, self.random.random() * self.bounds[-1], hi=len(self.bounds) - 1)
        return self.pickers[drawn].pick(call)
