"""Who fails too much (A50): what is counted of each endpoint, and the two algorithms that judge it.

An endpoint with several addresses is judged as one: what makes its RPCs fail seldom depends on
the address they took (A61).
"""

from __future__ import annotations

from collections.abc import Collection
from math import fsum, sqrt

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate


class EndpointStats:
    """One endpoint's calls and ejections; a tracker of its RPCs.

    `successes` and `failures` are those of the last full interval; what ends now is counted
    apart, for the next one.
    """

    __slots__ = ("_failures", "_successes", "addresses", "ejected_at", "failures", "multiplier", "successes")

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.successes = self.failures = 0
        self.ejected_at: float | None = None
        self.multiplier = 0  # how often it was ejected, less what it has since been forgiven
        self._successes = self._failures = 0

    def began(self) -> None:
        pass

    def ended(self, status: Status, trailing: Metadata = EMPTY, now: float = 0.0) -> None:
        if status.ok:
            self._successes += 1
        else:
            self._failures += 1

    def next_interval(self) -> None:
        self.successes, self.failures = self._successes, self._failures
        self._successes = self._failures = 0

    @property
    def calls(self) -> int:
        return self.successes + self.failures

    def eject(self, now: float) -> None:
        self.ejected_at = now
        self.multiplier += 1

    def forgive(self, rules: OutlierDetectionSettings, now: float) -> None:
        """At the end of an interval: back if its time is over, a step nearer to the first ejection if it behaved."""
        if self.ejected_at is None:
            self.multiplier = max(self.multiplier - 1, 0)
            return
        longest = max(rules.base_ejection_time, rules.max_ejection_time)
        if now >= self.ejected_at + min(rules.base_ejection_time * self.multiplier, longest):
            self.ejected_at = None

    def __repr__(self) -> str:
        ejected = f", ejected at {self.ejected_at:g}" if self.ejected_at is not None else ""
        return f"<Record {self.addresses[0]}: {self.successes} good, {self.failures} bad{ejected}>"


def by_success_rate(rules: SuccessRate, records: Collection[EndpointStats]) -> list[EndpointStats]:
    """Those that succeed much less often than the others."""
    judged = _with_volume(records, rules.request_volume)
    if not judged or len(judged) < rules.minimum_hosts:
        return []
    rates = [record.successes / record.calls for record in judged]
    mean = fsum(rates) / len(rates)
    stdev = sqrt(fsum((rate - mean) ** 2 for rate in rates) / len(rates))
    least = mean - stdev * rules.stdev_factor / 1000
    return [record for record, rate in zip(judged, rates, strict=True) if rate < least]


def by_failure_percentage(rules: FailurePercentage, records: Collection[EndpointStats]) -> list[EndpointStats]:
    """Those that fail more often than they may."""
    judged = _with_volume(records, rules.request_volume)
    if len(judged) < rules.minimum_hosts:
        return []
    return [record for record in judged if 100 * record.failures > rules.threshold * record.calls]


def _with_volume(records: Collection[EndpointStats], volume: int) -> list[EndpointStats]:
    least = max(volume, 1)  # of no calls there is no rate
    return [record for record in records if record.calls >= least]
