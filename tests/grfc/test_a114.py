"""A114: weighted_round_robin may compute a host's utilization from metrics that the configuration names."""

from __future__ import annotations

import math

import pytest
import trio
from support.mesh import METHOD, Mesh, ask, spread
from xds.data.orca.v3.orca_load_report_pb2 import OrcaLoadReport

from trxds.core.json_reader import JsonNode
from trxds.lb.balancing_config import make_parser
from trxds.lb.weighted_round_robin.endpoint_weight import EndpointWeight
from trxds.resources import protos
from trxds.resources.context import ParseContext
from trxds.resources.experiments import CUSTOM_METRICS_VARIABLE, Experiments, read_experiments
from trxds.resources.leaf_policy import ClientSideWeightedRoundRobin
from trxds.resources.orca import load_report
from trxds.resources.types import CDS
from trxds.testing import resources as xds

ON = Experiments(custom_metrics=True)
WRR = "type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3"


def weight(metrics: list[str], **report) -> float:
    """Return the weight of a host with this report, at a hundred queries a second."""
    endpoint = EndpointWeight(ClientSideWeightedRoundRobin(blackout=0.0, metrics=tuple(metrics)))
    endpoint.record_report(load_report(OrcaLoadReport(rps_fractional=100, **report).SerializeToString()), 1.0)
    return endpoint.at(1.0)


def test_a_named_metric_is_the_utilization():
    assert weight(["named_metrics.queue"], named_metrics={"queue": 0.5}, cpu_utilization=0.1) == pytest.approx(200)


@pytest.mark.parametrize("name", ["application_utilization", "cpu_utilization", "mem_utilization"])
def test_a_field_of_the_report_may_be_named(name):
    assert weight([name], **{name: 0.25}) == pytest.approx(400)


def test_a_key_of_the_map_utilization_may_be_named():
    assert weight(["utilization.disk"], utilization={"disk": 0.25}) == pytest.approx(400)


def test_the_greatest_of_several_counts():
    named = {"queue": 0.2, "threads": 0.5}
    assert weight(["named_metrics.queue", "named_metrics.threads"], named_metrics=named) == pytest.approx(200)


def test_the_first_period_ends_the_maps_name():
    assert weight(["named_metrics.a.b"], named_metrics={"a.b": 0.5}) == pytest.approx(200)


@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
def test_a_number_that_is_no_utilization_counts_as_not_reported(number):
    report = {"named_metrics": {"queue": number, "threads": 0.5}}
    assert weight(["named_metrics.queue", "named_metrics.threads"], **report) == pytest.approx(200)


@pytest.mark.parametrize("name", ["named_metrics.missing", "named_metrics.", "utilization.disk", "mem_utilization"])
def test_without_any_of_the_metrics_the_rule_of_a58_holds(name):
    report = {"application_utilization": 0.5, "cpu_utilization": 0.1}
    assert weight([name], **report) == pytest.approx(200)
    assert weight([name], cpu_utilization=0.1) == pytest.approx(1000)


def test_errors_count_as_before():
    assert weight(["named_metrics.queue"], named_metrics={"queue": 0.5}, eps=50) == pytest.approx(100)


def cluster(*names: str):
    body = {"@type": f"{WRR}.ClientSideWeightedRoundRobin", "metric_names_for_computing_utilization": names}
    extension = {"typed_extension_config": {"name": "p", "typed_config": body}}
    return xds.cluster("cart") | {"load_balancing_policy": {"policies": [extension]}}


def test_a_cluster_names_the_metrics():
    context = ParseContext(experiments=ON)
    parsed = CDS.read(protos.from_json(cluster("named_metrics.queue")), context)
    assert parsed.value.lb_policy.metrics == ("named_metrics.queue",)


UNSUPPORTED = ["rps_fractional", "request_cost.x", "eps", "unknown", "", "named_metrics", "CPU_utilization"]


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_cluster_that_names_another_metric_is_refused(name):
    (error,) = CDS.read(protos.from_json(cluster("cpu_utilization", name)), ParseContext(experiments=ON)).errors
    assert error.endswith(f'.metric_names_for_computing_utilization[1] error:unsupported metric name "{name}"')


def test_the_variable_switches_them_off():
    assert read_experiments({}).custom_metrics
    assert not read_experiments({CUSTOM_METRICS_VARIABLE: "False"}).custom_metrics


def test_switched_off_they_are_ignored():
    assert CDS.read(protos.from_json(cluster("named_metrics.queue")), ParseContext()).value.lb_policy.metrics == ()


def read(settings, experiments=ON):
    problems = []
    document = {"loadBalancingConfig": [{"weighted_round_robin": settings}]}
    return make_parser({}, experiments)(JsonNode(document, problems)), [
        f"{each.path}: {each.text}" for each in problems
    ]


def test_a_service_config_names_the_metrics():
    settings = {"metricNamesForComputingUtilization": ["cpu_utilization", "named_metrics.queue"]}
    config, problems = read(settings)
    assert problems == []
    assert config.metrics == ("cpu_utilization", "named_metrics.queue")
    assert read(settings, Experiments())[0].metrics == ()


def test_a_service_config_with_another_type_is_refused():
    _, (problem,) = read({"metricNamesForComputingUtilization": [7]})
    assert "metricNamesForComputingUtilization[0]" in problem


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_service_config_that_names_another_metric_is_refused(name):
    _, (problem,) = read({"metricNamesForComputingUtilization": ["cpu_utilization", name]})
    assert problem.endswith(
        f"[1]: is {name!r}; write a field as cpu_utilization, or a map's key as named_metrics.queue"
    )


async def test_hosts_get_calls_by_a_metric_of_their_own(autojump_clock):
    def reporting(address, queue):
        report = OrcaLoadReport(rps_fractional=100, cpu_utilization=0.5, named_metrics={"queue": queue})

        async def reply(call):
            async for _ in call:
                await call.send(address.encode())
            call.set_trailing_metadata([("endpoint-load-metrics-bin", report.SerializeToString())])

        return reply

    async with Mesh.run(2) as mesh:
        mesh.plane.put(cluster("named_metrics.queue"))
        for address, queue in zip(mesh.hosts, (0.9, 0.3), strict=True):
            mesh.servers[address].handlers[METHOD] = reporting(address, queue)
        async with mesh.channel() as channel:
            await ask(channel)
            await trio.sleep(1)
            await spread(channel, 20)
            await trio.sleep(15)
            assert 24 <= (await spread(channel, 100))[mesh.hosts[0]] <= 26
