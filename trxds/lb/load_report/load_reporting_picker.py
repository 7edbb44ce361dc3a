"""A cluster whose load is reported: each pick brings along what counts the RPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trxds.resources.cluster import LoadReporting
from trxds.resources.endpoint import Locality

from ..pick import Complete, Explainable, PickArgs, Picker, PickResult
from .load_store import ClusterCounts, RpcCount


class ClusterLoadTrackers:
    """The counts of a cluster, and a tracker for each of its addresses.

    An address is what a picker knows of a host, whichever way it came to it: by the child's choice
    or by a cookie.
    """

    def __init__(self, rules: LoadReporting, localities: Sequence[Locality], counts: ClusterCounts) -> None:
        self._rules = rules
        self._localities = localities
        self.counts = counts
        self.trackers: dict[str, RpcCount] = {}
        for locality in localities:
            tracker = counts.tracker(locality.id, rules.metrics)
            for endpoint in locality.endpoints:
                self.trackers.update(dict.fromkeys(endpoint.addresses, tracker))

    def goes_by(self, rules: LoadReporting, localities: Sequence[Locality]) -> bool:
        """Return whether it was made from these."""
        return self._rules == rules and self._localities == localities


@dataclass(frozen=True, slots=True)
class LoadReportingPicker(Explainable):
    """Adds to each RPC the count of its host's locality."""

    trackers: Mapping[str, RpcCount]
    child: Picker

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is Complete and (tracker := self.trackers.get(result.host.address)) is not None:
            return result.with_tracker(tracker)
        return result
