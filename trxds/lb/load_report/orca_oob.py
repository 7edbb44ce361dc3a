"""Out-of-band load reports come on a stream of their own to each connected host (ORCA; A51)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import trio

from trxds.core.backoff import RestartBackoff
from trxds.core.status import StatusCode
from trxds.resources.orca import LoadReport, load_report, report_request

from ..interfaces import SubchannelInterface

_log = logging.getLogger("trxds.lb")

_PATH = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"


async def watch_load_reports(
    host: SubchannelInterface, period: float, on_report: Callable[[LoadReport, float], None], random: Random
) -> None:
    """Read a host's load reports until cancelled, or until it says UNIMPLEMENTED; `period` is in seconds (A51).

    An exception of `on_report` is logged; the stream goes on.
    """
    backoff = RestartBackoff(random)

    def on_message(message: bytes) -> None:
        backoff.was_answered = True
        report = load_report(message)
        if report is None:
            return
        try:
            on_report(report, trio.current_time())
        except Exception:
            _log.exception("a load report of %s made its policy raise: %r", host.address, report)

    while True:
        try:
            status = await host.listen(_PATH, report_request(period), on_message)
        except Exception:
            status = None
            _log.exception("listening to the load reports of %s failed; it is tried again", host.address)
        if status is not None and status.code is StatusCode.UNIMPLEMENTED:
            _log.warning("%s sends no load reports; serve OpenRcaService there, or it gets a mean share", host.address)
            return  # A51: the server does not implement the service, and will not soon
        await trio.sleep(backoff.next())
