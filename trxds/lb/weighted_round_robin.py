"""Turns by weight, and the weights are what the hosts' load reports make of them (A58).

Out-of-band reports are not asked for; hosts that send them should send them with the responses too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trxds.config.policies import WeightedRoundRobinConfig
from trxds.ground.connectivity import Connectivity

from .endpoints import EndpointState
from .explain import Said
from .petiole import ConnectedEndpoints, Key, key_of
from .pick import Complete, PickArgs, Picker, PickResult
from .policy import Decision, Inputs, Surroundings
from .reported_weight import ReportedWeight
from .schedule import Schedule


class WeightedRoundRobin:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._endpoints = ConnectedEndpoints(self._turns)
        self._config: WeightedRoundRobinConfig | None = None
        self._weights: dict[Key, ReportedWeight] = {}
        self._ready: tuple[Key, ...] = ()
        self._schedule: Schedule | None = None  # of those that are ready; outlives pickers like they do

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.config is not self._config:
            self._take_over(inputs.config)
        decision = self._endpoints.decide(inputs, now)
        if decision.state is not Connectivity.READY:
            self._ready = ()
        return decision

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        def scheduled(ready: Mapping[Key, EndpointState]) -> tuple[Key, str]:
            assert self._schedule is not None
            position, weight = self._schedule.peek(call.now)
            return tuple(ready)[position], f"it is its turn, with a weight of {weight:.3g}"

        return self._endpoints.explain(inputs, scheduled)

    def _take_over(self, config: WeightedRoundRobinConfig) -> None:
        old, self._config, self._schedule = self._weights, config, None
        self._weights = {k: old.get(k) or ReportedWeight(config.rules) for k in map(key_of, config.endpoints)}
        for weight in self._weights.values():
            weight.rules = config.rules

    def _turns(self, ready: Mapping[Key, EndpointState]) -> Picker:
        assert self._config is not None
        weights = tuple(self._weights[key] for key in ready)
        for key in ready.keys() - set(self._ready):
            self._weights[key].connected()
        if self._schedule is None or tuple(ready) != self._ready:
            period = self._config.rules.update_period
            self._schedule = Schedule(lambda now: [weight.at(now) for weight in weights], period, self._random)
        self._ready = tuple(ready)
        hosts = tuple(Complete(each.host, (weight,)) for each, weight in zip(ready.values(), weights, strict=True))
        return Turns(hosts, self._schedule)


@dataclass(frozen=True, slots=True)
class Turns:
    hosts: tuple[Complete, ...]
    schedule: Schedule

    def pick(self, call: PickArgs) -> PickResult:
        return self.hosts[self.schedule.next(call.now)]
