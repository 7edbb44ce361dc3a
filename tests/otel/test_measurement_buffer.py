"""Measurements of calls wait in a buffer, and every one is recorded: before a collection, in time, and at the end."""

import logging
import threading
from contextlib import AsyncExitStack

import pytest
import trio
from opentelemetry.context import attach, detach
from opentelemetry.metrics import NoOpMeter, NoOpMeterProvider
from opentelemetry.sdk.metrics import Counter as SdkCounter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context
from support.mesh import METHOD, Mesh, ask, bidi
from support.metering import Metered, metered
from support.method_config import configured, for_all
from trio.testing import wait_all_tasks_blocked

from trxds import StatusCode
from trxds.otel import telemetry
from trxds.otel.measurement_buffer import FLUSH_SIZE, MeasurementBuffer
from trxds.otel.meters import NO_CONTEXT, Series

STARTED = "grpc.client.attempt.started"
CALL = "grpc.client.call.duration"
PER_CALL = 2  # entries


class Recorded:
    """An instrument of OpenTelemetry's API, which is not the SDK's."""

    def __init__(self, name, recorded):
        self.name = name
        self.recorded = recorded

    def add(self, value, labels, context):
        self.recorded[self.name].append(value)

    record = add


class Meter(NoOpMeter):
    """Notes what is recorded, and never collects."""

    def __init__(self, recorded):
        super().__init__("test")
        self.recorded = recorded

    def create_counter(self, name, unit="", description=""):
        return Recorded(name, self.recorded)

    def create_histogram(self, name, unit="", description="", *, explicit_bucket_boundaries_advisory=None):
        return Recorded(name, self.recorded)


class Provider(NoOpMeterProvider):
    def __init__(self):
        self.recorded = {
            name: []
            for name in (
                STARTED,
                CALL,
                "grpc.client.attempt.duration",
                "grpc.client.attempt.sent_total_compressed_message_size",
                "grpc.client.attempt.rcvd_total_compressed_message_size",
            )
        }

    def get_meter(self, *args, **kwargs):
        return Meter(self.recorded)


def sizes(recorded):
    return {len(values) for name, values in recorded.items() if name != STARTED}


async def test_measurements_are_recorded_when_the_channel_closes(autojump_clock):
    provider = Provider()
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=telemetry(meter_provider=provider)) as channel:
        await ask(channel)
        await ask(channel)
        assert not any(provider.recorded.values())
    assert provider.recorded[STARTED] == [2]
    assert sizes(provider.recorded) == {2}


async def test_a_full_buffer_is_recorded_without_a_collection(autojump_clock):
    provider, calls = Provider(), FLUSH_SIZE // PER_CALL
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=telemetry(meter_provider=provider)) as channel:
        for _ in range(calls - 1):
            await ask(channel)
        await wait_all_tasks_blocked()
        assert sizes(provider.recorded) == {0}
        await ask(channel)
        assert sizes(provider.recorded) == {0}  # the caller goes on first
        await wait_all_tasks_blocked()
        assert sizes(provider.recorded) == {calls} and provider.recorded[STARTED] == [calls]
        for _ in range(calls):
            await ask(channel)
        await wait_all_tasks_blocked()
        assert sizes(provider.recorded) == {2 * calls}  # and another time


async def test_each_collection_has_all_calls_that_ended_before_it(autojump_clock):
    async with metered() as (_, channel, its):
        for number in range(2, 5):
            await ask(channel)
            assert [count for count, _ in its.read(CALL).values()] == [number]
            assert [*its.read(STARTED).values()] == [number]


async def test_a_collection_in_a_thread_has_all_calls_too(autojump_clock):
    async with metered() as (_, channel, its):
        await ask(channel)
        read = await trio.to_thread.run_sync(its.read, CALL)
        assert [count for count, _ in read.values()] == [2]


async def test_a_reader_of_deltas_gets_each_call_once(autojump_clock):
    delta = dict.fromkeys((SdkCounter, Histogram), AggregationTemporality.DELTA)
    reader = InMemoryMetricReader(preferred_temporality=delta)
    provider = MeterProvider([reader], shutdown_on_exit=False)

    def read():
        (resource,) = reader.get_metrics_data().resource_metrics
        points = {each.name: each.data.data_points[0] for each in resource.scope_metrics[0].metrics}
        return points[STARTED].value, points[CALL].count

    async with Mesh.run(1) as mesh, mesh.channel(telemetry=telemetry(meter_provider=provider)) as channel:
        found = []
        for number in (3, 1, 2):
            for _ in range(number):
                await ask(channel)
            found.append(read())
    assert found == [(3, 3), (1, 1), (2, 2)]


async def test_an_exemplar_has_the_span_in_which_the_call_began(autojump_clock):
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
    async with metered() as (_, channel, its):
        with tracer.start_as_current_span("order") as order:
            await ask(channel)
        with tracer.start_as_current_span("another"):
            metrics = its.metrics()
        for name in (CALL, "grpc.client.attempt.duration"):
            (point,) = metrics[name].data.data_points
            assert [each.span_id for each in point.exemplars] == [order.get_span_context().span_id]


