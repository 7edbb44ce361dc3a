"""Rows of connections to hosts and to the control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from trxds.core.id_allocator import IdAllocator
from trxds.transport.connection import Connection
from trxds.transport.pool import SubchannelPool
from trxds.transport.subchannel_connections import ConnectionStats

from .messages import ConnectionRow

Epoch = Callable[[float], float]  # from Trio's clock to seconds since 1970


def connections(
    channel: str, pool: SubchannelPool, lines: Iterable[tuple[str, ConnectionStats]], numbers: IdAllocator, epoch: Epoch
) -> Iterator[tuple[str, ConnectionRow]]:
    """Return the rows. `lines` are the channels to control planes."""
    every = [("data", connection) for connection in pool.connections]
    every += [(kind, connection) for kind, traffic in lines for connection in traffic.connections]
    for kind, connection in every:
        yield f"{channel}/{numbers.id_of(connection)}", _row(channel, kind, connection, epoch)


def _row(channel: str, kind: str, connection: Connection, epoch: Epoch) -> ConnectionRow:
    return {
        "channel": channel,
        "kind": kind,
        "address": connection.peer,
        "state": "READY" if connection.ready else "DRAINING" if connection.error is not None else "CONNECTING",
        "since": epoch(connection.since),
        "streams": len(connection.streams.open),
        "calls": connection.streams.calls.started,
    }


def begun(pool: SubchannelPool) -> Mapping[int, int]:
    """Return the number of calls that each host ever had, by its `id`."""
    counts = ((id(host), host.traffic.calls.started) for host in pool.hosts if host.traffic.used)
    return {host: started for host, started in counts if started}
