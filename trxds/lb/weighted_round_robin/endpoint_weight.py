"""An endpoint's weight is computed from its load reports (A58): queries per second by utilization and errors.

Reports come in the trailers of RPCs, so the weight is a tracker of them, or out of band (A51).
"""

from __future__ import annotations

import math

from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.orca import LoadReport, greatest_metric, load_report

REPORT_KEY = "endpoint-load-metrics-bin"


class EndpointWeight:
    """The weight of one endpoint, with A58's blackout and expiration periods."""

    __slots__ = ("_last_update_time", "_non_empty_since", "_weight", "rules")

    def __init__(self, rules: ClientSideWeightedRoundRobin) -> None:
        self.rules = rules
        self._weight = 0.0
        self._last_update_time = -math.inf
        self._non_empty_since = math.inf  # when the reports without a break began (A58)

    def began(self) -> None:
        pass

    def ended(self, status: Status, trailing: Metadata, now: float) -> None:
        value = trailing.first(REPORT_KEY)
        report = load_report(value) if isinstance(value, bytes) else None
        if report is not None:
            self.record_report(report, now)

    def record_report(self, report: LoadReport, now: float) -> None:
        """Record a report; one that yields no weight changes nothing (A58)."""
        weight = self._compute(report)
        if not 0.0 < weight < math.inf:
            return
        if self._is_expired(now):
            # A58 restarts the blackout when a pick finds the weight expired. Sessions report without such a pick.
            self._non_empty_since = now
        self._weight, self._last_update_time = weight, now
        self._non_empty_since = min(self._non_empty_since, now)

    def _compute(self, report: LoadReport) -> float:
        """Return the weight by A58; 0, infinity or NaN if the report has none, or numbers too large or small for it."""
        # A114: without any of the metrics that are configured it is what A58 says.
        load = (greatest_metric(report, self.rules.metrics) if self.rules.metrics else 0.0) or report.utilization
        if report.queries <= 0 or load <= 0:
            return 0.0
        # A58: load = utilization + errors per query * penalty.
        if self.rules.error_penalty:
            load += report.errors / report.queries * self.rules.error_penalty
        return report.queries / load if load > 0 else 0.0

    def restart_blackout(self) -> None:
        """Restart the blackout period: a new connection may lead to a new process, with no load yet (A58)."""
        self._non_empty_since = math.inf

    def is_stale(self, now: float) -> bool:
        """Return whether there was a report and it has expired."""
        return self._weight > 0 and self._is_expired(now)

    def at(self, now: float) -> float:
        """Return the weight at `now`; 0 before the first report, in the blackout period and after expiration (A58)."""
        # A58: after an expiration the next reports begin a new blackout period.
        if self._is_expired(now):
            self._non_empty_since = math.inf
            return 0.0
        # Without a blackout period the last weight also counts after a new connection.
        return self._weight if not self.rules.blackout or now - self._non_empty_since >= self.rules.blackout else 0.0

    def _is_expired(self, now: float) -> bool:
        return now - self._last_update_time >= self.rules.expiration
