"""What a load report says, and what a server may ask for; which of a host's metrics go along (A64, A85)."""

from __future__ import annotations

import pytest
from google.protobuf import json_format

from trxds.resources import protos
from trxds.resources.endpoint import LocalityId
from trxds.resources.load_stats import (
    ClusterLoad,
    LocalityLoad,
    MetricLoad,
    make_load_stats_request,
    parse_lrs_response,
)
from trxds.resources.orca import chosen_metrics

REPORT = protos.OrcaLoadReport(
    cpu_utilization=0.5, mem_utilization=0.25, named_metrics={"queue": 3, "cache": 0}
).SerializeToString()


def test_a_report_has_counts_by_locality_drops_by_category_and_the_time_it_covers() -> None:
    metrics = {"cpu_utilization": MetricLoad(2, 0.75), "named_metrics.queue": MetricLoad(1, 3.0)}
    locality = LocalityLoad(LocalityId("r", "z", "s"), 9, 5, 3, 1, metrics)
    message = make_load_stats_request([ClusterLoad("cart", "cart-eds", (locality,), {"lb": 4}, 2)], 10.5)
    assert json_format.MessageToDict(message, preserving_proto_field_name=True) == {
        "cluster_stats": [
            {
                "cluster_name": "cart",
                "cluster_service_name": "cart-eds",
                "upstream_locality_stats": [
                    {
                        "locality": {"region": "r", "zone": "z", "sub_zone": "s"},
                        "total_issued_requests": "9",
                        "total_successful_requests": "5",
                        "total_error_requests": "3",
                        "total_requests_in_progress": "1",
                        "cpu_utilization": {"num_requests_finished_with_metric": "2", "total_metric_value": 0.75},
                        "load_metric_stats": [
                            {
                                "metric_name": "named_metrics.queue",
                                "num_requests_finished_with_metric": "1",
                                "total_metric_value": 3.0,
                            }
                        ],
                    }
                ],
                "total_dropped_requests": "6",
                "dropped_requests": [{"category": "lb", "dropped_count": "4"}],
                "load_report_interval": "10.500s",
            }
        ]
    }


@pytest.mark.parametrize(
    ("response", "wanted", "interval"),
    [
        ({"clusters": ["a"], "load_reporting_interval": "3s"}, {"a"}, 3.0),
        ({"send_all_clusters": True, "load_reporting_interval": "1.5s"}, {"a", "b"}, 1.5),
        ({"clusters": ["a"], "load_reporting_interval": "0.01s"}, {"a"}, 1.0),
        ({}, set(), 1.0),
    ],
)
def test_an_lrs_response_names_clusters_or_all_and_an_interval_of_a_second_at_least(
    response: dict[str, object], wanted: set[str], interval: float
) -> None:
    order = parse_lrs_response(json_format.ParseDict(response, protos.LoadStatsResponse()))
    assert {name for name in ("a", "b") if order.wants(name)} == wanted
    assert order.interval == interval


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (set(), {}),
        ({"cpu_utilization"}, {"cpu_utilization": 0.5}),
        ({"application_utilization"}, {}),  # 0 is nothing reported
        ({"named_metrics.queue"}, {"named_metrics.queue": 3.0}),
        ({"named_metrics.*"}, {"named_metrics.queue": 3.0, "named_metrics.cache": 0.0}),
        ({"rps_fractional", "*"}, {}),
    ],
)
def test_a_load_report_has_only_the_metrics_that_the_cluster_names(names: set[str], chosen: dict[str, float]) -> None:
    assert dict(chosen_metrics(REPORT, frozenset(names))) == chosen


def test_bytes_that_are_no_report_have_no_metrics() -> None:
    assert dict(chosen_metrics(b"\xff", frozenset({"named_metrics.*"}))) == {}
