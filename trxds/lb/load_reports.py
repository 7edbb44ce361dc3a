"""Load reports out of band: a stream to a host that is connected, on which it tells its load (A51)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import trio

from trxds.ground.backoff import Backoff
from trxds.ground.status import StatusCode
from trxds.resources.orca import LoadReport, load_report, report_request

from .ports import Host

_log = logging.getLogger("trxds.lb")

_PATH = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"


async def follow_load_reports(
    host: Host, period: float, take: Callable[[LoadReport, float], None], random: Random
) -> None:
    """Until cancelled, or until the host says that it has none; `period` is in seconds."""
    backoff = Backoff(random)

    def heard(message: bytes) -> None:
        backoff.reset()
        report = load_report(message)
        if report is not None:
            take(report, trio.current_time())

    while True:
        status = await host.listen(_PATH, report_request(period), heard)
        if status is not None and status.code is StatusCode.UNIMPLEMENTED:
            _log.warning("%s sends no load reports; serve OpenRcaService there, or it gets a mean share", host.address)
            return
        await trio.sleep(backoff.next())
