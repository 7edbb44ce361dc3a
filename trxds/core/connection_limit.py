"""The number of connections that a cluster, or a channel, allows to each of its hosts (A105).

It changes while hosts are in use, so it is an object beside their identity: a change makes no new subchannel.
"""

from __future__ import annotations

from collections.abc import Callable


class ConnectionLimit:
    """A limit whose `value` can change; the pool of the hosts is told of each change."""

    __slots__ = ("_on_change", "value")

    def __init__(self, value: int = 1) -> None:
        self.value = value
        self._on_change: Callable[[ConnectionLimit], None] | None = None

    def bind(self, on_change: Callable[[ConnectionLimit], None]) -> None:
        """Call `on_change` after each change from now on."""
        self._on_change = on_change

    def set(self, value: int) -> None:
        """Set the limit; 1 or more."""
        if value != self.value:
            self.value = value
            if self._on_change is not None:
                self._on_change(self)

    def __repr__(self) -> str:
        return f"<ConnectionLimit {self.value}>"
