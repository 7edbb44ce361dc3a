"""What a client's connection and a server's do in ways of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from trxds.core.status import Status

from .events import Event


class Role(Protocol):
    """Whoever holds an `Http2Connection`."""

    def handle(self, events: Iterable[Event]) -> None:
        """Handle all that one step has read."""

    def before_read(self) -> Callable[[], Awaitable[None]] | None:
        """What has to be done before the next read, if anything."""

    def output_taken(self) -> None:
        """What was pending is on its way, so there is room."""

    def use_room(self) -> None:
        """Append what there is room for, not more than a step's worth."""

    def ended(self, status: Status) -> None:
        """The connection is over, and no stream can go on."""
