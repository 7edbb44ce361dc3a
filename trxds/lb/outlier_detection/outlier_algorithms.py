"""The outlier algorithms find endpoints that fail too much, by the counts of each (A50).

An endpoint with several addresses has one count: the reason of a failed RPC is seldom the
address that it took (A61).
"""

from __future__ import annotations

from collections.abc import Collection
from math import fsum, sqrt

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status
from trxds.resources.outlier_detection import FailurePercentage, OutlierDetectionSettings, SuccessRate


class EndpointStats:
    """One endpoint's RPCs and ejections, and a tracker of its RPCs.

    `successes` and `failures` are those of the last complete interval; RPCs that end now are counted
    for the next one (A50).
    """

    __slots__ = ("_failures", "_successes", "addresses", "ejected_at", "failures", "multiplier", "successes")

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.addresses = addresses
        self.successes = self.failures = 0
        self.ejected_at: float | None = None
        self.multiplier = 0  # the number of ejections, less one for each interval without ejection since (A50)
        self._successes = self._failures = 0

    def began(self) -> None:
        pass

    def ended(self, status: Status, trailing: Metadata = EMPTY, now: float = 0.0) -> None:
        if status.ok:
            self._successes += 1
        else:
            self._failures += 1

    def swap_counts(self) -> None:
        self.successes, self.failures = self._successes, self._failures
        self._successes = self._failures = 0

    @property
    def calls(self) -> int:
        return self.successes + self.failures

    def eject(self, now: float) -> None:
        self.ejected_at = now
        self.multiplier += 1

    def end_interval(self, rules: OutlierDetectionSettings, now: float) -> None:
        """End an interval: lower the multiplier, or uneject the endpoint if its ejection time is over (A50)."""
        if self.ejected_at is None:
            self.multiplier = max(self.multiplier - 1, 0)
            return
        # A50: the limit is never below the base time, whatever the configuration says.
        max_time = max(rules.base_ejection_time, rules.max_ejection_time)
        if now >= self.ejected_at + min(rules.base_ejection_time * self.multiplier, max_time):
            self.ejected_at = None

    def __repr__(self) -> str:
        ejected = f", ejected at {self.ejected_at:g}" if self.ejected_at is not None else ""
        return f"<Record {self.addresses[0]}: {self.successes} good, {self.failures} bad{ejected}>"


def find_success_rate_outliers(rules: SuccessRate, records: Collection[EndpointStats]) -> list[EndpointStats]:
    """Return the endpoints whose success rate is far below the mean (A50)."""
    judged = _with_enough_calls(records, rules.request_volume)
    # `minimum_hosts` may be 0, and without endpoints there is no mean.
    if not judged or len(judged) < rules.minimum_hosts:
        return []
    rates = [record.successes / record.calls for record in judged]
    mean = fsum(rates) / len(rates)
    stdev = sqrt(fsum((rate - mean) ** 2 for rate in rates) / len(rates))
    # A50: the factor is in thousandths.
    threshold = mean - stdev * rules.stdev_factor / 1000
    return [record for record, rate in zip(judged, rates, strict=True) if rate < threshold]


def find_failure_percentage_outliers(
    rules: FailurePercentage, records: Collection[EndpointStats]
) -> list[EndpointStats]:
    """Return the endpoints whose share of failures is above the threshold (A50)."""
    judged = _with_enough_calls(records, rules.request_volume)
    # A50: only those with enough calls count; the comment of the field counts all hosts.
    if len(judged) < rules.minimum_hosts:
        return []
    # Above and not at the threshold: A50's algorithm says so, and the comment of its field says otherwise.
    return [record for record in judged if 100 * record.failures > rules.threshold * record.calls]


def _with_enough_calls(records: Collection[EndpointStats], volume: int) -> list[EndpointStats]:
    min_calls = max(volume, 1)  # without calls there is no rate
    return [record for record in records if record.calls >= min_calls]
