"""Load reports to one xDS server, for as long as any of its clusters asks for them (LRS; A27).

The client identifies itself; the server names the clusters that it wants reports of, and the interval. From then on
each report has the counts since the last one. While there is no stream, counting goes on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

import trio

from trxds.core.backoff import Backoff
from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources.extension import parse
from trxds.resources.load_stats import ClusterLoad, LrsResponse, make_load_stats_request, parse_lrs_response
from trxds.resources.protos import LoadStatsRequest, LoadStatsResponse
from trxds.transport.client_stream import ClientStream

from .bootstrap import Node, ServerConfig
from .control_plane_stream import ControlPlaneStream
from .discovery_request import set_node
from .xds_channel import XdsChannel

log = logging.getLogger("trxds.xds")

PATH = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"
REMEDY = "take lrs_server out of its clusters, or have it take load reports"
# Without this feature a server may not set LoadStatsResponse.send_all_clusters, and has to name the clusters.
SEND_ALL = "envoy.lrs.supports_send_all_clusters"


class LoadStoreInterface(Protocol):
    """The counts that are reported, of all channels of an xDS client."""

    def take(self, server: ServerConfig) -> tuple[ClusterLoad, ...]:
        """Return the loads since the last report to that server; they count as reported from then on."""

    def restore(self, server: ServerConfig, loads: Sequence[ClusterLoad]) -> None:
        """Add loads that were taken to those of the next report, because the server has not got them."""


class LrsStream:
    """Keep an LRS stream open on an xDS channel that ADS may share, for as long as `run` runs."""

    kind = "lrs"

    def __init__(self, xds_channel: XdsChannel, node: Node, loads: LoadStoreInterface, random: Random) -> None:
        self.server = xds_channel.server
        self._node = node
        self._loads = loads
        self.xds_channel = xds_channel
        self._control_plane_stream = ControlPlaneStream("LRS", PATH, REMEDY, xds_channel)
        self._backoff = Backoff(random)
        self._reported_at = -math.inf
        self._received_response = False  # whether the present stream got a response
        self._logged_outage = ""  # the outage that was logged
        self._scope = trio.CancelScope()

    def close(self) -> None:
        """End the stream for good, so that `run` returns: no cluster asks for reports any more."""
        self._scope.cancel(reason="no cluster asks for load reports any more")

    async def run(self) -> None:
        self._reported_at = trio.current_time()
        with self._scope:
            while True:
                self._received_response = False
                reason = await self._control_plane_stream.run(self._run_stream)
                delay = self._backoff.next()
                # The same outage is logged once, and the end of a stream that got a response is no outage.
                level = logging.INFO if self._received_response or reason == self._logged_outage else logging.WARNING
                log.log(level, "no load reports to %s: %s; trying again in %.1f s", self.server.uri, reason, delay)
                self._logged_outage = "" if self._received_response else reason
                await trio.sleep(delay)

    async def _run_stream(self, stream: ClientStream) -> None:
        await stream.send(self._first_request())
        # A queue for each stream: the server's request on the last one does not hold for the next.
        responses: ConflatingQueue[LrsResponse] = ConflatingQueue()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report, stream, responses, name=f"lrs/{self.server.uri}/report")
            await self._read(stream, responses)
            nursery.cancel_scope.cancel(reason="the LRS stream ended")

    def _first_request(self) -> bytes:
        request = LoadStatsRequest()
        set_node(request, self._node)
        # Only the LRS request has this feature; ADS servers have no use for it.
        request.node.client_features.append(SEND_ALL)
        return _serialize(request)

    async def _read(self, stream: ClientStream, responses: ConflatingQueue[LrsResponse]) -> None:
        while (data := await stream.receive()) is not None:
            message = parse(LoadStatsResponse, data)
            if message is None:
                log.warning("xDS server %s: bytes that are no LoadStatsResponse; ignored", self.server.uri)
                continue
            # As for ADS (A57): a stream is a success once it got a response.
            self._backoff.reset()
            self._received_response = True
            responses.put("order", parse_lrs_response(message))

    async def _report(self, stream: ClientStream, responses: ConflatingQueue[LrsResponse]) -> None:
        """Send reports at the server's interval. A changed response restarts the interval, an equal one does not."""
        response: LrsResponse | None = None
        due = math.inf
        while True:
            messages = await responses.next(due)
            if messages.get("order", response) != response:
                response = messages["order"]
                due = trio.current_time() + response.interval
            elif response is not None and due <= trio.current_time():
                if not await self._send_report(stream, response):
                    return  # the reader gets the reason
                # The interval is from report to report: this one may have waited for the server's flow control.
                due = self._reported_at + response.interval

    async def _send_report(self, stream: ClientStream, response: LrsResponse) -> bool:
        """Send the next report, which is empty if there is no load: that is news too. Return whether it was sent.

        The counts of clusters that the server does not want are dropped. Otherwise it might get years of them at once
        later.
        """
        now, was_sent = trio.current_time(), False
        # All loads are taken, wanted or not, so that their counts begin anew.
        loads = [load for load in self._loads.take(self.server) if response.wants(load.cluster)]
        try:
            was_sent = await stream.send(_serialize(make_load_stats_request(loads, now - self._reported_at)))
        finally:
            if was_sent:
                self._reported_at = now
            else:
                # The stream ended while the report waited for the server's flow control. The next stream's report has
                # the counts, and its interval covers their time too.
                self._loads.restore(self.server, loads)
        return was_sent


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))
