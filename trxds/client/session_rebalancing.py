"""A `Rebalancer` releases idle sessions of hosts that have more than their fair share, after a rollout for example.

Sessions stay where they are when hosts come, so they pile up on the oldest hosts. A released session chooses another
host at its next call, and loses the state that its host had.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import trio
from msgspec import Struct

from trxds.core.arguments import check_number
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.fair_share import fair_shares
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.resolver.snapshot import ClusterEntries
from trxds.resources.endpoint import Endpoint
from trxds.session_affinity.session import SessionCookies
from trxds.session_affinity.session_hosts import CookieKey, SessionHost

from .session_registry import SessionRegistry

PERIOD = 1.0  # seconds between two looks at the sessions
TOLERANCE = 0.1  # of a host's fair share: a policy that draws hosts never spreads sessions evenly


def check_rebalancing(per_second: float, idle_for: float, tolerance: float) -> None:
    """Raise `ValueError` for a rate that is not above 0, or another number below 0."""
    check_number("per_second", per_second, lambda rate: rate > 0, "a number of sessions above 0")
    for name, value in (("idle_for", idle_for), ("tolerance", tolerance)):
        check_number(name, value, lambda number: number >= 0, "a number from 0")


# -- the share of each host


def shares(entries: object, cluster: str, ready: frozenset[str]) -> list[tuple[tuple[str, ...], float]]:
    """Return the addresses of each host that takes new sessions of the cluster, and its fair share; their sum is 1.

    `ready` are the addresses with a connection (`lb/fair_share.py`).
    """
    found = fair_shares(_priorities(entries, cluster), lambda endpoint: not ready.isdisjoint(endpoint.addresses))
    return [(endpoint.addresses, share) for endpoint, share in found]


def _priorities(entries: object, cluster: str) -> Iterator[list[tuple[int, Sequence[Endpoint]]]]:
    if isinstance(entries, Endpoints):  # a target without a control plane
        yield [(1, entries.all)]
    for leaf in entries.leaves(cluster) if isinstance(entries, ClusterEntries) else ():
        for localities in leaf.priorities:
            yield [(each.weight, each.endpoints) for each in localities]


# -- the sessions above it


class _Seen(Struct, frozen=True):
    calls: int
    since: float  # when the session was first seen with so many calls, and none open


class Rebalancer:
    """A `Rebalancer` releases at most `per_second` sessions a second that made no call for `idle_for` seconds.

    A host may have `tolerance` more than its fair share, rounded up.
    """

    def __init__(self, sessions: SessionRegistry, per_second: float, idle_for: float, tolerance: float) -> None:
        check_rebalancing(per_second, idle_for, tolerance)
        self._sessions = sessions
        self._per_second = per_second
        self._idle_for = idle_for
        self._tolerance = tolerance
        self._seen: dict[SessionCookies, _Seen] = {}
        self._released: dict[SessionCookies, str] = {}  # with their clusters
        self._credit = 0.0

    async def run(self) -> None:
        """Rebalance until cancelled."""
        while True:
            # The bound is one session at least, or a rate below one a second would never release any.
            self._credit = min(self._credit + self._per_second * PERIOD, max(self._per_second * PERIOD, 1.0))
            self.look(trio.current_time())
            await trio.sleep(PERIOD)

    def look(self, now: float) -> None:
        """Release the sessions that may be released at `now`. Synchronous."""
        # Looking now and then spares each call the note of when it ended.
        self._seen = {
            cookies: seen
            if (seen := self._seen.get(cookies)) is not None and seen.calls == cookies.calls
            else _Seen(cookies.calls, now)
            for cookies, blocks in self._sessions.open.items()
            if not any(block.has_open_calls for block in blocks)
        }
        for cookies, key in self._above_share(now):
            if self._credit < 1:
                return
            self._credit -= 1
            self._released[cookies] = cookies.pins[key].host.cluster
            cookies.release(key, RepinReason.REBALANCED)

    def _above_share(self, now: float) -> Iterator[tuple[SessionCookies, CookieKey]]:
        """Yield idle sessions that are too many on their host, those that are idle for the longest time first."""
        pinned = self._sessions.pinned
        clusters: dict[str, dict[str, int]] = {}
        for host, sessions in pinned.by_host.items():
            clusters.setdefault(host.cluster, {})[host.host] = len(sessions)
        ready = pinned.ready_addresses() if clusters else frozenset()
        waiting = self._count_waiting()
        for cluster, counts in clusters.items():
            found = shares(pinned.entries, cluster, ready)
            # A session may be on any of a host's addresses (A61).
            on_hosts = [sum(counts.get(address, 0) for address in addresses) for addresses, _ in found]
            total = waiting[cluster] + sum(on_hosts)
            for (addresses, share), count in zip(found, on_hosts, strict=True):
                # First to a millionth, because 100 * 1.1 is a little above 110.
                excess = count - math.ceil(round(total * share * (1 + self._tolerance), 6))
                if excess > 0:
                    yield from self._idle([SessionHost(address, cluster) for address in addresses], now)[:excess]

    def _count_waiting(self) -> Counter[str]:
        """Return how many sessions of each cluster were released and made no call since: they will need a host too."""
        self._released = {
            cookies: cluster
            for cookies, cluster in self._released.items()
            if cookies in self._sessions.open and cookies.release_reason is RepinReason.REBALANCED
        }
        return Counter(self._released.values())

    def _idle(self, hosts: Iterable[SessionHost], now: float) -> list[tuple[SessionCookies, CookieKey]]:
        """Return the sessions on these hosts that may be released, those that are idle for the longest time first."""
        pinned, idle = self._sessions.pinned.by_host, []
        for cookies, key in (each for host in hosts for each in pinned.get(host, ())):
            seen, pin = self._seen.get(cookies), cookies.pins[key]
            if seen is None or now - seen.since < self._idle_for or cookies.is_moving:
                continue
            # A strict session is never released: its program relies on that one host. Whether one that was imported is
            # strict shows at its first call, which gives the pin its path. A cookie whose time is over binds nothing.
            if pin.path and not pin.strict and key in cookies.hosts(now):
                idle.append((seen.since, cookies.number, cookies, key))
        return [(cookies, key) for *_, cookies, key in sorted(idle, key=lambda each: each[:2])]
