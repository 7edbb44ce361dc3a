"""What a channel's telemetry has recorded, by OpenTelemetry's own SDK and readers in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.mesh import Mesh, ask

from trxds.otel import telemetry

TARGET = "xds:///shop"


class Metered:
    """Providers with readers in memory, and telemetry that records into them."""

    def __init__(self, *enable, spans=False, **how):
        self.reader = InMemoryMetricReader()
        self.exporter = InMemorySpanExporter()
        # Nothing of the machine's, and nothing that is left for the end of the process.
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)
        if spans:
            how["tracer_provider"] = TracerProvider(shutdown_on_exit=False)
            how["tracer_provider"].add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = telemetry(meter_provider=self.provider, enable=enable, **how)

    def metrics(self):
        """By name."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name):
        metric = self.metrics().get(name)
        return list(metric.data.data_points) if metric is not None else []

    def read(self, name, *labels):
        """Value by labels, all of them or these, added up for each; of a histogram the count and the sum."""
        read = {}
        for point in self.points(name):
            its = dict(point.attributes)
            key = tuple(its[label] for label in labels) if labels else tuple(sorted(its.items()))
            if hasattr(point, "value"):
                read[key] = read.get(key, 0) + point.value
            else:
                count, total = read.get(key, (0, 0))
                read[key] = count + point.count, total + point.sum
        return read

    @property
    def spans(self):
        return list(self.exporter.get_finished_spans())


@asynccontextmanager
async def metered(*enable, hosts=1, sessions=False, connected=True, spans=False, optional_labels=(), how=None, **more):
    """A mesh, a channel of it with telemetry, and what that has recorded."""
    its = Metered(*enable, spans=spans, optional_labels=optional_labels, **(how or {}))
    async with Mesh.run(hosts, sessions=sessions) as mesh, mesh.channel(telemetry=its.telemetry, **more) as channel:
        if connected:
            await ask(channel)
            its.exporter.clear()
        yield mesh, channel, its