async def test_a_call_outside_of_spans_has_no_exemplar_of_the_span_in_which_it_is_recorded(autojump_clock):
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
    async with metered() as (_, channel, its):
        await ask(channel)
        token = attach(set_span_in_context(tracer.start_span("collecting")))
        try:
            metrics = its.metrics()
        finally:
            detach(token)
        assert [point.exemplars for each in metrics.values() for point in each.data.data_points] == [[]] * 5


def exemplars(metrics):
    """The spans of exemplars by the name of the metric, of those that have some."""
    points = [(name, point) for name, metric in metrics.items() for point in metric.data.data_points]
    return {name: [each.span_id for each in point.exemplars] for name, point in points if point.exemplars}


async def test_exemplars_of_retries_have_the_span_in_which_the_call_began(monkeypatch, autojump_clock):
    policy = {"maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s", "backoffMultiplier": 1}
    policy["retryableStatusCodes"] = ["UNAVAILABLE"]
    tried = []

    async def fail_once(call):
        tried.append(call)
        if len(tried) == 1:
            call.abort(StatusCode.UNAVAILABLE, "told to")
        async for message in call:
            await call.send(message)

    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
    its = Metered("grpc.client.call.retries", "grpc.client.call.retry_delay", disable=["grpc.client.attempt"])
    async with Mesh.run(1) as mesh:
        mesh.servers[mesh.hosts[0]].handlers[METHOD] = fail_once
        how = {"telemetry": its.telemetry}
        async with (
            configured(monkeypatch, mesh, for_all(retryPolicy=policy), **how) as channel,
            AsyncExitStack() as stack,
        ):
            with tracer.start_as_current_span("order") as order:
                call = await stack.enter_async_context(bidi(channel).open())
            with tracer.start_as_current_span("another"):
                call.done_sending()
                assert await call.receive() is None
                await stack.aclose()
    began = [order.get_span_context().span_id]
    assert exemplars(its.metrics()) == {
        "grpc.client.call.retries": began,
        "grpc.client.call.retry_delay": began,
        CALL: began,
    }


async def test_exemplars_of_a_sessions_calls_have_the_span_in_which_the_call_began(autojump_clock):
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
    its = Metered("trxds.session", disable=["grpc.client"])
    async with Mesh.run(1) as mesh, mesh.channel(telemetry=its.telemetry) as channel:
        async with channel.session() as session, AsyncExitStack() as stack:
            with tracer.start_as_current_span("order") as order:
                call = await stack.enter_async_context(bidi(session).open())
            with tracer.start_as_current_span("another"):
                call.done_sending()
                await call.receive()
        began = [order.get_span_context().span_id]
        assert exemplars(its.metrics()) == {"trxds.session.created": began, "trxds.session.pick": began}


async def test_what_belongs_to_no_call_has_no_exemplars(autojump_clock):
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("shop")
    its = Metered("grpc.xds_client", "grpc.subchannel", disable=["grpc.client"])
    with tracer.start_as_current_span("program"):
        async with Mesh.run(1) as mesh, mesh.channel(telemetry=its.telemetry) as channel:
            await ask(channel)
            metrics = its.metrics()
    assert {"grpc.xds_client.resource_updates_valid", "grpc.subchannel.connection_attempts_succeeded"} <= set(metrics)
    assert exemplars(metrics) == {}


def test_a_measurement_that_cannot_be_recorded_is_logged_once_and_the_others_are_recorded(caplog):
    def fail(value, labels, context):
        raise ZeroDivisionError

    recorded = []
    good = Series(lambda value, labels, context: recorded.append(value), {})
    buffer = MeasurementBuffer()
    for number in range(3):
        buffer.put((Series(fail, {}), None, good), (0, 0, number), NO_CONTEXT)
    with caplog.at_level(logging.ERROR, "trxds"):
        buffer.flush()
    assert recorded == [0, 1, 2]
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_that_flush_at_the_same_time_record_each_measurement_once(threads):
    recorded = []
    histogram = Series(lambda value, labels, context: recorded.append(value), {})
    started = Series(lambda value, labels, context: counted.append(value), {})
    counted, buffer, total = [], MeasurementBuffer(), 20_000
    buffer._is_scheduled = True  # there is no run of Trio
    is_over = threading.Event()

    def flush():
        while not is_over.is_set():
            buffer.flush()

    flushing = [threading.Thread(target=flush) for _ in range(threads)]
    for each in flushing:
        each.start()
    for number in range(total):
        buffer.started.append(started)
        buffer.put((histogram,), (number,), NO_CONTEXT)
    is_over.set()
    for each in flushing:
        each.join()
    buffer.flush()
    assert sorted(recorded) == [*range(total)]
    assert sum(counted) == total
