"""The protocol by which `Http2Connection` calls its owner, a client's connection or a server's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from trxds.core.status import Status

from .events import Event


class Role(Protocol):
    """The owner of an `Http2Connection`: a client's connection or a server's."""

    def handle(self, events: Iterable[Event]) -> None:
        """Handle all events of one step."""

    def before_read(self) -> Callable[[], Awaitable[None]] | None:
        """Return the wait that has to come before the next read, if any."""

    def output_taken(self) -> None:
        """Go on sending, because the pending output is on its way and the buffer is empty."""

    def use_room(self) -> None:
        """Append output as far as the buffer allows, at most one step's worth."""

    def ended(self, status: Status) -> None:
        """End every stream, because the connection has ended."""
