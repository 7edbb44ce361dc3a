"""Load reports to the control plane (LRS; A27, A64, A85): values, and the message that they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from . import protos
from .endpoint import LocalityId

# The hosts' metrics for which the message has a field; the others go into load_metric_stats.
_FIELDS = frozenset({"cpu_utilization", "mem_utilization", "application_utilization"})


class MetricLoad(Struct, frozen=True):
    """A metric that hosts report: how many RPCs came back with it, and the sum of its values."""

    rpcs: int
    total: float


class LocalityLoad(Struct, frozen=True):
    """The RPCs to one locality since the last report, and those in progress now."""

    locality: LocalityId
    issued: int = 0
    succeeded: int = 0
    failed: int = 0
    in_progress: int = 0
    metrics: Mapping[str, MetricLoad] = field(default_factory=dict)


class ClusterLoad(Struct, frozen=True):
    """The load of a cluster since the last report; `drops` are by category. `service` is its service_name, or empty.

    `uncategorised` are drops without a category of the control plane: those of circuit breaking.
    """

    cluster: str
    service: str
    localities: tuple[LocalityLoad, ...] = ()
    drops: Mapping[str, int] = field(default_factory=dict)
    uncategorised: int = 0


def make_load_stats_request(loads: Iterable[ClusterLoad], interval: float) -> Any:
    """Return the LoadStatsRequest that reports these, `interval` seconds after the last report."""
    return protos.LoadStatsRequest(cluster_stats=[_cluster(load, interval) for load in loads])


def _cluster(load: ClusterLoad, interval: float) -> Any:
    message = protos.ClusterStats(
        cluster_name=load.cluster,
        cluster_service_name=load.service,
        upstream_locality_stats=[_locality(each) for each in load.localities],
        total_dropped_requests=sum(load.drops.values()) + load.uncategorised,
        dropped_requests=[
            protos.ClusterStats.DroppedRequests(category=category, dropped_count=count)
            for category, count in load.drops.items()
        ],
    )
    message.load_report_interval.FromNanoseconds(round(interval * 1e9))
    return message


def _locality(load: LocalityLoad) -> Any:
    locality = load.locality
    message = protos.UpstreamLocalityStats(
        locality=protos.Locality(region=locality.region, zone=locality.zone, sub_zone=locality.sub_zone),
        total_issued_requests=load.issued,
        total_successful_requests=load.succeeded,
        total_error_requests=load.failed,
        total_requests_in_progress=load.in_progress,
    )
    for name, metric in load.metrics.items():
        entry = getattr(message, name) if name in _FIELDS else message.load_metric_stats.add(metric_name=name)
        entry.num_requests_finished_with_metric = metric.rpcs
        entry.total_metric_value = metric.total
    return message


class LrsResponse(Struct, frozen=True):
    """A load reporting server's request for reports of these clusters (None: all), every `interval` seconds."""

    clusters: frozenset[str] | None
    interval: float

    def wants(self, cluster: str) -> bool:
        return self.clusters is None or cluster in self.clusters


MIN_INTERVAL = 1.0  # seconds between reports, even if the server asks for more


def parse_lrs_response(message: Any) -> LrsResponse:
    """Return the content of a LoadStatsResponse."""
    clusters = None if message.send_all_clusters else frozenset(message.clusters)
    return LrsResponse(clusters, max(message.load_reporting_interval.ToNanoseconds() / 1e9, MIN_INTERVAL))
