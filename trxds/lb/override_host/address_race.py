"""A race connects a cookie's hosts one after another, a little apart, while an RPC waits for them (RFC 8305).

A75 connects one host and waits until it is READY or has failed. If nothing answers, that takes as long as an attempt
to connect may take: 20 seconds. So the cookie's next host is connected too after 250 milliseconds. An RPC still uses
the host that A75 says: the first in the cookie's order that is READY. Hosts that were connected in vain are released.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.happy_eyeballs import ATTEMPT_DELAY
from trxds.lb.policy import EMPTY_SET
from trxds.resources.endpoint import HealthStatus

from .host_table import Entry, HostTable

MAX_RACES = 256  # a bound, because cookies come from outside; above it an RPC waits for its first host only


class RaceRequested(Struct, frozen=True):
    """A pick's event for the policy: an RPC waits for one of these hosts of a cookie, of which there are several."""

    addresses: tuple[str, ...]


class _Race(Struct):
    next_at: float  # when the next host is connected too
    last_address: str = ""  # the address that was connected last; empty for the first one, which the pick connects


class HappyEyeballs:
    """All races of one cluster, by the cookie's addresses; the policy has to call `advance` at `wake_at`."""

    def __init__(self, table: HostTable) -> None:
        self.wake_at = math.inf
        self._table = table
        self._races: dict[tuple[str, ...], _Race] = {}
        self._spares: frozenset[str] = EMPTY_SET  # the addresses that races have leased

    def should_start(self, addresses: tuple[str, ...]) -> bool:
        """Return whether a pick that waits for these should start a race: only once, as that makes RPCs pick again."""
        return len(addresses) > 1 and addresses not in self._races and len(self._races) < MAX_RACES

    def advance(
        self, waits: Iterable[RaceRequested], statuses: Collection[HealthStatus], now: float
    ) -> tuple[str, ...]:
        """Start and advance all races that are due at `now`; return the addresses to connect."""
        if not self._races and not waits:
            return ()
        for addresses in tuple(self._races):
            if not self._is_running(addresses, statuses, now):
                del self._races[addresses]
        for each in waits:
            # The first host is connected by this same decision, so it may still be IDLE here.
            self._races.setdefault(each.addresses, _Race(now + ATTEMPT_DELAY))
        connect = [
            address
            for addresses, race in self._races.items()
            if (address := self._next_address(addresses, race, statuses, now)) is not None
        ]
        self._release_losers()
        self.wake_at = min((race.next_at for race in self._races.values()), default=math.inf)
        return tuple(connect)

    def _is_running(self, addresses: tuple[str, ...], statuses: Collection[HealthStatus], now: float) -> bool:
        hosts = list(self._usable_hosts(addresses, statuses))
        winner = next((entry for entry, state in hosts if state is Connectivity.READY), None)
        # A75: the RPC uses the first READY host in the cookie's order, whichever was connected first.
        if winner is not None:
            if winner.is_spare:
                self._table.use(winner, now)  # the waiting RPC picks again only after this decision
            return False
        if any(state is Connectivity.CONNECTING for _, state in hosts):
            return True
        # All have failed. The idle sweep releases them: a release here would forget that they have failed.
        self._spares -= frozenset(addresses)
        return False

    def _next_address(
        self, addresses: tuple[str, ...], race: _Race, statuses: Collection[HealthStatus], now: float
    ) -> str | None:
        """Return the next address to connect, once the one before has failed or is CONNECTING for `ATTEMPT_DELAY`."""
        hosts = list(self._usable_hosts(addresses, statuses))
        failed = bool(race.last_address) and all(entry.address != race.last_address for entry, _ in hosts)
        if now < race.next_at and not failed:
            return None
        entry = next((entry for entry, state in hosts if state is None or state is Connectivity.IDLE), None)
        if entry is None:
            # All hosts are connecting; the race goes on until one is READY or all have failed.
            race.last_address, race.next_at = "", math.inf
            return None
        race.last_address, race.next_at = entry.address, now + ATTEMPT_DELAY
        if entry.host is None:
            self._spares |= {entry.address}
            self._table.wait_for(entry, now, spare=True)
        return entry.address

    def next_after(self, waited_for: str, addresses: tuple[str, ...], statuses: Collection[HealthStatus]) -> str:
        """Return the address that is connected next if `waited_for` takes long; empty if there is none."""
        for entry, state in self._usable_hosts(addresses, statuses):
            if entry.address != waited_for and state in (None, Connectivity.IDLE):
                return entry.address
        return ""

    def _usable_hosts(
        self, addresses: tuple[str, ...], statuses: Collection[HealthStatus]
    ) -> Iterator[tuple[Entry, Connectivity | None]]:
        for address in addresses:
            entry = self._table.get(address)
            if entry is not None and entry.health in statuses:
                state = self._table.state(entry)
                if state is not Connectivity.TRANSIENT_FAILURE:
                    yield entry, state

    def _release_losers(self) -> None:
        racing = {address for addresses in self._races for address in addresses}
        losers, self._spares = self._spares - racing, self._spares & racing
        for address in sorted(losers):
            entry = self._table.get(address)
            if entry is not None and entry.is_spare:
                self._table.release(entry)
