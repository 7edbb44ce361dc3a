"""least_request draws a few hosts at random and picks the one with the fewest RPCs in flight (A48).

The counts are this policy's own: of the RPCs that it picks, and of sessions' RPCs, which cookies send to its hosts.
They outlive the pickers: an RPC that began under an old picker still counts under the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from msgspec import Struct

from trxds.resources.leaf_policy import LeastRequest as LeastRequestConfig

from .circuit_breakers import CallCounter
from .endpoint_list import EndpointList, EndpointState, Key, index_by_address, key_of
from .endpoint_set import Endpoints
from .pick import Complete, Explainable, PickArgs, Picker, PickResult
from .policy import ChannelControl, Decision, PolicyInputs
from .slow_start import ChoiceByShares, WeightedDraw

_WHY = "the fewest RPCs in flight of those drawn"


class LeastRequest:
    """The least_request policy; it counts the RPCs in flight to each endpoint."""

    def __init__(self, channel_control: ChannelControl) -> None:
        self._random = channel_control.random
        self._endpoints = EndpointList(self._make_picker, channel_control.lookup)
        self._config: LeastRequestConfig | None = None
        self._last_endpoints: Endpoints | None = None
        self._counts: dict[Key, CallCounter] = {}
        self._trackers: dict[str, CallCounter] = {}  # the same by address
        self._slow_start = ChoiceByShares(WeightedDraw)

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._config or inputs.endpoints is not self._last_endpoints:
            self._apply_update(inputs.config, inputs.endpoints)
        return replace(self._slow_start.decide(self._endpoints, inputs, now), trackers=self._trackers)

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return self._endpoints.describe() + self._slow_start.describe(now)

    def _apply_update(self, config: LeastRequestConfig, endpoints: Endpoints) -> None:
        self._config, self._last_endpoints = config, endpoints
        old = self._counts
        # An endpoint that stays keeps its count: its RPCs in flight go on.
        self._counts = {key: old.get(key) or CallCounter() for key in map(key_of, endpoints)}
        self._trackers = index_by_address(self._counts, endpoints)

    def _make_picker(self, ready: Mapping[Key, EndpointState]) -> Picker:
        assert self._config is not None
        counts = tuple(self._counts[key] for key in ready)
        hosts = tuple(Complete(each.host, (count,)) for each, count in zip(ready.values(), counts, strict=True))
        draw = self._slow_start.among(ready)
        if draw is not None:
            return SlowStartLeastRequestPicker(hosts, counts, self._config.choice_count, self._random, draw)
        return LeastRequestPicker(hosts, counts, self._config.choice_count, self._random)


class LeastRequestPicker(Explainable, Struct, frozen=True):
    """A picker that compares `choice_count` draws by the live counts."""

    hosts: tuple[Complete, ...]
    counts: tuple[CallCounter, ...]  # of the same hosts; read at the pick
    choice_count: int
    random: Random

    def pick(self, call: PickArgs) -> PickResult:
        if call.trace is None:
            return self.hosts[self._choose(self.random)]
        random = call.trace.random(self.random)
        chosen = self._choose(random)
        drawn = [int(fraction * len(self.hosts)) for fraction in random.fractions[-self.choice_count :]]
        call.trace.note(f"{_WHY}: {self._describe(drawn)}")
        return self.hosts[chosen]

    def _describe(self, drawn: list[int]) -> str:
        return ", ".join(f"{self.hosts[each].host.address} with {self.counts[each].rpcs}" for each in drawn)

    def _choose(self, random: Random) -> int:
        # A host may be drawn twice (A48, as in Envoy): so even the busiest one gets an RPC now and then.
        counts, size = self.counts, len(self.hosts)
        chosen = int(random.random() * size)
        for _ in range(self.choice_count - 1):
            other = int(random.random() * size)
            if counts[other].rpcs < counts[chosen].rpcs:
                chosen = other
        return chosen


class SlowStartLeastRequestPicker(LeastRequestPicker, frozen=True):
    """The same while a host starts slowly: it is drawn less often, by its share."""

    weighted_draw: WeightedDraw

    def pick(self, call: PickArgs) -> PickResult:
        if call.trace is None:
            return self.hosts[self._fewest(self._draws(self.weighted_draw, self.random, call.now))]
        drawn = self._draws(self.weighted_draw.copy(), call.trace.random(self.random), call.now)
        call.trace.note(f"{_WHY}, by their shares in slow start: {self._describe(drawn)}")
        return self.hosts[self._fewest(drawn)]

    def _draws(self, weighted_draw: WeightedDraw, random: Random, now: float) -> list[int]:
        return [weighted_draw.draw(random, now) for _ in range(self.choice_count)]

    def _fewest(self, drawn: list[int]) -> int:
        return min(drawn, key=lambda position: self.counts[position].rpcs)
