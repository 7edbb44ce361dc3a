"""A `LoadReportingService` is the LRS of a control plane for tests: it requests load reports and records them.

plane.load.ask("cart", interval=10)
report = await plane.load.next_report()
"""

from __future__ import annotations

import math
from typing import Any

import trio
from msgspec import Struct

from trxds.core.conflating_queue import ConflatingQueue
from trxds.resources import protos
from trxds.server.server_call import Call

PATH = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"


class LoadRequest(Struct, frozen=True):
    """A `LoadRequest` is one LoadStatsRequest as received."""

    stats: list[Any]  # its ClusterStats messages; a cluster has one for each of its EDS services
    node: Any  # the Node message, or None; None too if an earlier request of the stream had it
    stream: int  # which stream, counted from 1
    at: float  # seconds on Trio's clock

    @property
    def clusters(self) -> dict[str, Any]:
        """The ClusterStats messages by cluster, of several services the last one's."""
        return {each.cluster_name: each for each in self.stats}


class LoadReportingService:
    """The service asks every client for the load reports of all clusters, or of some; `requests` is the record."""

    def __init__(self) -> None:
        self.requests: list[LoadRequest] = []
        self._order = protos.LoadStatsResponse(send_all_clusters=True)
        self._order.load_reporting_interval.seconds = 1
        self._streams: dict[int, tuple[ConflatingQueue[None], trio.CancelScope]] = {}
        self._opened = 0
        self._activity = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<LoadReportingService {len(self._streams)} streams, {len(self.requests)} requests>"

    def ask(self, *clusters: str, interval: float) -> None:
        """Request the load of these clusters (all if none is named) every `interval` seconds."""
        self._order = protos.LoadStatsResponse(clusters=clusters, send_all_clusters=not clusters)
        self._order.load_reporting_interval.FromNanoseconds(round(interval * 1e9))
        for news, _ in self._streams.values():
            news.put("order", None)

    @property
    def streams(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def drop_streams(self) -> None:
        """End every stream with OK."""
        for _, scope in self._streams.values():
            scope.cancel()

    async def next_report(self) -> LoadRequest:
        """Wait for the next request that is not a stream's first, and return it. Always a checkpoint."""
        looked = len(self.requests)
        while True:
            for request in self.requests[looked:]:
                if request.node is None:
                    return request
            looked = len(self.requests)
            await self._activity.park()

    async def handle(self, call: Call) -> None:
        """Serve one stream of the method StreamLoadStats."""
        self._opened += 1
        number, news, scope = self._opened, ConflatingQueue[None](), trio.CancelScope()
        self._streams[number] = news, scope
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    is_known = False
                    async for message in call:
                        # The first request of a stream, the one with the node, asks for the first response. grpc-java
                        # sends the node with each report too.
                        request = _to_record(protos.LoadStatsRequest.FromString(message), number, is_known)
                        self.requests.append(request)
                        self._activity.unpark_all()
                        if request.node is not None:
                            is_known = True
                            nursery.start_soon(self._send, call, news)
                    nursery.cancel_scope.cancel()
        finally:
            del self._streams[number]

    async def _send(self, call: Call, news: ConflatingQueue[None]) -> None:
        while True:
            await call.send(self._order.SerializeToString())
            await news.next(math.inf)


def _to_record(message: Any, stream: int, is_known: bool) -> LoadRequest:
    return LoadRequest(
        list(message.cluster_stats),
        message.node if message.HasField("node") and not is_known else None,
        stream,
        trio.current_time(),
    )
