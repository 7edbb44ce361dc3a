"""What a host says of its own load, in the ORCA format (A51)."""

from __future__ import annotations

from dataclasses import dataclass

from . import protos
from .extension import parse


@dataclass(frozen=True, slots=True)
class LoadReport:
    """`utilization` is the application's own measure if it has one, else the CPU's; 0 is nothing reported (A58)."""

    utilization: float = 0.0
    queries: float = 0.0  # per second
    errors: float = 0.0  # per second


def report_request(period: float) -> bytes:
    """What asks a host for a report every so many seconds."""
    message = protos.OrcaLoadReportRequest()
    message.report_interval.FromNanoseconds(round(period * 1e9))
    return bytes(message.SerializeToString())


def load_report(value: bytes) -> LoadReport | None:
    """The report of these bytes, None when they are none."""
    message = parse(protos.OrcaLoadReport, value)
    if message is None:
        return None
    return LoadReport(message.application_utilization or message.cpu_utilization, message.rps_fractional, message.eps)
