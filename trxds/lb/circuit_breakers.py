"""Circuit breakers count the RPCs in flight to a cluster, for all policies that share the limit (A32).

A count belongs to a cluster and its EDS service, for all the channels of one xDS client. It ends with the last policy
or RPC that uses it, so it is no global state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias
from weakref import WeakValueDictionary

from trxds.core.metadata import EMPTY, Metadata
from trxds.core.status import Status

Key: TypeAlias = tuple[str, str]  # cluster, EDS service name


class CallCounter:
    """A tracker that counts the RPCs to `cluster` whose streams are open, or wait for one that the host allows."""

    __slots__ = ("__weakref__", "cluster", "rpcs")

    def __init__(self, cluster: str = "") -> None:
        self.cluster = cluster
        self.rpcs = 0

    def began(self) -> None:
        self.rpcs += 1

    def ended(self, status: Status, trailing: Metadata = EMPTY, now: float = 0.0) -> None:
        self.rpcs -= 1


@contextmanager
def count_in_flight(trackers: Iterable[object]) -> Iterator[None]:
    """Count an RPC that waits for its stream as in flight (A32)."""
    counters = [each for each in trackers if isinstance(each, CallCounter)]
    for each in counters:
        each.rpcs += 1
    try:
        yield
    finally:
        for each in counters:
            each.rpcs -= 1


class CircuitBreakers:
    """The call counters of one xDS client."""

    def __init__(self) -> None:
        self._counts: WeakValueDictionary[Key, CallCounter] = WeakValueDictionary()

    def call_counter(self, key: Key) -> CallCounter:
        """Return the counter of that cluster; it lives as long as there is a reference to it."""
        return self._counts.setdefault(key, CallCounter(key[0]))
