"""The services by which a test driver reads an xDS test client's statistics, and changes what the client sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pool

from trxds.admin.channel_source import Source
from trxds.admin.channelz.protos import POOL as CHANNELZ_POOL
from trxds.admin.grpc_services import grpc_handlers
from trxds.core.status import StatusCode
from trxds.server.handlers import handlers_of
from trxds.server.reflection_service import with_reflection
from trxds.server.server_call import Call, Handler

from .protos import CONFIGURE_SERVICE, POOL, STATS_SERVICE, ClientConfigureResponse
from .rpc_config import read_request
from .rpc_sender import RpcSender
from .rpc_stats import RpcStats


def driver_handlers(
    stats: RpcStats, sender: RpcSender, default_timeout: float, channels: Sequence[Source]
) -> Mapping[str, Handler]:
    """Return the handlers by path: the two services, CSDS, channelz and health of these channels, and reflection.

    `default_timeout` is that of RPCs for which a driver gives none, in seconds.
    """
    handlers = {
        **handlers_of(STATS_SERVICE, LoadBalancerStatsService(stats)),
        **handlers_of(CONFIGURE_SERVICE, XdsUpdateClientConfigureService(sender, default_timeout)),
        **grpc_handlers(channels),
    }
    # The default pool has CSDS, which is among the generated modules that trxds imports.
    return with_reflection(handlers, [POOL, CHANNELZ_POOL, descriptor_pool.Default()])


class LoadBalancerStatsService:
    """The statistics of the client."""

    def __init__(self, stats: RpcStats) -> None:
        self._stats = stats

    async def GetClientStats(self, request: Any, call: Call) -> Any:
        if request.num_rpcs < 0:
            call.abort(StatusCode.INVALID_ARGUMENT, f"num_rpcs is {request.num_rpcs}; it must be 0 or more")
        return await self._stats.watch(request.num_rpcs, request.timeout_sec, request.metadata_keys)

    async def GetClientAccumulatedStats(self, request: Any, call: Call) -> Any:
        return self._stats.accumulated()


class XdsUpdateClientConfigureService:
    """The configuration of the client. It holds from the next RPC on."""

    def __init__(self, sender: RpcSender, default_timeout: float) -> None:
        self._sender = sender
        self._default_timeout = default_timeout

    async def Configure(self, request: Any, call: Call) -> Any:
        try:
            self._sender.configs = read_request(request, self._default_timeout)
        except ValueError as error:
            call.abort(StatusCode.INVALID_ARGUMENT, str(error))
        return ClientConfigureResponse()
