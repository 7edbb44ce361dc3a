"""A cluster whose load is reported: each pick brings along what counts the RPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trxds.config.policies import Reporting

from .load_counts import ClusterCounts, RpcCount
from .pick import Complete, PickArgs, Picker, PickResult


class Reported:
    """The counts of a cluster, and a tracker for each of its addresses.

    An address is what a picker knows of a host, whichever way it came to it: by the child's choice
    or by a cookie.
    """

    def __init__(self, reporting: Reporting, counts: ClusterCounts) -> None:
        self.reporting = reporting
        self.counts = counts
        self.trackers: dict[str, RpcCount] = {}
        for locality in reporting.localities:
            tracker = counts.tracker(locality.id, reporting.rules.metrics)
            for endpoint in locality.endpoints:
                self.trackers.update(dict.fromkeys(endpoint.addresses, tracker))


@dataclass(frozen=True, slots=True)
class CountedRpcs:
    """Adds to each RPC the count of its host's locality."""

    trackers: Mapping[str, RpcCount]
    child: Picker

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call)
        if type(result) is Complete and (tracker := self.trackers.get(result.host.address)) is not None:
            return result.with_tracker(tracker)
        return result
