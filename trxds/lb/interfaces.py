"""What the tree needs of the world below it. `channel/channel.py` fills it with `wire`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connectivity import Connectivity
from trxds.core.status import Status


class SubchannelInterface(Protocol):
    """A subchannel, as a policy sees it: where it stands, and a way to ask for a connection."""

    @property
    def address(self) -> str:
        """As in the endpoint: `10.0.0.1:443`, `[::1]:443`."""
        ...

    @property
    def state(self) -> Connectivity:
        """Where it stands now; it is read live."""
        ...

    @property
    def error(self) -> Status | None:
        """Why the last connection or attempt failed."""

    def request_connection(self) -> None:
        """Connect if IDLE, otherwise nothing. Plain."""

    async def listen(self, path: str, request: bytes, heard: Callable[[bytes], None]) -> Status | None:
        """A call of a policy's own: `heard` gets each message. How it ended; None if the host is not READY."""


class Lease(Protocol):
    """A share in a host; while anyone has one the host is not retired."""

    @property
    def subchannel(self) -> SubchannelInterface: ...
    def release(self) -> None:
        """Plain and idempotent."""


class SubchannelPoolInterface(Protocol):
    """The pool: address to host, by lease."""

    def lookup(self, address: str) -> SubchannelInterface | None:
        """The host that anyone in the channel has a lease on. Plain; takes none."""

    def lease(self, address: str, mailbox: ConflatingQueue[Any]) -> Lease:
        """Each later change of the host's state is a letter `("host", address)` in `mailbox`."""

    def with_security(self, security: Callable[[str], Hashable]) -> SubchannelPoolInterface:
        """The same pool, its hosts reached as `security` says of each address.

        Hosts are shared by address and what this returns. The pool itself, if its credentials do not care.
        """
