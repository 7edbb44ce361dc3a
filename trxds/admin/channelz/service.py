"""The seven methods of Channelz. The lists of servers are always empty, because the program is a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from trxds.core.clock import Clock
from trxds.core.id_allocator import IdAllocator
from trxds.core.status import StatusCode
from trxds.server.handlers import unary
from trxds.server.server_call import Call, Handler
from trxds.transport.connection import Connection
from trxds.transport.subchannel import Subchannel
from trxds.xds.xds_channel import XdsChannel

from ..channel_source import Source
from . import protos
from .encoder import ChannelzEncoder

SERVICE = "/grpc.channelz.v1.Channelz"
PAGE = 100  # channels in an answer, unless fewer are asked for


class Channelz:
    """The methods of the service. `top` returns the channels that are open now."""

    def __init__(self, top: Callable[[], Iterable[Source | XdsChannel]]) -> None:
        self._top = top
        self._numbers = IdAllocator()

    async def get_top_channels(self, request: Any, call: Call) -> Any:
        _check_page(request, call)
        by_number = {self._numbers.id_of(channel): channel for channel in self._top()}
        rest = sorted(number for number in by_number if number >= request.start_channel_id)
        page = rest[: min(request.max_results or PAGE, PAGE)]
        channels = [await self._encoder.channel(by_number[number]) for number in page]
        return _reply("GetTopChannels", channel=channels, end=len(page) == len(rest))

    async def get_channel(self, request: Any, call: Call) -> Any:
        channel = self._numbers.find(request.channel_id)
        if not isinstance(channel, Source | XdsChannel):
            _unknown("channel", request.channel_id, call)
        return _reply("GetChannel", channel=await self._encoder.channel(channel))

    async def get_subchannel(self, request: Any, call: Call) -> Any:
        subchannel = self._numbers.find(request.subchannel_id)
        if not isinstance(subchannel, Subchannel):
            _unknown("subchannel", request.subchannel_id, call)
        return _reply("GetSubchannel", subchannel=self._encoder.subchannel(subchannel))

    async def get_socket(self, request: Any, call: Call) -> Any:
        connection = self._numbers.find(request.socket_id)
        if not isinstance(connection, Connection) or connection.closed_status is not None:
            _unknown("socket", request.socket_id, call)
        return _reply("GetSocket", socket=self._encoder.socket(connection))

    async def get_servers(self, request: Any, call: Call) -> Any:
        _check_page(request, call)
        return _reply("GetServers", end=True)

    async def get_server(self, request: Any, call: Call) -> Any:
        call.abort(StatusCode.NOT_FOUND, f"no server {request.server_id}: channelz lists only clients here")

    @property
    def _encoder(self) -> ChannelzEncoder:
        return ChannelzEncoder(self._numbers, Clock.now())


def handlers(top: Callable[[], Iterable[Source | XdsChannel]]) -> Mapping[str, Handler]:
    """Return the handlers by path. The ids in responses stay the same for as long as the service runs."""
    channelz = Channelz(top)
    return {
        f"{SERVICE}/{method}": unary(
            answer, protos.message(f"{method}Request").FromString, protos.message(f"{method}Response").SerializeToString
        )
        for method, answer in {
            "GetTopChannels": channelz.get_top_channels,
            "GetServers": channelz.get_servers,
            "GetServer": channelz.get_server,
            "GetServerSockets": channelz.get_server,
            "GetChannel": channelz.get_channel,
            "GetSubchannel": channelz.get_subchannel,
            "GetSocket": channelz.get_socket,
        }.items()
    }


def _reply(method: str, **fields: Any) -> Any:
    return protos.message(f"{method}Response")(**fields)


def _unknown(kind: str, number: int, call: Call) -> NoReturn:
    call.abort(StatusCode.NOT_FOUND, f"no {kind} {number}, or no more; begin anew with the top channels")


def _check_page(request: Any, call: Call) -> None:
    if request.max_results < 0:
        call.abort(StatusCode.INVALID_ARGUMENT, f"max_results is {request.max_results}; 0 leaves it to us")
