"""The host table has the hosts that an override may reach, and leases those that sessions use (A55, A75).

The table outlives the pickers that read it. A host stays leased if a session used it within
the cluster's idle timeout, even if the child policy released it: EDS may say DRAINING for minutes
while sessions finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.status import OK
from trxds.lb.host_trackers import HostTrackers
from trxds.lb.interfaces import SubchannelInterface
from trxds.lb.pick import Complete
from trxds.resources.endpoint import Endpoint, HealthStatus

MIN_SWEEP_INTERVAL = 5.0  # seconds between two sweeps at least
MAX_ATTEMPT_TIME = 150.0  # seconds; an attempt may last as long as the backoff: 120 s and 20 % jitter, with a margin


class Entry(Struct):
    """One address of an endpoint; `addresses` has all of the endpoint's, this one first, as cookies do (A61)."""

    address: str
    addresses: str
    health: HealthStatus
    last_used: float = -math.inf
    host: SubchannelInterface | None = None  # while leased for sessions
    is_spare: bool = False  # leased by a race, and not used by an RPC yet
    is_awaited: bool = False  # leased for an RPC that waits, and that may not have picked again since
    cached_pick: Complete | None = None  # the result that names the host
    tracker_changes: int = 0  # `HostTrackers.changes` at the time of `cached_pick`


