"""RPCs in flight to a cluster, counted where several policies may share the count (circuit breaking).

The count is of a cluster and its EDS service, for all the channels of one xDS client, and it is gone
with the last policy or RPC that uses it. So it is no module's state, and no global one.
"""

from __future__ import annotations

from typing import TypeAlias
from weakref import WeakValueDictionary

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status

Key: TypeAlias = tuple[str, str]  # cluster, EDS service name


class CallCounter:
    """A tracker that counts the RPCs to `cluster` whose streams are open."""

    __slots__ = ("__weakref__", "cluster", "rpcs")

    def __init__(self, cluster: str = "") -> None:
        self.cluster = cluster
        self.rpcs = 0

    def began(self) -> None:
        self.rpcs += 1

    def ended(self, status: Status, trailing: Metadata = EMPTY, now: float = 0.0) -> None:
        self.rpcs -= 1


class CircuitBreakers:
    """The counts of one xDS client."""

    def __init__(self) -> None:
        self._counts: WeakValueDictionary[Key, CallCounter] = WeakValueDictionary()

    def in_flight(self, key: Key) -> CallCounter:
        """The count for that cluster; it lives as long as somebody has it."""
        return self._counts.setdefault(key, CallCounter(key[0]))
