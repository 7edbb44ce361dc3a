"""The statistics of an xDS test client: of all its RPCs, and of the next ones that a test driver wants to see."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import trio
from msgspec import Struct

from trxds.core.metadata import EMPTY, Metadata, as_text
from trxds.core.status import StatusCode

from .protos import LoadBalancerAccumulatedStatsResponse, LoadBalancerStatsResponse
from .rpc_config import RpcType


class RpcResult(Struct, frozen=True):
    """How an RPC ended. `hostname` is the server's name for itself, empty if no server told it."""

    code: StatusCode
    hostname: str = ""
    initial_metadata: Metadata = EMPTY
    trailing_metadata: Metadata = EMPTY


class RpcStats:
    """Counts RPCs as they start and end.

    RPCs have numbers, in the order in which they start. A watcher is for a row of numbers, and not for the next RPCs
    that end, because servers differ in the time that they take.
    """

    def __init__(self) -> None:
        self._started: Counter[RpcType] = Counter()
        self._results: defaultdict[RpcType, Counter[StatusCode]] = defaultdict(Counter)
        self._watchers: set[_Watcher] = set()

    def start(self, type: RpcType) -> int:
        """Count an RPC that starts; return its number."""
        self._started[type] += 1
        return self._started.total()

    def end(self, number: int, type: RpcType, result: RpcResult) -> None:
        """Count an RPC that has ended."""
        self._results[type][result.code] += 1
        for watcher in self._watchers:
            if number in watcher.numbers:
                watcher.add(type, result)

    def accumulated(self) -> Any:
        """Return the `LoadBalancerAccumulatedStatsResponse` of all RPCs, with what the present protocol deprecates."""
        response = LoadBalancerAccumulatedStatsResponse()
        for type, started in self._started.items():
            results = self._results[type]
            stats = response.stats_per_method[type.name]
            stats.rpcs_started = started
            stats.result.update({int(code): count for code, count in results.items()})
            response.num_rpcs_started_by_method[type.name] = started
            response.num_rpcs_succeeded_by_method[type.name] = results[StatusCode.OK]
            response.num_rpcs_failed_by_method[type.name] = results.total() - results[StatusCode.OK]
        return response

    async def watch(self, count: int, timeout: float, metadata_keys: Iterable[str] = ()) -> Any:
        """Wait for the ends of the next `count` RPCs that start, at most `timeout` seconds.

        Returns the `LoadBalancerStatsResponse` of those that have ended. The others count as failures. It has the
        metadata of these keys, of all keys for `*`.
        """
        first = self._started.total() + 1
        watcher = _Watcher(range(first, first + count), metadata_keys)
        self._watchers.add(watcher)
        try:
            with trio.move_on_after(max(timeout, 0)):
                await watcher.wait()
        finally:
            self._watchers.discard(watcher)
        return watcher.response()


class _Watcher:
    """Collects the results of the RPCs with these numbers."""

    def __init__(self, numbers: range, metadata_keys: Iterable[str]) -> None:
        self.numbers = numbers
        self._keys = {key.strip().lower() for key in metadata_keys}
        self._remaining = len(numbers)
        self._failed = 0
        self._by_peer: Counter[str] = Counter()
        self._by_method: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._metadata: defaultdict[str, list[Any]] = defaultdict(list)
        self._has_metadata = False
        self._complete = trio.Event()

    def add(self, type: RpcType, result: RpcResult) -> None:
        """Count the result. An RPC counts for the host that answered it, whatever the status of the answer is."""
        self._remaining -= 1
        if result.hostname:
            self._by_peer[result.hostname] += 1
            self._by_method[type.method][result.hostname] += 1
            self._metadata[result.hostname].append(self._wanted_metadata(result))
        else:
            self._failed += 1
        if not self._remaining:
            self._complete.set()

    async def wait(self) -> None:
        """Wait until all RPCs have ended. Always a checkpoint."""
        if self._remaining:
            await self._complete.wait()
        else:
            await trio.lowlevel.checkpoint()

    def response(self) -> Any:
        response = LoadBalancerStatsResponse(rpcs_by_peer=self._by_peer, num_failures=self._failed + self._remaining)
        for method, by_peer in self._by_method.items():
            response.rpcs_by_method[method].rpcs_by_peer.update(by_peer)
        # If one RPC has wanted metadata, all have an entry, perhaps an empty one; otherwise none has.
        if self._has_metadata:
            for peer, rpcs in self._metadata.items():
                response.metadatas_by_peer[peer].rpc_metadata.extend(rpcs)
        return response

    def _wanted_metadata(self, result: RpcResult) -> Any:
        message = LoadBalancerStatsResponse.RpcMetadata()
        for kind, metadata in (
            (LoadBalancerStatsResponse.INITIAL, result.initial_metadata),
            (LoadBalancerStatsResponse.TRAILING, result.trailing_metadata),
        ):
            for key, value in metadata:
                if key in self._keys or "*" in self._keys:
                    message.metadata.add(key=key, value=as_text(value), type=kind)
                    self._has_metadata = True
        return message
