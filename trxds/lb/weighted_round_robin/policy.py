"""Turns by weight, and the weights are what the hosts' load reports make of them (A58)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from trxds.core.connectivity import Connectivity
from trxds.core.observe import WrrUpdate
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin

from ..endpoint_list import EndpointList, EndpointState, Key, by_address, key_of
from ..endpoint_set import Endpoints
from ..interfaces import SubchannelInterface
from ..load_report.orca_oob import watch_load_reports
from ..pick import Complete, Explainable, PickArgs, Picker, PickResult
from ..policy import ChannelControl, Decision, PolicyInputs
from .edf_scheduler import EdfScheduler
from .endpoint_weight import EndpointWeight

_Follower: TypeAlias = partial[Coroutine[Any, Any, None]]


class WeightedRoundRobin:
    def __init__(self, channel_control: ChannelControl) -> None:
        self._random = channel_control.random
        self._observers = channel_control.observers
        self._path = channel_control.path
        self._endpoints = EndpointList(self._turns, channel_control.lookup)
        self._rules: ClientSideWeightedRoundRobin | None = None
        self._configured: Endpoints | None = None
        self._weights: dict[Key, EndpointWeight] = {}
        self._trackers: Mapping[str, EndpointWeight] = {}  # the same by address, if reports come with RPCs
        self._ready: tuple[Key, ...] = ()
        self._schedule: EdfScheduler | None = None  # of those that are ready; outlives pickers like they do
        self._followers: dict[str, _Follower] = {}  # of those that are ready, by the name of the task

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._rules or inputs.endpoints is not self._configured:
            self._take_over(inputs.config, inputs.endpoints)
        decision = self._endpoints.decide(inputs, now)
        if decision.state is not Connectivity.READY:
            self._ready, self._followers = (), {}
        return replace(decision, tasks=self._followers, trackers=self._trackers)

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return self._endpoints.describe()

    def _take_over(self, rules: ClientSideWeightedRoundRobin, endpoints: Endpoints) -> None:
        self._rules, self._configured = rules, endpoints
        old = self._weights
        self._schedule, self._followers = None, {}
        self._weights = {k: old.get(k) or EndpointWeight(rules) for k in map(key_of, endpoints)}
        for weight in self._weights.values():
            weight.rules = rules
        # Reports out of band are not looked for in trailers (A58).
        out_of_band = rules.reporting_period is not None
        self._trackers = {} if out_of_band else by_address(self._weights, endpoints)

    def _turns(self, ready: Mapping[Key, EndpointState]) -> Picker:
        rules = self._rules
        assert rules is not None
        weights = tuple(self._weights[key] for key in ready)
        for key in ready.keys() - set(self._ready):
            self._weights[key].connected()
        if self._schedule is None or tuple(ready) != self._ready:
            self._schedule = EdfScheduler(
                lambda now: [each.at(now) for each in weights],
                rules.update_period,
                self._random,
                partial(self._tell, weights),
            )
        self._ready = tuple(ready)
        pairs = [(endpoint.host, weight) for endpoint, weight in zip(ready.values(), weights, strict=True)]
        if rules.reporting_period is None:
            return WrrPicker(tuple(Complete(host, (weight,)) for host, weight in pairs), self._schedule)
        self._followers = dict(self._follower(host, weight, rules.reporting_period) for host, weight in pairs)
        return WrrPicker(tuple(Complete(host) for host, _ in pairs), self._schedule)

    def _tell(self, weights: Sequence[EndpointWeight], known: Sequence[float], now: float) -> None:
        if self._observers.active:
            unknown = sum(not each for each in known)
            stale = sum(weight.stale(now) for weight, each in zip(weights, known, strict=True) if not each)
            few = len(known) - unknown < 2
            self._observers.weights(WrrUpdate(self._path, tuple(known), unknown - stale, stale, few))

    def _follower(self, host: SubchannelInterface, weight: EndpointWeight, period: float) -> tuple[str, _Follower]:
        """The task of that host, the same one for as long as it is READY."""
        name = f"load reports of {host.address}"
        task = self._followers.get(name)
        if task is None or task.args[0] is not host:
            task = partial(watch_load_reports, host, period, weight.take, self._random)
        return name, task


@dataclass(frozen=True, slots=True)
class WrrPicker(Explainable):
    hosts: tuple[Complete, ...]
    schedule: EdfScheduler

    def pick(self, call: PickArgs) -> PickResult:
        if call.trace is None:
            return self.hosts[self.schedule.next(call.now)]
        schedule = self.schedule.copy(call.trace.random)
        position = schedule.next(call.now)
        call.trace.note(f"it is its turn, with a weight of {schedule.weight(position):.3g}")
        return self.hosts[position]
