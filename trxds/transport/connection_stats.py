"""channelz shows the connections of a subchannel, and what all of them together have carried (A14)."""

from __future__ import annotations

from msgspec import Struct

from trxds.core.calls import Calls

from .connection import Connection


class ConnectionStats(Struct, eq=False):
    """The open connections to one peer, draining ones included, and counts over all that there ever were."""

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
