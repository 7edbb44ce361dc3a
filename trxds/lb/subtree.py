"""A subtree shares state that is no configuration: ejections (A50) and security go down, trackers go up.

Ejection belongs to outlier detection and not to the subchannel, for one address may serve two clusters and fail in one.
A change of it is a message to the nodes that lease the address, and no new generation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.connection_limit import ConnectionLimit

from .host_trackers import HostTrackers
from .interfaces import SubchannelPoolInterface
from .pick import Tracker
from .policy import EMPTY_SET, NO_SETTINGS, Decision, SubtreeSettings


class Ejections:
    """The addresses ejected for one level of the tree: `ejected` has its own and those of the levels above."""

    __slots__ = ("_above", "_below", "_own", "_subscribers", "ejected")

    def __init__(self, above: Ejections | None = None) -> None:
        self.ejected: frozenset[str] = EMPTY_SET
        self._above = above
        self._own: frozenset[str] = EMPTY_SET
        self._subscribers: dict[ConflatingQueue[Any], Collection[str]] = {}
        self._below: dict[Ejections, None] = {}  # in order, and without a search when one of a thousand leaves
        if above is not None:
            above._below[self] = None
        self._update()

    def subscribe(self, queue: ConflatingQueue[Any], leased: Collection[str]) -> None:
        """Post to `queue` when an address is ejected or returned that is in `leased` by then."""
        self._subscribers[queue] = leased

    def unsubscribe(self, queue: ConflatingQueue[Any]) -> None:
        self._subscribers.pop(queue, None)

    def eject(self, addresses: frozenset[str]) -> None:
        """Set the addresses that this level ejects from now on."""
        changed = self._own ^ addresses
        self._own = addresses
        if changed:
            self._update()
            # Nodes read `ejected` themselves: the message has no contents, so the latest state counts.
            self._notify(changed)

    def end(self) -> None:
        """Leave the level above: the policy that ejected has ended, and its subtree too."""
        if self._above is not None:
            del self._above._below[self]

    def _update(self) -> None:
        above = self._above.ejected if self._above is not None else EMPTY_SET
        self.ejected = self._own | above if above else self._own
        for level in self._below:
            level._update()

    def _notify(self, changed: frozenset[str]) -> None:
        for queue, leased in self._subscribers.items():
            if any(address in leased for address in changed):
                queue.put("health", None)
        for level in self._below:
            level._notify(changed)


class Subtree:
    """The shared state of one node and those below it.

    `ejections` and `trackers` come from the level above; the level below gets `ejections_below` and `trackers_below`.
    """

    __slots__ = (
        "_all_hosts",
        "_last_trackers",
        "_limit",
        "_settings",
        "_trackers",
        "ejections",
        "ejections_below",
        "hosts",
        "trackers_below",
    )

    def __init__(
        self, hosts: SubchannelPoolInterface, ejections: Ejections | None, trackers: HostTrackers | None
    ) -> None:
        self.hosts = hosts  # to be leased below
        self._all_hosts = hosts
        self.ejections = ejections or Ejections()  # with the ejections of the levels above
        self._trackers = trackers  # our policy's are attached here, if a policy above collects them
        self._last_trackers: Mapping[str, Tracker] | None = None
        self._limit: ConnectionLimit | None = None  # made by our policy's first decision that has one
        self._settings = NO_SETTINGS  # of the policy's last decision
        self.ejections_below = self.ejections  # another one once our policy ejects hosts itself
        self.trackers_below = trackers

    def apply(self, decision: Decision) -> None:
        """Apply the ejections, security and trackers of the policy's decision."""
        if decision.ejected is not None:
            # Made on first use: most policies eject nothing, and then all levels share one object.
            if self.ejections_below is self.ejections:
                self.ejections_below = Ejections(self.ejections)
            self.ejections_below.eject(decision.ejected)
        if decision.subtree is not self._settings:
            self._apply_settings(decision.subtree)
        if decision.trackers is not self._last_trackers:
            self._last_trackers = decision.trackers
            if self._trackers is not None:
                self._trackers.attach(self, decision.trackers or {})

    def _apply_settings(self, settings: SubtreeSettings) -> None:
        before, self._settings = self._settings, settings
        # Before security and proxies, whose pools are made from the limited one.
        if settings.max_connections is not None:
            self._set_limit(settings.max_connections)
        security, proxies = settings.security, settings.proxies
        if security is not before.security or proxies is not before.proxies:
            # Another pool makes the node replace its children, by a graceful switch.
            self.hosts = self._all_hosts.with_security(security.of) if security is not None else self._all_hosts
            if proxies is not None:
                self.hosts = self.hosts.with_proxies(proxies.of)
        if settings.collects is not None:
            self.trackers_below = settings.collects

    def _set_limit(self, max_connections: int) -> None:
        if self._limit is None:
            # Before there are children, so none is replaced; from then on the limit changes, and not the pool.
            self._limit = ConnectionLimit(max_connections)
            self.hosts = self._all_hosts = self._all_hosts.with_limit(self._limit)
        self._limit.set(max_connections)

    def end(self, queue: ConflatingQueue[Any]) -> None:
        self.ejections.unsubscribe(queue)
        if self.ejections_below is not self.ejections:
            self.ejections_below.end()
        if self._trackers is not None:
            self._trackers.detach(self)
