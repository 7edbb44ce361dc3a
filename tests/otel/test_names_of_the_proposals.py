"""Names, kinds, units, labels and buckets as gRPC's proposals have them, against what the SDK reads of ours.

The table is written from the proposals and not from our instruments; optional labels are in parentheses.
"""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Gauge, Histogram, InMemoryMetricReader

from trxds.otel import OPTIONAL_LABELS
from trxds.otel.instruments import INSTRUMENTS, Kind
from trxds.otel.meters import Meters, enabled_instruments

PROPOSALS = """
A66 A108           | grpc.client.attempt.started | counter | {attempt} | grpc.method grpc.target (grpc.client.call.custom)
A66 A78 A89 A108   | grpc.client.attempt.duration | histogram: latency | s | grpc.method grpc.target grpc.status (grpc.lb.locality grpc.lb.backend_service grpc.client.call.custom)
A66 A78 A89 A108   | grpc.client.attempt.sent_total_compressed_message_size | histogram: size | By | grpc.method grpc.target grpc.status (grpc.lb.locality grpc.lb.backend_service grpc.client.call.custom)
A66 A78 A89 A108   | grpc.client.attempt.rcvd_total_compressed_message_size | histogram: size | By | grpc.method grpc.target grpc.status (grpc.lb.locality grpc.lb.backend_service grpc.client.call.custom)
A66 A108           | grpc.client.call.duration | histogram: latency | s | grpc.method grpc.target grpc.status (grpc.client.call.custom)
A96 A108           | grpc.client.call.retries | histogram: 1 2 3 4 5 | {retry} | grpc.method grpc.target (grpc.client.call.custom)
A96 A108           | grpc.client.call.transparent_retries | histogram: 1 2 3 4 5 10 | {transparent_retry} | grpc.method grpc.target (grpc.client.call.custom)
A96 A108           | grpc.client.call.hedges | histogram: 1 2 3 4 5 | {hedge} | grpc.method grpc.target (grpc.client.call.custom)
A96 A108           | grpc.client.call.retry_delay | histogram: latency | s | grpc.method grpc.target (grpc.client.call.custom)
A78                | grpc.xds_client.connected | gauge | {bool} | grpc.target grpc.xds.server
A78                | grpc.xds_client.server_failure | counter | {failure} | grpc.target grpc.xds.server
A78                | grpc.xds_client.resource_updates_valid | counter | {resource} | grpc.target grpc.xds.server grpc.xds.resource_type
A78                | grpc.xds_client.resource_updates_invalid | counter | {resource} | grpc.target grpc.xds.server grpc.xds.resource_type
A78                | grpc.xds_client.resources | gauge | {resource} | grpc.target grpc.xds.authority grpc.xds.cache_state grpc.xds.resource_type
A94                | grpc.subchannel.disconnections | counter | {disconnection} | grpc.target (grpc.lb.backend_service grpc.lb.locality grpc.disconnect_error)
A94                | grpc.subchannel.connection_attempts_succeeded | counter | {attempt} | grpc.target (grpc.lb.backend_service grpc.lb.locality)
A94                | grpc.subchannel.connection_attempts_failed | counter | {attempt} | grpc.target (grpc.lb.backend_service grpc.lb.locality)
A94                | grpc.subchannel.open_connections | up-down counter | {connection} | grpc.target (grpc.lb.backend_service grpc.lb.locality grpc.security_level)
A78 A89            | grpc.lb.wrr.rr_fallback | counter | {update} | grpc.target (grpc.lb.locality grpc.lb.backend_service)
A78 A89            | grpc.lb.wrr.endpoint_weight_not_yet_usable | counter | {endpoint} | grpc.target (grpc.lb.locality grpc.lb.backend_service)
A78 A89            | grpc.lb.wrr.endpoint_weight_stale | counter | {endpoint} | grpc.target (grpc.lb.locality grpc.lb.backend_service)
A78 A89            | grpc.lb.wrr.endpoint_weights | histogram: any | {weight} | grpc.target (grpc.lb.locality grpc.lb.backend_service)
A91                | grpc.lb.outlier_detection.ejections_enforced | counter | {ejection} | grpc.target grpc.lb.outlier_detection.detection_method (grpc.lb.backend_service)
A91                | grpc.lb.outlier_detection.ejections_unenforced | counter | {ejection} | grpc.target grpc.lb.outlier_detection.detection_method grpc.lb.outlier_detection.unenforced_reason (grpc.lb.backend_service)
"""  # noqa: E501 a row of the table is a line

LATENCY = """
0 0.00001 0.00005 0.0001 0.0003 0.0006 0.0008 0.001 0.002 0.003 0.004 0.005 0.006 0.008 0.01 0.013 0.016 0.02 0.025
0.03 0.04 0.05 0.065 0.08 0.1 0.13 0.16 0.2 0.25 0.3 0.4 0.5 0.65 0.8 1 2 5 10 20 50 100
"""
SIZE = "0 1024 2048 4096 16384 65536 262144 1048576 4194304 16777216 67108864 268435456 1073741824 4294967296"
BUCKETS = {"latency": LATENCY, "size": SIZE}


def proposed():
    for line in PROPOSALS.strip().splitlines():
        _, name, kind, unit, labels = map(str.strip, line.split("|"))
        required, _, optional = labels.rstrip(")").partition("(")
        yield name, (kind.partition(":")[0], unit, frozenset(required.split()), frozenset(optional.split()))


def buckets():
    for line in PROPOSALS.strip().splitlines():
        _, name, kind, *_ = map(str.strip, line.split("|"))
        bounds = kind.partition(": ")[2]
        if bounds and bounds != "any":
            yield name, tuple(map(float, BUCKETS.get(bounds, bounds).split()))


def read(optional):
    """What the SDK has of each of our gRPC instruments once a value was recorded into it, with every label there is."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    every = {label: "x" for each in INSTRUMENTS for label in (*each.labels, *each.optional)}
    reads = {
        each: lambda each=each: [(1, dict.fromkeys(each.labels, "x"))]
        for each in INSTRUMENTS
        if each.kind is Kind.GAUGE
    }
    meters = Meters(meter, enabled_instruments(["grpc"], ()), optional, reads)
    for each in INSTRUMENTS:
        if each.kind is not Kind.GAUGE:
            meters.record(each, 1, every)
    (resource,) = reader.get_metrics_data().resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


def kind(data):
    if isinstance(data, Histogram | Gauge):
        return type(data).__name__.lower()
    return "counter" if data.is_monotonic else "up-down counter"


def labels(metric):
    return frozenset(metric.data.data_points[0].attributes)


def test_every_instrument_is_as_its_proposal_has_it():
    bare, full = read(frozenset()), read(OPTIONAL_LABELS)
    found = {
        name: (kind(metric.data), metric.unit, labels(metric), labels(full[name]) - labels(metric))
        for name, metric in bare.items()
    }
    assert found == dict(proposed())


def test_buckets_are_those_of_the_proposals():
    metrics = read(frozenset())
    wished = dict(buckets())
    assert len(wished) == 8
    assert {name: metrics[name].data.data_points[0].explicit_bounds for name in wished} == wished
