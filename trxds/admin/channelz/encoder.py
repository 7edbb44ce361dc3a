"""Channels, subchannels and sockets as Channelz messages, with the references between them."""

from __future__ import annotations

import math
from typing import Any

import trio
from msgspec import Struct

from trxds.core.calls import Calls
from trxds.core.clock import Clock
from trxds.core.connectivity import Connectivity
from trxds.core.id_allocator import IdAllocator
from trxds.transport.connection import Connection
from trxds.transport.subchannel import Subchannel
from trxds.transport.subchannel_connections import ConnectionStats
from trxds.xds.xds_channel import XdsChannel

from ..channel_source import Source
from . import protos
from .sockets import fill_socket

_STATES = {
    Connectivity.IDLE: 1,
    Connectivity.CONNECTING: 2,
    Connectivity.READY: 3,
    Connectivity.TRANSIENT_FAILURE: 4,
    None: 5,  # SHUTDOWN
}
_INFO, _WARNING = 1, 2
_AT_ONCE = 1000  # references between two checkpoints


class ChannelzEncoder(Struct, frozen=True):
    """Makes the messages of one response, all at the same moment."""

    numbers: IdAllocator
    clock: Clock

    async def channel(self, channel: Source | XdsChannel) -> Any:
        message = protos.message("Channel")()
        if isinstance(channel, Source):
            await self._fill_channel(message, channel)
        else:
            self._fill_control_plane(message, channel)
        return message

    async def _fill_channel(self, message: Any, channel: Source) -> None:
        view = channel.admin_view()
        message.ref.channel_id, message.ref.name = self.numbers.id_of(channel), view.target
        self._fill(message.data, view.target, view.connectivity, view.calls, view.created_at)
        # As in grpc-go and grpc-java: a host that was let go is listed until its last stream has ended.
        for number, subchannel in enumerate((*view.pool.hosts, *view.pool.draining), 1):
            self._add_references(message.subchannel_ref.add(), subchannel)
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    def _fill_control_plane(self, message: Any, line: XdsChannel) -> None:
        message.ref.channel_id, message.ref.name = self.numbers.id_of(line), f"{line.kind}/{line.uri}"
        self._fill(message.data, line.uri, line.state, line.traffic.calls, line.created_at)
        self._fill_trace(message.data, line.state, line.error, line.changed_at)
        self._fill_sockets(message, line.traffic)

    def subchannel(self, subchannel: Subchannel) -> Any:
        message = protos.message("Subchannel")()
        self._add_references(message.ref, subchannel)
        state = None if subchannel.is_retired else subchannel.state
        self._fill(message.data, subchannel.address, state, subchannel.traffic.calls, subchannel.created_at)
        message.data.max_connections_per_subchannel = subchannel.working.max
        error = subchannel.error.message if subchannel.error is not None else ""
        self._fill_trace(message.data, state, error, subchannel.changed_at)
        self._fill_sockets(message, subchannel.traffic)
        return message

    def socket(self, connection: Connection) -> Any:
        message = protos.message("Socket")()
        message.ref.socket_id, message.ref.name = self.numbers.id_of(connection), connection.peer
        fill_socket(message, connection, self.clock)
        return message

    def _add_references(self, ref: Any, subchannel: Subchannel) -> None:
        ref.subchannel_id, ref.name = self.numbers.id_of(subchannel), subchannel.address

    def _fill_sockets(self, message: Any, traffic: ConnectionStats) -> None:
        for connection in traffic.connections:
            message.socket_ref.add(socket_id=self.numbers.id_of(connection), name=connection.peer)

    def _fill(self, data: Any, target: str, state: Connectivity | None, calls: Calls, created_at: float) -> None:
        data.state.state = _STATES[state]
        data.target = target
        data.calls_started, data.calls_succeeded, data.calls_failed = calls.started, calls.succeeded, calls.failed
        self.clock.stamp(data.last_call_started_timestamp, calls.last_started)
        self.clock.stamp(data.trace.creation_timestamp, created_at)

    def _fill_trace(self, data: Any, state: Connectivity | None, error: str, changed_at: float) -> None:
        """Add the last change of state as the trace's only event: no others are kept."""
        if changed_at == -math.inf:
            return
        name = state.value if state is not None else "SHUTDOWN"
        failed = state is Connectivity.TRANSIENT_FAILURE
        data.trace.num_events_logged = 1
        event = data.trace.events.add(severity=_WARNING if failed else _INFO)
        event.description = f"{name}: {error}" if error and state is not Connectivity.READY else name
        self.clock.stamp(event.timestamp, changed_at)
