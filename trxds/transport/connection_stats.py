"""What goes and went over the connections to one peer, for who asks (A14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trxds.core.calls import Calls

if TYPE_CHECKING:
    from .connection import Connection


class ConnectionStats:
    """The connections to one peer: those that stand, also while they drain, and what all that ever stood carried."""

    __slots__ = ("_past", "connections")

    def __init__(self) -> None:
        self.connections: tuple[Connection, ...] = ()
        self._past = Calls()

    def begin(self, connection: Connection) -> None:
        self.connections += (connection,)

    def end(self, connection: Connection) -> None:
        """The connection is over."""
        self.connections = tuple(each for each in self.connections if each is not connection)
        self._past += connection.calls

    @property
    def used(self) -> bool:
        """There is or was a connection."""
        return bool(self.connections) or self._past.started > 0

    @property
    def calls(self) -> Calls:
        return sum((each.calls for each in self.connections), self._past)
