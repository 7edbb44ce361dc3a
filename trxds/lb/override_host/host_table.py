"""The hosts that an override may reach, and how long each is kept warm (A55, A75).

The table outlives the pickers that read it. A host stays leased while a session used it within
the cluster's idle timeout, even if the child policy dropped it: EDS may say DRAINING for minutes
while sessions finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trxds.core.connectivity import Connectivity
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.pick import Complete
from trxds.resources.endpoint import Endpoint, HealthStatus

MIN_SWEEP_INTERVAL = 5.0  # seconds between two sweeps at least
MAX_ATTEMPT_TIME = 150.0  # seconds: an attempt to connect has the longest backoff's time, a fifth more at most


@dataclass(slots=True)
class Entry:
    """One address. `addresses` is its endpoint's list with this one first, as cookies have it."""

    address: str
    addresses: str
    health: HealthStatus
    last_used: float = -math.inf
    host: SubchannelInterface | None = None  # while leased for sessions
    spare: bool = False  # leased in case that it is needed, and no RPC has used it or waits for it
    awaited: bool = False  # leased for who waits, and not known to have been looked at since
    cached_pick: Complete | None = None  # the answer that names the host
    trackers: int = 0  # as many changes had been made to the trackers when `picked` was


class HostTable:
    """Every endpoint by each of its addresses; an entry only for what a session has used.

    Of ten thousand endpoints sessions use a few, so a new list costs one dict.

    At `sweep_at` somebody has to call `sweep`; a lease or an update may bring it forward, and nothing puts it off.
    """

    def __init__(
        self,
        acquire: Callable[[str], SubchannelInterface],
        release: Callable[[str], None],
        lookup: Callable[[str], SubchannelInterface | None],
        trackers: HostTrackers | None = None,
    ) -> None:
        self.sweep_at = math.inf  # seconds on Trio's clock; never, while no host is leased
        self._endpoints: Mapping[str, Endpoint] = {}
        self._entries: dict[str, Entry] = {}
        self._acquire = acquire
        self._release = release
        self._lookup = lookup
        self._trackers = trackers or HostTrackers()
        self._idle_timeout = math.inf

    def get(self, address: str) -> Entry | None:
        entry = self._entries.get(address)
        if entry is not None:
            return entry
        endpoint = self._endpoints.get(address)
        return Entry(address, _rotated(endpoint, address), endpoint.health) if endpoint is not None else None

    def state(self, entry: Entry) -> Connectivity | None:
        """Where the host stands now, whoever leases it; None if nobody does."""
        host = entry.host or self._lookup(entry.address)
        return host.state if host is not None else None

    def update(self, endpoints: Sequence[Endpoint], idle_timeout: float, now: float) -> None:
        """Take over a new list; what stays keeps its last use and its lease."""
        self._idle_timeout = idle_timeout
        # From the last to the first: the first endpoint with an address has it.
        self._endpoints = {address: endpoint for endpoint in reversed(endpoints) for address in endpoint.addresses}
        for address, entry in tuple(self._entries.items()):
            endpoint = self._endpoints.get(address)
            if endpoint is None:
                self.release(entry)
                del self._entries[address]
            else:
                entry.addresses, entry.health = _rotated(endpoint, address), endpoint.health
        # A75 times the sweep anew here, so that updates in quick succession would put it off for ever.
        self.sweep_at = min(self.sweep_at, self._next_sweep(now)) if self.leased else math.inf

    def use(self, entry: Entry, now: float) -> SubchannelInterface:
        """A session's RPC uses this host: lease it, once."""
        entry.spare = entry.awaited = False
        return self._leased(entry, now)

    def wait_for(self, entry: Entry, now: float, *, spare: bool = False) -> SubchannelInterface:
        """A session's RPC waits for this host, or for another one and this is a `spare`: lease it, once."""
        entry.spare, entry.awaited, entry.cached_pick = spare, True, None
        return self._leased(entry, now)

    def _leased(self, entry: Entry, now: float) -> SubchannelInterface:
        entry.last_used = now
        if entry.host is None:
            self._entries[entry.address] = entry
            entry.host = self._acquire(entry.address)
            self.sweep_at = min(self.sweep_at, now + max(self._idle_timeout, MIN_SWEEP_INTERVAL))
        return entry.host

    def pick(self, entry: Entry, now: float) -> Complete:
        """The same, as an answer to the RPC, with what the policies below have attached to the host."""
        entry.last_used = now
        picked = entry.cached_pick
        if picked is None or entry.trackers != self._trackers.changes:
            picked = entry.cached_pick = Complete(self.use(entry, now), self._trackers.of(entry.address))
            entry.trackers = self._trackers.changes
        return picked

    @property
    def leased(self) -> list[str]:
        """The addresses of the hosts that a sweep could let go."""
        return [entry.address for entry in self._entries.values() if entry.host is not None]

    def sweep_idle(self, now: float) -> None:
        """Let go of what no session used within the idle timeout."""
        for entry in self._entries.values():
            if entry.last_used <= now - self._idle_timeout and not _may_be_awaited(entry, now):
                if entry.awaited:
                    # The attempt may have ended in this moment, and who waits has to see how: at the next sweep then.
                    entry.awaited = False
                else:
                    self.release(entry)
        self.sweep_at = self._next_sweep(now)

    def release(self, entry: Entry) -> None:
        """Let go of this one, if it is leased."""
        if entry.host is not None:
            entry.host = entry.cached_pick = None
            self._release(entry.address)

    def _next_sweep(self, now: float) -> float:
        """When the first host will have been idle for too long, but not all too soon."""
        ends = (entry.last_used + self._idle_timeout for entry in self._entries.values() if entry.host is not None)
        return max(min(ends, default=math.inf), now + MIN_SWEEP_INTERVAL)


def _may_be_awaited(entry: Entry, now: float) -> bool:
    """An RPC may wait for a host that connects, and looks at it again when the attempt is over.

    To let go of the host would have the attempt begin anew, and for ever if it takes longer than sweeps are apart.
    """
    connects = entry.host is not None and entry.host.state is Connectivity.CONNECTING
    return connects and now < entry.last_used + MAX_ATTEMPT_TIME


def _rotated(endpoint: Endpoint, first: str) -> str:
    """The cookie's text for one address of an endpoint: itself, then the others in their order (A61)."""
    addresses = endpoint.addresses
    return first if len(addresses) == 1 else ",".join((first, *(a for a in addresses if a != first)))
