"""Lifetimes of clusters and route tables: what lives as long as somebody may still send to it.

A cluster is a task inside a Lifetime's scope. While it lives it is watched (CDS, EDS) and the
cluster manager has a child for it. Route tables and uncommitted RPCs hold it (A31, A60).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import trio

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.lifetime import Hold, Lifetime


class Clusters:
    """The clusters alive in one channel, by name. The end of one is a letter "clusters" in `mailbox`."""

    def __init__(self, nursery: trio.Nursery, mailbox: ConflatingQueue[Any]) -> None:
        self._nursery = nursery
        self._mailbox = mailbox
        self.alive: dict[str, Lifetime] = {}
        self._tables = count(1)

    def route_table(self, names: Iterable[str]) -> RouteTable:
        """Make one that names these; it has the next number."""
        return RouteTable(next(self._tables), names, self, self._nursery)

    def hold(self, name: str) -> Hold:
        """Keep the cluster alive; it comes to life if it is not."""
        lifetime = self.alive.get(name)
        if lifetime is not None:
            return lifetime.hold()
        lifetime = Lifetime(name, self.alive)
        self._nursery.start_soon(self._live, lifetime, name=f"cluster/{name}")
        return lifetime.initial_hold

    async def _live(self, lifetime: Lifetime) -> None:
        try:
            with lifetime.scope:
                await trio.sleep_forever()
        finally:
            # A31's second step: nobody holds it any more, so the next configuration goes without it.
            self._mailbox.put("clusters", None)


class RouteTable:
    """Holds every cluster that its routes name, so that a cookie can name any of them (A60)."""

    def __init__(self, number: int, names: Iterable[str], clusters: Clusters, nursery: trio.Nursery) -> None:
        self.lifetime = Lifetime(f"route table {number}")
        self._holds = {name: clusters.hold(name) for name in names}
        self._lifetimes = {name: clusters.alive[name] for name in self._holds}
        nursery.start_soon(self._live, name=f"route table/{number}")

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(self._holds)

    def keep_cluster(self, name: str) -> Lifetime:
        """For one RPC, which lets the table go and keeps the cluster (A60), and lets that go in turn."""
        lifetime = self._lifetimes[name]
        lifetime.acquire()
        return lifetime

    async def _live(self) -> None:
        try:
            with self.lifetime.scope:
                await trio.sleep_forever()
        finally:
            # With its last RPC and not with the next table (A31): till then a cookie may name any of these (A60).
            for hold in self._holds.values():
                hold.release()
