"""Random meshes whose load is reported (A27, A32, A64, A85), calls that make some, and the sums of the reports."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from trxds.resources import protos
from trxds.testing import resources as xds

from .random_scripts import REPLY, RESPONSE, attempt, route_retry_policy
from .scripted_server import Action

_METRICS = (
    *("cpu_utilization", "mem_utilization", "application_utilization", "named_metrics.*", "named_metrics.queue"),
    *("named_metrics.a.b", "utilization.disk", "rps_fractional", "named_metrics.", "no_such"),
)
CLUSTERS = ("a", "b")


def mesh(draw: Random, number: int, address: str) -> list[Any]:
    """The resources of a listener with two clusters: calls to /a/... go to one, and those to /b/... to the other."""
    entries = [xds.route(f"{each}-{number}", prefix=f"/{each}/") for each in CLUSTERS]
    for entry in entries:
        if draw.random() < 0.3:
            entry["route"]["retry_policy"] = route_retry_policy(draw)
    made = [xds.listener(f"case-{number}", routes=f"r-{number}"), xds.routes(f"r-{number}", *entries)]
    for each in CLUSTERS:
        made += _cluster(draw, f"{each}-{number}", address)
    return made


def _cluster(draw: Random, name: str, address: str) -> list[Any]:
    cluster = xds.cluster(name) | xds.load_reports(*draw.sample(_METRICS, draw.randint(0, 4)))
    service = name
    if draw.random() < 0.3:
        service = cluster["eds_cluster_config"]["service_name"] = f"service-{name}"
    if draw.random() < 0.5:
        thresholds = [{"max_requests": draw.choice([0, 1, 2, 3, 5])}, {"priority": "HIGH", "max_requests": 1}]
        cluster["circuit_breakers"] = {"thresholds": draw.sample(thresholds, 2)}
    endpoints = xds.endpoints(service, xds.locality(address, zone=draw.choice(["", "here", "there"])))
    if draw.random() < 0.4:
        drops = [_drop(draw, category) for category in draw.sample(["throttle", "lb", "x"], draw.randint(1, 3))]
        endpoints["policy"] = {"drop_overloads": drops}
    return [cluster, endpoints]


def _drop(draw: Random, category: str) -> dict[str, Any]:
    denominator, whole = draw.choice([("HUNDRED", 100), ("TEN_THOUSAND", 10_000), ("MILLION", 1_000_000)])
    share = {"numerator": draw.choice([0, 0, whole, 2 * whole]), "denominator": denominator}
    return {"category": category, "drop_percentage": share}


def calls(draw: Random, number: int, count: int) -> tuple[list[dict[str, Any]], dict[str, list[list[Action]]]]:
    """Calls to both clusters, and their scripts; some are made together, so that `max_requests` is reached."""
    made, scripts = [], {}
    for each in range(count):
        name, at_once = f"{number}-{each}", draw.choice([1, 1, 1, 2, 4, 6])
        one = {"path": f"/{draw.choice(CLUSTERS)}/Call", "metadata": [("x-script", name)], "timeout": 60}
        made.append(one | {"wait_for_ready": True, "at_once": at_once})
        if at_once > 1:
            head: Action = ("headers", RESPONSE)
            scripts[name] = [[("request",), ("sleep", 1.5), head, ("data", REPLY), ("end", [_OK, *_load(draw)])]]
        else:
            scripts[name] = [_with_load(draw, attempt(draw, one_reply=True, is_throttled=True)) for _ in range(6)]
    return made, scripts


_OK = (b"grpc-status", b"0")


def _with_load(draw: Random, actions: list[Action]) -> list[Action]:
    return [(kind, [*what[0], *_load(draw)]) if kind == "end" else (kind, *what) for kind, *what in actions]


def _load(draw: Random) -> list[tuple[bytes, bytes]]:
    if draw.random() < 0.4:
        return []
    report = protos.OrcaLoadReport(
        cpu_utilization=draw.choice([0, 0.5, 1.5]),
        mem_utilization=draw.choice([0, 0.25]),
        application_utilization=draw.choice([0, 0.75]),
        rps_fractional=draw.choice([0, 10]),
        named_metrics={"queue": draw.choice([1, 0, -1])} if draw.random() < 0.5 else {"a.b": 2, "": 3},
        utilization={"disk": 0.5},
    )
    return [(b"endpoint-load-metrics-bin", base64.b64encode(report.SerializeToString()))]


def summed(reports: Iterable[Any], *, by_zone: bool = True) -> dict[str, dict[Any, Any]]:
    """What all the reports say together of each cluster, of each of its zones or of all of them together."""
    sums: dict[str, Counter[Any]] = {}
    for report in reports:
        for stats in report.stats:
            into = sums.setdefault(f"{stats.cluster_name} {stats.cluster_service_name}", Counter())
            into["dropped"] += stats.total_dropped_requests
            for dropped in stats.dropped_requests:
                into["dropped", dropped.category] += dropped.dropped_count
            for each in stats.upstream_locality_stats:
                zone = each.locality.zone if by_zone else ""
                into[zone, "issued"] += each.total_issued_requests
                into[zone, "successful"] += each.total_successful_requests
                into[zone, "failed"] += each.total_error_requests
                for metric in each.load_metric_stats:
                    into[zone, metric.metric_name, "sum"] += metric.total_metric_value
                    if metric.metric_name.startswith("named_metrics."):
                        into[zone, metric.metric_name] += metric.num_requests_finished_with_metric
                # grpc-java has these among the others, and in grpcio their count has those of 0 too.
                for name in ("cpu_utilization", "mem_utilization", "application_utilization"):
                    into[zone, name, "sum"] += getattr(each, name).total_metric_value
    return {name: {key: value for key, value in sums[name].items() if value} for name in sorted(sums)}
