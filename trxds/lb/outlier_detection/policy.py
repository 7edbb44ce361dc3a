"""The outlier detection policy ejects hosts that fail too many RPCs for a while (A50).

They are ejected for this cluster only: by the subtree's ejections, not by the state of a
subchannel, which other clusters may share. Their connections stay, so a returned host serves
at once, and a session's cookie still reaches its host.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import ClassVar

from msgspec import Struct

from trxds.core.observe import OutlierEvent
from trxds.resources.endpoint import Endpoint
from trxds.resources.outlier_detection import OutlierDetectionSettings

from ..configs import ClusterImplConfig, OutlierDetectionConfig
from ..endpoint_list import Key, key_of
from ..pick import Complete, PickArgs, Picker, PickResult, TraceNote, WrapperPicker
from ..policy import CONNECTING, EMPTY_SET, ChannelControl, Decision, PolicyInputs
from .outlier_algorithms import EndpointStats, find_failure_percentage_outliers, find_success_rate_outliers

_CHILD = "limits"
_HANDED_ON = TraceNote("it only counts; leaf policies skip ejected hosts")
_NO_RULES = TraceNote("it has no rules and ejects no host")
_MIN_INTERVAL = 0.1  # seconds; an interval of 0 is valid, and would be an endless loop


class OutlierDetection:
    """The outlier detection policy; it counts RPCs, and ejects hosts at the end of each interval."""

    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl) -> None:
        self._path = channel_control.path
        self._random = channel_control.random
        self._observers = channel_control.observers
        self._backend = ""
        self._endpoints: tuple[Endpoint, ...] = ()  # the endpoints that have records
        self._records: dict[Key, EndpointStats] = {}
        self._by_address: dict[str, EndpointStats] = {}  # the same records, for picks
        self._interval_began_at: float | None = None
        self._ejected: frozenset[str] = EMPTY_SET
        self._picker: OutlierDetectionPicker | None = None
        self.reads_endpoints = True

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        config: OutlierDetectionConfig = inputs.config
        self._backend = config.child.cluster if isinstance(config.child, ClusterImplConfig) else ""
        self.reads_endpoints = config.rules is not None
        report = inputs.children.get(_CHILD, CONNECTING)
        wake_at = self._run_timer(config.rules, inputs.endpoints.all, now)
        return Decision(
            report.state,
            self._make_picker(report.picker) if config.rules is not None else report.picker,
            children={_CHILD: config.child},
            wake_at=wake_at,
            ejected=self._ejected,
            handed_on=_HANDED_ON if config.rules is not None else _NO_RULES,
            in_first_pass=report.in_first_pass,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        if inputs.config.rules is None:
            return "no rules"
        return f"ejected: {', '.join(sorted(self._ejected)) or 'nobody'}"

    def _run_timer(self, rules: OutlierDetectionSettings | None, endpoints: tuple[Endpoint, ...], now: float) -> float:
        """End the interval if it is due at `now`; return when the next one ends."""
        # A50: without rules all counts are forgotten, and all hosts return.
        if rules is None:
            endpoints, self._interval_began_at = (), None
        if endpoints is not self._endpoints:
            self._update_endpoints(endpoints)
        if rules is None:
            return math.inf
        interval = max(rules.interval, _MIN_INTERVAL)
        if self._interval_began_at is None:
            self._interval_began_at = now
        # A50: a new interval counts from the beginning of the present one, so updates do not put the sweep off.
        elif now >= self._interval_began_at + interval:
            self._interval_began_at = now
            self._sweep(rules, now)
        return self._interval_began_at + interval

    def _update_endpoints(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Replace the endpoints; those that stay keep their records."""
        self._endpoints = endpoints
        old = self._records
        keyed = zip(map(key_of, endpoints), endpoints, strict=True)
        self._records = {key: old.get(key) or EndpointStats(endpoint.addresses) for key, endpoint in keyed}
        # In place: the picker holds this mapping.
        self._by_address.clear()
        for record in self._records.values():
            self._by_address.update(dict.fromkeys(record.addresses, record))
        # A50: an endpoint that has left is forgotten, and is not ejected should it return.
        self._update_ejected()

    def _sweep(self, rules: OutlierDetectionSettings, now: float) -> None:
        records = self._records.values()
        # A50 orders a sweep: swap the counts, run the algorithms, then uneject and lower multipliers.
        for record in records:
            record.swap_counts()
        if rules.success_rate is not None:
            failing = find_success_rate_outliers(rules.success_rate, records)
            self._eject(failing, "success_rate", rules.success_rate.enforcement, rules, now)
        if rules.failure_percentage is not None:
            failing = find_failure_percentage_outliers(rules.failure_percentage, records)
            self._eject(failing, "failure_percentage", rules.failure_percentage.enforcement, rules, now)
        for record in records:
            record.end_interval(rules, now)
        self._update_ejected()

    def _eject(
        self,
        outliers: Iterable[EndpointStats],
        method: str,
        enforcement: int,
        rules: OutlierDetectionSettings,
        now: float,
    ) -> None:
        ejected = sum(record.ejected_at is not None for record in self._records.values())
        for record in outliers:
            # Unlike A50: sessions still reach an ejected host, and what fails there must not make its time begin anew.
            if record.ejected_at is not None:
                continue
            # A50 checks the percentage before each ejection, so one host may be ejected however small it is.
            unenforced = ""
            if ejected and 100 * ejected >= rules.max_ejection_percent * len(self._records):
                unenforced = "max_ejection_overflow"
            elif self._random.randrange(100) >= enforcement:
                unenforced = "enforcement_percentage"
            else:
                record.eject(now)
                ejected += 1
            event = OutlierEvent(self._path, record.addresses, method, unenforced, self._backend)
            self._observers.outlier(event)

    def _update_ejected(self) -> None:
        out = (record.addresses for record in self._records.values() if record.ejected_at is not None)
        self._ejected = frozenset(chain.from_iterable(out)) or EMPTY_SET

    def _make_picker(self, child: Picker) -> OutlierDetectionPicker:
        # The same picker for the same child, or every sweep would make queued RPCs pick again.
        if self._picker is None or self._picker.child is not child:
            self._picker = OutlierDetectionPicker(child, self._by_address)
        return self._picker


class OutlierDetectionPicker(WrapperPicker, Struct, frozen=True):
    """A picker that adds the tracker of the chosen host; `records` is the policy's, by address."""

    child: Picker
    records: Mapping[str, EndpointStats]

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is Complete:
            record = self.records.get(result.host.address)
            if record is not None:
                return result.with_tracker(record)
        return result
