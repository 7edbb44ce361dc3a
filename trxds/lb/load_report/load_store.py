"""The load store counts the load of clusters until it is reported to the control plane (LRS; A27, A64, A85).

Counts belong to a cluster and its EDS service, for all the channels of one xDS client. A cluster whose counts change
enlists for the next report: so they are reported even if the cluster is gone by then, and a report does not
read clusters without changes. The same holds for the localities of a cluster. Otherwise counts end with their last
user.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct, field

from trxds.core.metadata import Metadata
from trxds.core.status import Status
from trxds.resources.endpoint import LocalityId
from trxds.resources.load_stats import ClusterLoad, LocalityLoad, MetricLoad
from trxds.resources.orca import chosen_metrics

from ..weighted_round_robin.endpoint_weight import REPORT_KEY

Key: TypeAlias = tuple[Hashable, str, str]  # the server that gets the report, cluster, EDS service name


class LocalityStats(Struct, weakref=True):
    """The counts of RPCs to one locality; all but `in_progress` are since the last report."""

    locality: LocalityId
    is_enlisted: bool = False  # for the next report
    in_progress: int = 0
    issued: int = 0
    succeeded: int = 0
    failed: int = 0
    metrics: dict[str, MetricLoad] = field(default_factory=dict)

    def add(self, name: str, number: float, rpcs: int = 1) -> None:
        """Add the number of one RPC, or the sum of so many, to a metric."""
        metric = self.metrics.get(name, MetricLoad(0, 0.0))
        total = metric.total + number
        if math.isfinite(total):  # one host's 1e308 must not turn the others' numbers into infinity
            self.metrics[name] = MetricLoad(metric.rpcs + rpcs, total)

    def take(self) -> LocalityLoad:
        load = LocalityLoad(self.locality, self.issued, self.succeeded, self.failed, self.in_progress, self.metrics)
        self.is_enlisted = False
        self.issued = self.succeeded = self.failed = 0
        self.metrics = {}
        return load

    def restore(self, load: LocalityLoad) -> None:
        """Add the counts of a load that was taken, but not its RPCs in progress, which still count here."""
        self.issued += load.issued
        self.succeeded += load.succeeded
        self.failed += load.failed
        for name, metric in load.metrics.items():
            self.add(name, metric.total, metric.rpcs)


class ClusterCounts:
    """The load of one cluster and EDS service."""

    def __init__(self, key: Key, unreported: list[ClusterCounts]) -> None:
        _, self._cluster, self._service = key
        self._unreported = unreported
        self._is_enlisted = False  # for the next report
        self._rpcs: WeakValueDictionary[LocalityId, LocalityStats] = WeakValueDictionary()
        self._enlisted_rpcs: list[LocalityStats] = []  # a locality that is gone by then is reported too
        self._drops: Counter[str] = Counter()

    def __repr__(self) -> str:
        running = sum(each.in_progress for each in self._rpcs.values())
        return f"<ClusterCounts {self._cluster}: {running} RPCs in progress, {self._drops.total()} drops>"

    def drop(self, category: str) -> None:
        """Count a dropped RPC; an empty category is circuit breaking."""
        self.enlist()
        self._drops[category] += 1

    def tracker(self, locality: LocalityId, metrics: frozenset[str]) -> RpcCount:
        """Return a tracker of the RPCs to a locality, with these metrics of its hosts' load reports (A85)."""
        return RpcCount(self, self._of(locality), metrics)

    def take(self) -> ClusterLoad:
        """Return the load since the last call; RPCs in progress enlist the cluster for the next report too."""
        enlisted, self._enlisted_rpcs = self._enlisted_rpcs, []
        localities = tuple(rpcs.take() for rpcs in enlisted)
        drops, self._drops = dict(self._drops), Counter()
        self._is_enlisted = False
        # A long stream without events has to stay visible in each report.
        for rpcs in enlisted:
            if rpcs.in_progress:
                self.enlist_rpcs(rpcs)
        # `pop` takes the drops without a category out of `drops` before the call, so they are not reported twice.
        return ClusterLoad(self._cluster, self._service, localities, drops, drops.pop("", 0))

    def restore(self, load: ClusterLoad) -> None:
        """Add a load that was taken and did not reach the server."""
        self.enlist()
        for taken in load.localities:
            rpcs = self._of(taken.locality)
            rpcs.restore(taken)
            self.enlist_rpcs(rpcs)
        self._drops.update(load.drops)
        self._drops[""] += load.uncategorised

    def enlist(self) -> None:
        if not self._is_enlisted:
            self._is_enlisted = True
            self._unreported.append(self)

    def enlist_rpcs(self, rpcs: LocalityStats) -> None:
        """Report the counts of this locality the next time, though it may have left the cluster by then."""
        if not rpcs.is_enlisted:
            rpcs.is_enlisted = True
            self._enlisted_rpcs.append(rpcs)
            self.enlist()

    def _of(self, locality: LocalityId) -> LocalityStats:
        return self._rpcs.setdefault(locality, LocalityStats(locality))


class RpcCount(Struct, frozen=True, eq=False):
    """A tracker of any number of RPCs to one locality."""

    cluster: ClusterCounts
    rpcs: LocalityStats
    metrics: frozenset[str]

    def began(self) -> None:
        rpcs = self.rpcs
        if not rpcs.is_enlisted:
            self.cluster.enlist_rpcs(rpcs)
        rpcs.issued += 1
        rpcs.in_progress += 1

    def ended(self, status: Status, trailing: Metadata, now: float) -> None:
        rpcs = self.rpcs  # enlisted by `began`, and by each report as long as the RPC is in progress
        rpcs.in_progress -= 1
        if status.ok:
            rpcs.succeeded += 1
        else:
            rpcs.failed += 1
        value = trailing.first(REPORT_KEY) if self.metrics else None
        if isinstance(value, bytes):
            for name, number in chosen_metrics(value, self.metrics):
                rpcs.add(name, number)


class LoadStore:
    """The counts of one xDS client."""

    def __init__(self) -> None:
        self._counts: WeakValueDictionary[Key, ClusterCounts] = WeakValueDictionary()
        self._unreported: defaultdict[Hashable, list[ClusterCounts]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, server: Hashable, cluster: str, service: str) -> ClusterCounts:
        """Return the counts of a cluster; they live as long as there is a user of them or a report to make."""
        key = (server, cluster, service)
        return self._counts.setdefault(key, ClusterCounts(key, self._unreported[server]))

    def take(self, server: Hashable) -> tuple[ClusterLoad, ...]:
        """Return the load that `server` has not been sent yet."""
        unreported = self._unreported[server]
        # In place: the counts of this server's clusters have this very list.
        counts, unreported[:] = unreported[:], []
        return tuple(each.take() for each in counts)

    def restore(self, server: Hashable, loads: Sequence[ClusterLoad]) -> None:
        """Add loads that were taken to those that `server` has not been sent yet."""
        for load in loads:
            self.of(server, load.cluster, load.service).restore(load)
