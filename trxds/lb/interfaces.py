"""These interfaces are all that the policy tree needs of connections; `client/open_channel.py` passes in the pool."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connection_limit import ConnectionLimit
from trxds.core.connectivity import Connectivity
from trxds.core.status import Status


class SubchannelInterface(Protocol):
    """A subchannel as a policy sees it (C-core's `SubchannelInterface`): its state, and a way to connect it."""

    @property
    def address(self) -> str:
        """The address as in the endpoint: `10.0.0.1:443`, `[::1]:443`."""
        ...

    @property
    def state(self) -> Connectivity:
        """The connectivity state at this moment."""
        ...

    @property
    def error(self) -> Status | None:
        """The error of the last connection or attempt to connect; None if there was none."""

    @property
    def health(self) -> Status | None:
        """The health of a READY host (A17): OK if it takes calls, None until it has said so, otherwise why not."""

    @property
    def security(self) -> str:
        """What TLS verifies the host by, for operators; empty without TLS."""
        ...

    def describe_connections(self) -> str:
        """Return how many connections it has of how many, and the calls that wait; empty for one that has room."""

    def request_connection(self) -> None:
        """Start to connect if the subchannel is IDLE. Does not block."""

    async def listen(self, path: str, request: bytes, on_message: Callable[[bytes], None]) -> Status | None:
        """Make a server-streaming call for a policy; `on_message` is called with each message.

        Return the status with which it ended, or None if the host is not READY.
        """


class Lease(Protocol):
    """A claim on a subchannel, which stays in the pool while it has a lease."""

    @property
    def subchannel(self) -> SubchannelInterface: ...
    def release(self) -> None:
        """End the claim. Does not block; a second call does nothing."""


class SubchannelPoolInterface(Protocol):
    """The pool of a channel's subchannels, shared by address and security."""

    def lookup(self, address: str) -> SubchannelInterface | None:
        """Return the subchannel that somebody in the channel leases, or None. It takes no lease."""

    def lease(self, address: str, queue: ConflatingQueue[Any]) -> Lease:
        """Lease the subchannel; each later change of its state is a message `("host", address)` in `queue`."""

    def with_proxies(self, proxy: Callable[[str], str]) -> SubchannelPoolInterface:
        """Return a pool whose hosts are reached through `proxy(address)`, an address or empty (A86)."""

    def with_limit(self, limit: ConnectionLimit) -> SubchannelPoolInterface:
        """Return a pool whose hosts may have so many connections each, of which one that is leased twice has the more.

        The limit may change while the pool is in use (A105).
        """

    def with_security(self, security: Callable[[str], Hashable]) -> SubchannelPoolInterface:
        """Return a pool whose hosts are reached as `security(address)` says; this one if its credentials ignore it.

        Hosts are shared by address and the value of `security(address)`.
        """
