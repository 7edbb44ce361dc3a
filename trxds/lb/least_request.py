"""Of a few hosts drawn at random, the one with the fewest RPCs in flight (A48).

The counts are this policy's own: of the RPCs that it sends, and of the sessions' that their cookies send to its hosts.
They outlive the pickers: an RPC that began under an old picker still counts under the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig

from .endpoint_set import Endpoints
from .endpoints import EndpointState
from .explain import Said
from .limits import InFlight
from .petiole import ConnectedEndpoints, Key, by_address, key_of
from .pick import Complete, PickArgs, Picker, PickResult
from .policy import Decision, Inputs, Surroundings


class LeastRequest:
    def __init__(self, surroundings: Surroundings) -> None:
        self._random = surroundings.random
        self._endpoints = ConnectedEndpoints(self._sample, surroundings.find)
        self._config: LeastRequestConfig | None = None
        self._configured: Endpoints | None = None
        self._counts: dict[Key, InFlight] = {}
        self._trackers: dict[str, InFlight] = {}  # the same by address

    def decide(self, inputs: Inputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._configured:
            self._take_over(inputs.config, inputs.endpoints)
        return replace(self._endpoints.decide(inputs, now), trackers=self._trackers)

    def explain(self, inputs: Inputs, call: PickArgs) -> Said:
        return self._endpoints.explain(inputs, self._least)

    def _least(self, ready: Mapping[Key, EndpointState]) -> tuple[Key, str]:
        assert self._config is not None
        drawn = self._random.choices(tuple(ready), k=self._config.choice_count)
        counts = ", ".join(f"{ready[key].host.address} with {self._counts[key].rpcs}" for key in drawn)
        return min(drawn, key=lambda key: self._counts[key].rpcs), f"the fewest RPCs in flight of those drawn: {counts}"

    def _take_over(self, config: LeastRequestConfig, endpoints: Endpoints) -> None:
        self._config, self._configured = config, endpoints
        old = self._counts
        self._counts = {key: old.get(key) or InFlight() for key in map(key_of, endpoints)}
        self._trackers = by_address(self._counts, endpoints)

    def _sample(self, ready: Mapping[Key, EndpointState]) -> Picker:
        assert self._config is not None
        counts = tuple(self._counts[key] for key in ready)
        hosts = tuple(Complete(each.host, (count,)) for each, count in zip(ready.values(), counts, strict=True))
        return Sample(hosts, counts, self._config.choice_count, self._random)


@dataclass(frozen=True, slots=True)
class Sample:
    hosts: tuple[Complete, ...]
    counts: tuple[InFlight, ...]  # of the same hosts; read at the pick
    choice_count: int
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        # Some may be drawn twice, as in Envoy: so even the busiest host gets an RPC now and then.
        chosen = self._draw()
        for _ in range(self.choice_count - 1):
            other = self._draw()
            if self.counts[other].rpcs < self.counts[chosen].rpcs:
                chosen = other
        return self.hosts[chosen]

    def _draw(self) -> int:
        return int(self.random.random() * len(self.hosts))
