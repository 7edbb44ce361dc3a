"""round_robin picks each READY endpoint in turn; it connects all of them, and again when they are lost (A61)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from operator import attrgetter

from msgspec import Struct

from .endpoint_list import EndpointList, EndpointState, Key, is_ready
from .pick import Complete, Explainable, PickArgs, Picker, PickResult
from .policy import ChannelControl, Decision, PolicyInputs
from .slow_start import ChoiceByShares
from .weighted_round_robin.edf_scheduler import EdfPicker, EdfScheduler

_COMPLETE = attrgetter("complete")
_WHY_IN_SLOW_START = "it is its turn, with a share of {:.2g} in slow start"


class RoundRobin:
    """The round_robin policy; a model for a policy of your own (docs/writing-a-policy.md)."""

    def __init__(self, channel_control: ChannelControl) -> None:
        self._random = channel_control.random
        self._endpoints = EndpointList(self._make_picker, channel_control.lookup)
        self._ready: tuple[Key, ...] = ()
        self._turn: Iterator[int] = count()
        self._picker: RoundRobinPicker | None = None
        self._has_ready_news = True
        self._slow_start: ChoiceByShares[EdfScheduler] | None = None  # once it is configured

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        self._has_ready_news = any(map(is_ready, map(inputs.hosts.get, inputs.news)))
        if self._slow_start is None and inputs.config.slow_start is not None:
            self._slow_start = ChoiceByShares(partial(EdfScheduler, random=self._random))
        if self._slow_start is None:
            return self._endpoints.decide(inputs, now)
        return self._slow_start.decide(self._endpoints, inputs, now)

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        in_slow_start = self._slow_start.describe(now) if self._slow_start is not None else ""
        return self._endpoints.describe() + in_slow_start

    def _make_picker(self, ready: Mapping[Key, EndpointState]) -> Picker:
        if self._slow_start is not None and (schedule := self._slow_start.among(ready)) is not None:
            return EdfPicker(tuple(map(_COMPLETE, ready.values())), schedule, _WHY_IN_SLOW_START)
        keys = tuple(ready)
        if keys != self._ready:
            # A random start, or every client of a restarted fleet would begin at the same host.
            self._ready, self._turn = keys, count(self._random.randrange(len(keys)))
        hosts = tuple(map(_COMPLETE, ready.values()))
        # An RPC whose host was lost waits for another picker. So news of a READY host make a new picker: the host may
        # have another connection. Other news are of hosts that the picker does not have.
        if (
            self._picker is None
            or self._has_ready_news
            or hosts != self._picker.hosts
            or self._turn is not self._picker.turn
        ):
            self._picker = RoundRobinPicker(hosts, self._turn)
        return self._picker


class RoundRobinPicker(Explainable, Struct, frozen=True):
    """A picker over the READY hosts; `turn` is the policy's, so a new picker goes on where the old one was."""

    hosts: tuple[Complete, ...]
    turn: Iterator[int]

    def pick(self, call: PickArgs) -> PickResult:
        hosts, turn = self.hosts, next(self.turn)
        if call.trace is not None:
            call.trace.note("it is its turn")
            for _ in range(len(hosts) - 1):
                next(self.turn)  # the rest of a round: an explanation must not change the next RPC's host
        return hosts[turn % len(hosts)]
