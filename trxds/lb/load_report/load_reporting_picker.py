"""The load reporting picker adds a tracker to each pick in a cluster whose load is reported (LRS; A85)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from trxds.resources.cluster import LoadReporting
from trxds.resources.endpoint import Locality

from ..pick import Complete, PickArgs, Picker, PickResult, WrapperPicker
from .load_store import ClusterCounts, RpcCount


class ClusterLoadTrackers:
    """The counts of a cluster, and a tracker for each of its addresses.

    A picker finds a tracker by the host's address, whether the child or a cookie chose the host.
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

    def is_made_from(self, rules: LoadReporting, localities: Sequence[Locality]) -> bool:
        """Return whether the trackers were made from these rules and localities."""
        return self._rules == rules and self._localities == localities


class LoadReportingPicker(WrapperPicker, Struct, frozen=True):
    """A picker that adds the tracker of the chosen host's locality."""

    trackers: Mapping[str, RpcCount]
    child: Picker

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is Complete and (tracker := self.trackers.get(result.host.address)) is not None:
            return result.with_tracker(tracker)
        return result
