"""Metrics and spans for OpenTelemetry, by gRPC's own names (A66, A72, A78, A79, A89, A91, A94, A96).

    telemetry = trxds.otel.telemetry(meter_provider=provider)
    async with trxds.open_channel("xds:///greeter", telemetry=telemetry) as channel: ...

It needs `trxds[otel]`, which installs OpenTelemetry's API. The program chooses the SDK behind it.
"""

try:
    from .instruments import INSTRUMENTS, OPTIONAL_LABELS, Instrument
    from .telemetry import telemetry
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    raise ModuleNotFoundError("trxds.otel needs OpenTelemetry's API; install trxds[otel]", name=error.name) from error

__all__ = ["INSTRUMENTS", "OPTIONAL_LABELS", "Instrument", "telemetry"]