class HostTable:
    """The endpoints of a cluster by each of their addresses, with an entry only for those that a session has used.

    Sessions use a few of ten thousand endpoints, so a new list costs one dict. The policy has to call `sweep_idle` at
    `sweep_at`; a lease or an update may make that earlier, and nothing makes it later.
    """

    def __init__(
        self,
        acquire: Callable[[str], SubchannelInterface],
        release: Callable[[str], None],
        lookup: Callable[[str], SubchannelInterface | None],
        trackers: HostTrackers,
    ) -> None:
        self.sweep_at = math.inf  # seconds on Trio's clock; never, while no host is leased
        self._endpoints: Mapping[str, Endpoint] = {}
        self._entries: dict[str, Entry] = {}
        self._acquire = acquire
        self._release = release
        self._lookup = lookup
        self.trackers = trackers  # those that policies below have attached to hosts
        self._idle_timeout = math.inf

    def get(self, address: str) -> Entry | None:
        entry = self._entries.get(address)
        if entry is not None:
            return entry
        # Not stored: a pick that only reads must not make the table grow.
        endpoint = self._endpoints.get(address)
        return Entry(address, _rotate(endpoint, address), endpoint.health) if endpoint is not None else None

    def others(self, address: str) -> Iterator[Entry]:
        """Yield each endpoint, in their order, but the one that has this address."""
        avoided = self._endpoints.get(address)
        # Reversed, because `update` fills the dict in reverse. An endpoint comes up by its first address only.
        for each, endpoint in reversed([*self._endpoints.items()]):
            if endpoint is not avoided and each == endpoint.addresses[0]:
                yield self._entries.get(each) or Entry(each, _rotate(endpoint, each), endpoint.health)

    def is_same_endpoint(self, address: str, other: str) -> bool:
        """Return whether one endpoint has both addresses (A61)."""
        endpoint = self._endpoints.get(address)
        return address == other or (endpoint is not None and other in endpoint.addresses)

    def state(self, entry: Entry) -> Connectivity | None:
        """Return the host's state, whichever policy leases it; None if none does."""
        host = entry.host or self._lookup(entry.address)
        return host.state if host is not None else None

    def takes_new_sessions(self, entry: Entry) -> bool:
        """Return whether the host has not said that it takes no calls (A17)."""
        host = entry.host or self._lookup(entry.address)
        return host is None or host.state is not Connectivity.READY or host.health is OK

    def update(self, endpoints: Sequence[Endpoint], idle_timeout: float, now: float) -> None:
        """Replace the list of endpoints; addresses that stay keep their last use and their lease."""
        self._idle_timeout = idle_timeout
        # In reverse, so that the first endpoint with an address wins.
        self._endpoints = {address: endpoint for endpoint in reversed(endpoints) for address in endpoint.addresses}
        for address, entry in tuple(self._entries.items()):
            endpoint = self._endpoints.get(address)
            if endpoint is None:
                self.release(entry)
                del self._entries[address]
            else:
                entry.addresses, entry.health = _rotate(endpoint, address), endpoint.health
        # A75 restarts the sweep's timer here; then frequent updates would put it off for ever.
        # If nothing is leased no timer is needed, and an idle channel does not wake up.
        self.sweep_at = min(self.sweep_at, self._next_sweep(now)) if self.leased_addresses else math.inf

    def use(self, entry: Entry, now: float) -> SubchannelInterface:
        """Lease a host for a session's RPC that uses it, once."""
        entry.last_used = now
        entry.is_spare = entry.is_awaited = False
        if entry.host is None:
            self._entries[entry.address] = entry
            entry.host = self._acquire(entry.address)
            self.sweep_at = min(self.sweep_at, now + max(self._idle_timeout, MIN_SWEEP_INTERVAL))
        return entry.host

    def wait_for(self, entry: Entry, now: float, *, spare: bool = False) -> SubchannelInterface:
        """Lease a host for a session's RPC that waits for it, once; a `spare` is needed only if another one fails."""
        host = self.use(entry, now)
        # Without a cached pick the next one goes through `use`, which takes both marks away.
        entry.is_spare, entry.is_awaited, entry.cached_pick = spare, True, None
        return host

    def pick(self, entry: Entry, now: float) -> Complete:
        """Lease the host and return it as a pick's result, with the trackers that policies below have attached."""
        entry.last_used = now
        picked = entry.cached_pick
        # A list of trackers is built once, and not for each RPC of a session.
        if picked is None or entry.tracker_changes != self.trackers.changes:
            picked = entry.cached_pick = Complete(self.use(entry, now), self.trackers.of(entry.address))
            entry.tracker_changes = self.trackers.changes
        return picked

    @property
    def leased_addresses(self) -> list[str]:
        """The addresses of the hosts that are leased for sessions."""
        return [entry.address for entry in self._entries.values() if entry.host is not None]

    def sweep_idle(self, now: float) -> None:
        """Release the hosts that no session used within the idle timeout (A75)."""
        for entry in self._entries.values():
            if entry.last_used <= now - self._idle_timeout and not _may_be_awaited(entry, now):
                if entry.is_awaited:
                    # The attempt may have ended just now, and the waiting RPC has to see it: release at the next sweep.
                    entry.is_awaited = False
                else:
                    self.release(entry)
        self.sweep_at = self._next_sweep(now)

    def release(self, entry: Entry) -> None:
        """Release the host, if it is leased."""
        if entry.host is not None:
            entry.host = entry.cached_pick = None
            self._release(entry.address)

    def _next_sweep(self, now: float) -> float:
        """Return when the first host will be idle for too long, at least `MIN_SWEEP_INTERVAL` from now (A75)."""
        ends = (entry.last_used + self._idle_timeout for entry in self._entries.values() if entry.host is not None)
        return max(min(ends, default=math.inf), now + MIN_SWEEP_INTERVAL)


def _may_be_awaited(entry: Entry, now: float) -> bool:
    """Return whether an RPC may still wait for the host to connect.

    If the host were released the RPC would start the attempt again, and for ever if it lasts longer than a sweep.
    """
    connects = entry.host is not None and entry.host.state is Connectivity.CONNECTING
    return connects and now < entry.last_used + MAX_ATTEMPT_TIME


def _rotate(endpoint: Endpoint, first: str) -> str:
    """Return the cookie's text for one address of an endpoint: this one, then the others in their order (A61)."""
    addresses = endpoint.addresses
    return first if len(addresses) == 1 else ",".join((first, *(a for a in addresses if a != first)))
