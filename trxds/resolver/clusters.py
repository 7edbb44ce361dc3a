"""The lifetimes of clusters and route tables: they end when no RPC can be sent to them any more (A31, A60).

A cluster is a task inside a Lifetime's scope. While it runs, the cluster's resources are watched (CDS, EDS), and the
cluster manager has a child for it. Route tables and uncommitted RPCs hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.lifetime import Hold, Lifetime


class Clusters:
    """The clusters of one channel by name. The end of one puts the message "clusters" into `queue`."""

    def __init__(self, nursery: trio.Nursery, queue: ConflatingQueue[Any]) -> None:
        self._nursery = nursery
        self._queue = queue
        self.alive: dict[str, Lifetime] = {}
        self._tables = count(1)

    def route_table(self, names: Iterable[str]) -> RouteTable:
        """Return a new route table that holds these clusters; it has the next number."""
        return RouteTable(next(self._tables), names, self, self._nursery)

    def hold(self, name: str) -> Hold:
        """Hold the cluster, and start its lifetime if it has none."""
        lifetime = self.alive.get(name)
        if lifetime is not None:
            return lifetime.hold()
        # A lifetime that ended is gone from `alive` and cannot be held again, so the cluster gets a new one.
        lifetime = Lifetime(name, self.alive)
        self._nursery.start_soon(_run, lifetime, self._on_cluster_end, name=f"cluster/{name}")
        return lifetime.initial_hold

    def _on_cluster_end(self) -> None:
        # A31's second step: nothing holds it any more, so the next configuration leaves it out.
        self._queue.put("clusters", None)


class RouteTable:
    """A hold on every cluster that the routes name, so that a cookie can name any of them (A60).

    An RPC acquires its cluster's lifetime out of `lifetimes`, and releases it when it is committed.
    """

    def __init__(self, number: int, names: Iterable[str], clusters: Clusters, nursery: trio.Nursery) -> None:
        self.lifetime = Lifetime(f"route table {number}")
        self._holds = {name: clusters.hold(name) for name in names}
        self.lifetimes = {name: clusters.alive[name] for name in self._holds}
        self.clusters = frozenset(self._holds)
        nursery.start_soon(_run, self.lifetime, self._release_clusters, name=f"route table/{number}")

    def find_cluster(self, name: str) -> Lifetime | None:
        """Return the cluster's lifetime, if the table has it and it has not ended: for a copy of an RPC to hold."""
        lifetime = self.lifetimes.get(name)
        return lifetime if lifetime is not None and not lifetime.ended else None

    def _release_clusters(self) -> None:
        # A31: with its last RPC, not with the next table: until then a cookie may name any of these (A60).
        for hold in self._holds.values():
            hold.release()


async def _run(lifetime: Lifetime, on_end: Callable[[], None]) -> None:
    """Run until the last hold of the lifetime is released."""
    try:
        with lifetime.scope:
            await trio.sleep_forever()
    finally:
        on_end()
