"""An endpoint with its addresses, as a leaf policy uses it: one address at a time (A61).

A plain object in the leaf's memory, not a node: a thousand endpoints cost no task.
"""

from __future__ import annotations

from collections.abc import Mapping

from trxds.ground.connectivity import Connectivity
from trxds.ground.status import Status, unavailable

from .ports import Host


class EndpointState:
    """Tries the addresses in order; failed until one is READY, once all of them have failed (A62)."""

    __slots__ = ("_addresses", "_at", "_failed", "error", "ready")

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses
        self.ready: Host | None = None
        self.error: Status | None = None
        self._at = 0  # the address being tried
        self._failed = False

    def look(self, hosts: Mapping[str, Host], ejected: frozenset[str] = frozenset()) -> Connectivity:
        """Take in where the hosts stand now; what `wanted` returns follows from it.

        An endpoint whose host is ejected keeps its connection and counts as failed (A50).
        """
        self.ready = next((h for a in self._addresses if (h := hosts.get(a)) and _is_ready(h)), None)
        if self.ready is not None:
            self._at, self._failed = self._addresses.index(self.ready.address), False
            if self.ready.address not in ejected:
                return Connectivity.READY
            self.ready, self.error = None, unavailable(f"{self._addresses[self._at]}: ejected by outlier detection")
            return Connectivity.TRANSIENT_FAILURE
        host = hosts.get(self.wanted)
        if host is not None and host.state is Connectivity.TRANSIENT_FAILURE:
            self._next_address(host)
        return Connectivity.TRANSIENT_FAILURE if self._failed else Connectivity.CONNECTING

    def _next_address(self, host: Host) -> None:
        self.error = host.error
        self._at = (self._at + 1) % len(self._addresses)
        self._failed = self._failed or self._at == 0

    @property
    def wanted(self) -> str:
        """The address to connect to next; asking while it is not IDLE does nothing."""
        return self._addresses[self._at]


def _is_ready(host: Host) -> bool:
    return host.state is Connectivity.READY
