"""Metrics and spans for OpenTelemetry, by gRPC's own names (A66, A72, A78, A79, A89, A91, A94, A96).

    telemetry = trxds.otel.telemetry(meter_provider=provider)
    async with trxds.open_channel("xds:///greeter", telemetry=telemetry) as channel: ...

Needs `trxds[otel]`, which is OpenTelemetry's API; which SDK is behind it is the program's affair.
"""

from .instruments import INSTRUMENTS, OPTIONAL_LABELS, Instrument
from .telemetry import telemetry

__all__ = ["INSTRUMENTS", "OPTIONAL_LABELS", "Instrument", "telemetry"]
