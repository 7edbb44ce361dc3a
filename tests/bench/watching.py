"""What watching costs: the same RPCs with nobody, with an observer that does nothing, and with telemetry by the SDK.

Metrics are read at the end only, and spans go to an exporter that drops them: what is measured is what a program pays
for each RPC, and not its exporter.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from trxds import AttemptObserver, CallObserver, CallStarted, Observer, Telemetry
from trxds.otel import telemetry
from trxds.otel.instruments import RECEIVED, SENT

ROWS = {
    "nobody": "nobody",
    "observer": "an idle observer",
    "metrics": "metrics",
    "no-sizes": "metrics without sizes",
    "spans": "spans",
    "unsampled": "spans, none sampled",
    "both": "metrics and spans",
}


class _Attempt(AttemptObserver):
    __slots__ = ()


class _Call(CallObserver):
    __slots__ = ()

    def attempt(self, previous: int, transparent: bool) -> AttemptObserver:
        return _Attempt()


class _Looking(Observer):
    """Watches everything, and notes nothing."""

    def call(self, call: CallStarted) -> CallObserver:
        return _Call()

    def observe(self, target: str, locate: object) -> Observer:
        return self


class _Dropped(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def watching(what: str) -> tuple[Telemetry, ...]:
    """For `open_channel(telemetry=...)`."""
    if what in {"", "nobody"}:
        return ()
    if what == "observer":
        return (_Looking(),)
    tracer = TracerProvider(sampler=ALWAYS_OFF if what == "unsampled" else ALWAYS_ON, shutdown_on_exit=False)
    tracer.add_span_processor(SimpleSpanProcessor(_Dropped()))
    meter = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    return telemetry(
        meter_provider=meter if what in {"metrics", "no-sizes", "both"} else None,
        tracer_provider=tracer if what in {"spans", "unsampled", "both"} else None,
        disable=[SENT.name, RECEIVED.name] if what == "no-sizes" else [],
    )
