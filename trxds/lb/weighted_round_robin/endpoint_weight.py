"""An endpoint's weight by what it reports of its load (A58): the more it serves for its utilization, the more it gets.

Reports come in the trailers of RPCs, so the weight is a tracker of them, or out of band (A51).
"""

from __future__ import annotations

import math

from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.orca import LoadReport, load_report

REPORT_KEY = "endpoint-load-metrics-bin"


class EndpointWeight:
    __slots__ = ("_reported_at", "_since", "_weight", "rules")

    def __init__(self, rules: ClientSideWeightedRoundRobin) -> None:
        self.rules = rules
        self._weight = 0.0
        self._reported_at = -math.inf
        self._since = math.inf  # when the reports began that have come without a break

    def began(self) -> None:
        pass

    def ended(self, status: Status, trailing: Metadata, now: float) -> None:
        value = trailing.first(REPORT_KEY)
        report = load_report(value) if isinstance(value, bytes) else None
        if report is not None:
            self.take(report, now)

    def take(self, report: LoadReport, now: float) -> None:
        """One that says nothing, or of which no weight can be made, changes nothing."""
        weight = self._of(report)
        if not 0.0 < weight < math.inf:
            return
        if self._expired(now):
            # A58 notices this with a timer. Sessions report without a pick of ours that would look.
            self._since = now
        self._weight, self._reported_at = weight, now
        self._since = min(self._since, now)

    def _of(self, report: LoadReport) -> float:
        """The weight by A58; 0, infinity or NaN if there is none, or if numbers at the end of their range have none."""
        if report.queries <= 0 or report.utilization <= 0:
            return 0.0
        load = report.utilization
        if self.rules.error_penalty:
            load += report.errors / report.queries * self.rules.error_penalty
        return report.queries / load if load > 0 else 0.0

    def connected(self) -> None:
        """A new connection may lead to a new process: its first reports do not count yet."""
        self._since = math.inf

    def stale(self, now: float) -> bool:
        """There was a report, and it is too old."""
        return self._weight > 0 and self._expired(now)

    def at(self, now: float) -> float:
        """The weight to use; 0 while there is none, or the reports are too few or too old."""
        if self._expired(now):
            self._since = math.inf
            return 0.0
        # Without a blackout the last weight counts over a new connection too.
        return self._weight if not self.rules.blackout or now - self._since >= self.rules.blackout else 0.0

    def _expired(self, now: float) -> bool:
        return now - self._reported_at >= self.rules.expiration
