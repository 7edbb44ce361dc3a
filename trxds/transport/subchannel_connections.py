"""The connections of one host: those that take calls, with one queue for all of them (A105), and what all have carried.

A call goes to the oldest connection that has a stream left. Only when the server's limit on streams is reached on every
one of them, and calls wait, another connection is made. The connections share the queue of their stream tables: the
first that has room takes the call that has waited longest.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from trxds.core.calls import Calls
from trxds.core.plural import plural
from trxds.core.status import unavailable

from .client_stream import ClientStream
from .connection import Connection


class WorkingConnections(Struct, eq=False):
    """The connections of one subchannel that take new streams.

    `connections` are in the order in which they became READY. `max` is the number that may be made for want of streams.
    Those in `aged` are replaced as soon as another one is READY.
    """

    connections: tuple[Connection, ...] = ()
    max: int = 1
    aged: tuple[Connection, ...] = ()

    @property
    def oldest(self) -> Connection | None:
        return self.connections[0] if self.connections else None

    @property
    def wants_another(self) -> bool:
        """Whether calls wait for a stream and one more connection is allowed, or one is too old."""
        if self.aged:
            return True
        # In this order, because the first is false for nearly every host.
        return (
            len(self.connections) < self.max
            and (oldest := self.oldest) is not None
            and bool(oldest.streams.waiting)
            and all(each.streams.is_full for each in self.connections)
        )

    def __len__(self) -> int:
        return len(self.connections)

    def __repr__(self) -> str:
        streams = sum([len(each.streams.open) for each in self.connections]) + self.num_waiting
        return f"{streams} streams" + (f" on {len(self)} connections" if len(self) > 1 else "")

    def describe(self) -> str:
        """Return how many connections there are of how many, and the calls that wait; empty for one that has room."""
        several = f"{len(self)} of at most {plural(self.max, 'connection')}" if max(self.max, len(self)) > 1 else ""
        waiting = f"{plural(self.num_waiting, 'call waits', 'calls wait')} for a stream" if self.num_waiting else ""
        return ", ".join(filter(None, (several, waiting)))

    @property
    def num_waiting(self) -> int:
        """The number of calls that wait for one of the streams that the host allows."""
        return len(oldest.streams.waiting) if (oldest := self.oldest) is not None else 0

    def add(self, connection: Connection) -> tuple[Connection, ...]:
        """Add a connection that has become READY, and takes calls that wait; return those that it replaces."""
        # Only now that another one is READY, so that no call has to wait for it.
        replaced, self.aged = self.aged, ()
        if (oldest := self.oldest) is not None:
            connection.streams.waiting = oldest.streams.waiting  # its own is empty
        self.connections += (connection,)
        self.serve_queue(connection)
        return replaced

    def remove(self, connection: Connection) -> None:
        """Remove a connection that takes no more streams, and leave the queue to the others.

        The last one keeps the queue: A105 has its calls refused, for transparent retries.
        """
        self.connections = tuple(each for each in self.connections if each is not connection)
        self.aged = tuple(each for each in self.aged if each is not connection)
        if (oldest := self.oldest) is not None:
            connection.streams.leave_queue(oldest)

    def take_all(self) -> tuple[Connection, ...]:
        """Remove all connections, because nobody wants the host any more; return them.

        Calls that wait for several go elsewhere: between draining connections nobody would divide the queue.
        """
        connections, self.connections, self.aged = self.connections, (), ()
        if len(connections) > 1:
            waiting = connections[0].streams.pop_waiting()
            for other in connections[1:]:
                other.streams.pop_waiting()  # the same queue
            status = unavailable(f"{connections[0].peer}: the host is no longer wanted")
            connections[0].http2.tasks.end_each(waiting, partial(ClientStream.fail, status=status, refused=True))
        return connections

    def serve_queue(self, has_read: Connection | None = None) -> None:
        """Open streams that wait, on the oldest connections that have room.

        A connection that `has_read`, or that reads at this moment, must not read again.
        """
        # One that has to read first may find a GOAWAY and be removed, which makes another tuple.
        for connection in self.connections:
            _take_waiting(connection, may_read=connection is not has_read)


def _take_waiting(connection: Connection, *, may_read: bool) -> None:
    """Open streams of the queue on a connection, as far as it has room."""
    streams, inline_reads = connection.streams, connection.inline_reads
    if streams.waiting and not streams.is_full:
        if inline_reads.is_delegated and may_read:
            inline_reads.catch_up()  # as for every new call
        inline_reads.reclaim()
        # If that read found a GOAWAY nothing waits here any more.
        streams.begin_waiting()
        connection.http2.writer.write_soon()


class ConnectionStats(Struct, eq=False):
    """The open connections to one peer, draining ones included, and counts over all that there ever were (A14)."""

    connections: tuple[Connection, ...] = ()
    _past: Calls = Calls()

    def begin(self, connection: Connection) -> None:
        self.connections += (connection,)

    def end(self, connection: Connection) -> None:
        """Remove a connection that has ended and keep its counts."""
        self.connections = tuple(each for each in self.connections if each is not connection)
        self._past += connection.streams.calls

    @property
    def used(self) -> bool:
        """Whether there is or was a connection."""
        return bool(self.connections) or self._past.started > 0

    @property
    def calls(self) -> Calls:
        return sum((each.streams.calls for each in self.connections), self._past)
