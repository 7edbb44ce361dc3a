"""The weighted_round_robin policy picks by an EDF schedule, whose weights are computed from load reports (A58)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from trxds.core.connectivity import Connectivity
from trxds.core.observe import WrrUpdate
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.orca import import_messages

from ..endpoint_list import EndpointList, EndpointState, Key, index_by_address, key_of
from ..endpoint_set import Endpoints
from ..interfaces import SubchannelInterface
from ..load_report.orca_oob import watch_load_reports
from ..pick import Complete, Picker
from ..policy import ChannelControl, Decision, PolicyInputs
from ..slow_start import WarmingHosts
from .edf_scheduler import EdfPicker, EdfScheduler
from .endpoint_weight import EndpointWeight

_OobTask: TypeAlias = partial[Coroutine[Any, Any, None]]
_WHY = "it is its turn, with a weight of {:.3g}"


class WeightedRoundRobin:
    """The weighted_round_robin policy; weights and schedule outlive its pickers."""

    def __init__(self, channel_control: ChannelControl) -> None:
        import_messages()
        self._control = channel_control
        self._endpoints = EndpointList(self._make_picker, channel_control.lookup)
        self._rules: ClientSideWeightedRoundRobin | None = None
        self._last_endpoints: Endpoints | None = None
        self._weights: dict[Key, EndpointWeight] = {}
        self._trackers: Mapping[str, EndpointWeight] = {}  # the same by address, if reports come with RPCs
        self._warming = WarmingHosts()
        self._now = 0.0  # of the decision under way
        self._ready: tuple[Key, ...] = ()
        self._schedule: EdfScheduler | None = None  # of the READY endpoints; it outlives pickers
        self._oob_tasks: dict[str, _OobTask] = {}  # of the READY endpoints, by the task's name

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        if inputs.config is not self._rules or inputs.endpoints is not self._last_endpoints:
            self._apply_update(inputs.config, inputs.endpoints)
        self._now = now
        decision = self._endpoints.decide(inputs, now)
        if decision.state is not Connectivity.READY:
            # So that hosts which return begin a new blackout period.
            self._ready, self._oob_tasks = (), {}
            self._warming.update((), now)
        return replace(decision, tasks=self._oob_tasks, trackers=self._trackers)

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        return self._endpoints.describe() + self._warming.describe(inputs.config.slow_start, now)

    def _apply_update(self, rules: ClientSideWeightedRoundRobin, endpoints: Endpoints) -> None:
        self._rules, self._last_endpoints = rules, endpoints
        old = self._weights
        self._schedule = None
        self._weights = {k: old.get(k) or EndpointWeight(rules) for k in map(key_of, endpoints)}
        for weight in self._weights.values():
            weight.rules = rules
        # With reports out of band, those in trailers do not count (A58).
        out_of_band = rules.reporting_period is not None
        self._trackers = {} if out_of_band else index_by_address(self._weights, endpoints)

    def _make_picker(self, ready: Mapping[Key, EndpointState]) -> Picker:
        rules = self._rules
        assert rules is not None
        weights = tuple(self._weights[key] for key in ready)
        # Before the schedule reads the weights.
        for key in ready.keys() - set(self._ready):
            self._weights[key].restart_blackout()
        self._warming.update(ready, self._now)
        # The same schedule for the same hosts, or each decision would begin it anew at random.
        keys, slow_start = tuple(ready), rules.slow_start
        if self._schedule is None or keys != self._ready:
            self._schedule = EdfScheduler(
                lambda now: [each.at(now) for each in weights],
                rules.update_period,
                self._control.random,
                partial(self._report_weights, weights),
                partial(self._warming.shares, keys, slow_start) if slow_start is not None else None,
            )
        self._ready = keys
        pairs = [(endpoint.host, weight) for endpoint, weight in zip(ready.values(), weights, strict=True)]
        if rules.reporting_period is None:
            self._oob_tasks = {}  # an update may have turned them off
            return EdfPicker(tuple(Complete(host, (weight,)) for host, weight in pairs), self._schedule, _WHY)
        self._oob_tasks = dict(self._oob_task(host, weight, rules.reporting_period) for host, weight in pairs)
        return EdfPicker(tuple(Complete(host) for host, _ in pairs), self._schedule, _WHY)

    def _report_weights(self, weights: Sequence[EndpointWeight], known: Sequence[float], now: float) -> None:
        if self._control.observers.active:
            unknown = sum(not each for each in known)
            stale = sum(weight.is_stale(now) for weight, each in zip(weights, known, strict=True) if not each)
            few = len(known) - unknown < 2
            update = WrrUpdate(self._control.path, tuple(known), unknown - stale, stale, few)
            self._control.observers.weights(update)

    def _oob_task(self, host: SubchannelInterface, weight: EndpointWeight, period: float) -> tuple[str, _OobTask]:
        """Return name and function of the task that reads a host's reports: the same one while the host is READY."""
        name = f"load reports of {host.address}"
        task = partial(watch_load_reports, host, period, weight.record_report, self._control.random)
        before = self._oob_tasks.get(name)
        # A58: an update that changes nothing for the host leaves its stream of reports open.
        return name, before if before is not None and before.args == task.args else task
