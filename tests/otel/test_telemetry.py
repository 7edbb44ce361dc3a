"""What `trxds.otel.telemetry` takes, and that it does nothing of itself."""

import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from support.mesh import Mesh, ask
from support.metering import TARGET, Metered

import trxds
from trxds.otel import INSTRUMENTS, OPTIONAL_LABELS, telemetry
from trxds.otel.semconv import server


def meters():
    return MeterProvider(shutdown_on_exit=False)


def test_telemetry_without_a_provider_records_nothing():
    assert telemetry(enable=["grpc"], own_events=True) == ()


async def test_the_programs_global_providers_are_never_used(monkeypatch, autojump_clock):
    def used(*what):
        raise AssertionError("a global provider was asked for")

    monkeypatch.setattr(metrics, "get_meter_provider", used)
    monkeypatch.setattr(trace, "get_tracer_provider", used)
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=telemetry()) as channel:
        await ask(channel)
        assert not channel._state.observers.active


def test_an_unknown_instrument_is_a_value_error():
    with pytest.raises(ValueError, match=r"no instrument has the name 'grpc\.client\.calls' or begins so"):
        telemetry(meter_provider=meters(), enable=["grpc.client.calls"])


def test_an_unknown_label_is_a_value_error():
    with pytest.raises(ValueError, match=r"grpc\.lb\.zone: no optional label; there are grpc\.client\.call\.custom, "):
        telemetry(meter_provider=meters(), optional_labels=["grpc.lb.zone"])


async def test_a_disabled_instrument_is_not_recorded(autojump_clock):
    its = Metered(disable=["grpc.client.attempt"])
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=its.telemetry) as channel:
        await ask(channel)
    assert list(its.metrics()) == ["grpc.client.call.duration"]


async def test_meter_and_tracer_have_the_name_and_version_of_trxds(autojump_clock):
    its = Metered(spans=True)
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=its.telemetry) as channel:
        await ask(channel)
    (resource,) = its.reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    found = {(each.name, each.version) for each in (scope.scope, its.spans[0].instrumentation_scope)}
    assert found == {("trxds", trxds.__version__)}


def test_only_the_instruments_of_a66_are_on_by_default():
    assert {each.source.partition(",")[0] for each in INSTRUMENTS if each.is_enabled_by_default} == {"A66"}


def test_every_optional_label_is_one_of_an_instrument():
    assert {label for each in INSTRUMENTS for label in each.optional} == OPTIONAL_LABELS


FORK = """
import os
import trio
from opentelemetry.sdk.metrics import MeterProvider
from trxds.otel import telemetry

async def main():
    (metrics,) = telemetry(meter_provider=MeterProvider(shutdown_on_exit=False))
    channel = metrics.observe("shop", None)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    print(metrics, flush=True)
    if not child:
        os._exit(0)

trio.run(main)
"""


def test_a_forked_child_exports_nothing_of_its_parents_channels():
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["<Metrics of 0 channels>", "<Metrics of 1 channels>"]


def test_each_channel_may_have_its_own_telemetry():
    with_spans = telemetry(tracer_provider=TracerProvider(shutdown_on_exit=False))
    both = telemetry(meter_provider=meters(), tracer_provider=TracerProvider(shutdown_on_exit=False))
    assert (len(with_spans), len(both)) == (1, 2)


class TestTelemetriesWithOneProvider:
    GAUGE = "grpc.xds_client.connected"

    @asynccontextmanager
    async def two_channels(self, its, other):
        async with Mesh.run(1) as mesh:
            mesh.listen(name="other")
            async with (
                mesh.channel(telemetry=its.telemetry) as first,
                mesh.channel("xds:///other", telemetry=other) as second,
            ):
                await ask(first)
                await ask(second)
                yield

    async def test_a_collection_has_the_calls_of_all(self, autojump_clock):
        its = Metered()
        async with self.two_channels(its, telemetry(meter_provider=its.provider)):
            targets = its.read("grpc.client.call.duration", "grpc.target")
            assert {key: count for key, (count, _) in targets.items()} == {(TARGET,): 1, ("xds:///other",): 1}

    async def test_gauges_show_the_channels_of_all(self, autojump_clock):
        its = Metered(self.GAUGE)
        async with self.two_channels(its, telemetry(meter_provider=its.provider, enable=[self.GAUGE])):
            assert its.read(self.GAUGE, "grpc.target") == {(TARGET,): 1, ("xds:///other",): 1}

    async def test_a_gauge_shows_no_channel_whose_telemetry_has_it_disabled(self, autojump_clock):
        its = Metered()
        async with self.two_channels(its, telemetry(meter_provider=its.provider, enable=[self.GAUGE])):
            assert its.read(self.GAUGE, "grpc.target") == {("xds:///other",): 1}

    async def test_a_gauge_shows_no_channel_of_another_provider(self, autojump_clock):
        its, other = Metered(self.GAUGE), Metered(self.GAUGE)
        async with self.two_channels(its, other.telemetry):
            assert its.read(self.GAUGE, "grpc.target") == {(TARGET,): 1}
            assert other.read(self.GAUGE, "grpc.target") == {("xds:///other",): 1}


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ("xds:///shop", {"server.address": "shop"}),
        ("xds://authority/shop:80", {"server.address": "shop:80"}),
        ("dns:///cart.example:8080", {"server.address": "cart.example", "server.port": 8080}),
        ("unix:/run/cart.sock", {"server.address": "unix:/run/cart.sock"}),
        ("ipv4:10.0.0.1:80,10.0.0.2:80", {}),
    ],
)
def test_the_server_of_a_target_in_opentelemetrys_words(target, labels):
    assert server(target) == labels
