"""The watches of all resources that one target needs, and the complete configuration that they make (A74).

A watch is a slot in the resolver's queue and no task; the sender of its messages is the resource. Exactly the resources
and names that the last assembly visited are watched, and without routes also those that the last routes needed. While a
configuration is incomplete, the one before it stays the newest.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from msgspec import structs

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import Status, unavailable
from trxds.resources.types import CDS, EDS, LDS, RDS, ResourceType

from .assemble import Assembly, Key, Known, assemble
from .clusters_in_force import may_fail_rpcs, with_present_errors
from .dns_resolver import DnsResolver
from .snapshot import ClusterResult, ConfigError, XdsConfig

# This is also the order in which new watches begin, so that requests are sent in the order that servers expect.
_TYPES = {kind.kind: kind for kind in (LDS, RDS, CDS, EDS)}
_ORDER = [*_TYPES, "DNS"]

MAX_SHOWN = 3  # of the missing resources; there may be ten thousand

BURST = 100  # changes without a delay
INTERVAL = 0.05  # seconds between later changes


class Watch(Protocol):
    def cancel(self) -> None: ...


class Source(Protocol):
    """The source of resources: the XdsClient."""

    def watch(self, kind: ResourceType, name: str, queue: ConflatingQueue[Any], sender: Hashable) -> Watch: ...

    def describe_pending(self, type: ResourceType, name: str) -> str:
        """Describe why a resource is not in use yet."""


class DependencyManager:
    """The watches of one target. `newest` is None until a configuration is complete; it is replaced only by a change.

    `held` are the clusters that RPCs or route tables need, even if no route names them any more. With `mirroring` the
    clusters that get copies of calls are watched too, and nothing waits for them.
    """

    def __init__(
        self,
        source: Source,
        names: DnsResolver,
        queue: ConflatingQueue[Any],
        listener: str,
        authority: str,
        held: Mapping[str, object],
        mirroring: bool = False,
    ) -> None:
        self.newest: XdsConfig | ConfigError | None = None
        self._source = source
        self._names = names
        self._queue = queue
        self._target = listener, authority
        self._held = held
        self._watches: dict[Key, Watch] = {}
        self._known: dict[Key, ResourceUpdate] = {}
        self._last_clusters: Mapping[str, ClusterResult] = {}
        self._mirrors: frozenset[str] | None = frozenset() if mirroring else None
        self._awaited: tuple[Key, ...] = ()  # the missing resources of the last assembly
        self._is_complete = False
        self._has_news = True
        self._rate_limiter = UpdateRateLimiter()

    def note_news(self) -> None:
        """Make the next `update` assemble a configuration."""
        self._has_news = True

    def note_state(self, key: Hashable, state: ResourceUpdate) -> None:
        """Note the state of a resource or a name."""
        if key in self._watches:
            self._known[key] = state

    def update(self, now: float) -> float:
        """Assemble a configuration if there is news. Return when to try again: `inf` for not before there is news."""
        if not self._has_news:
            return math.inf
        if self._rate_limiter.ready_at(now) > now:
            return self._rate_limiter.ready_at(now)
        self._has_news = False
        assembly = self._assemble(self._known)
        # An incomplete walk visits fewer resources, but the clusters in force are held, and so stay watched.
        self._watch_exactly(assembly.visited | self._kept_without_routes(assembly))
        self._awaited = assembly.awaited
        if self._mirrors is not None:
            self._mirrors = assembly.mirrors
        self._is_complete = assembly.outcome is not None
        # A74: a configuration comes into force complete or not at all. Until then the one before it is used.
        if assembly.outcome is not None:
            self._last_clusters = assembly.outcome.clusters
            newest: XdsConfig | ConfigError | None = self._with_held(assembly.outcome)
        else:
            newest = self._newest_with_present_errors()
        # Only a change takes a token of the rate limiter: resources may be sent again without one.
        if newest != self.newest:
            self._rate_limiter.take(now)
            self.newest = newest
        return math.inf

    def _newest_with_present_errors(self) -> XdsConfig | ConfigError | None:
        if self.newest is None:
            return None
        return structs.replace(self.newest, clusters=self._with_present_errors(self.newest.clusters))

    def _with_held(self, config: XdsConfig | ConfigError) -> XdsConfig | ConfigError:
        """Return the configuration with all held clusters.

        Without routes a held cluster may be incomplete: then it keeps what it had.
        """
        incomplete = self._held.keys() - config.clusters.keys()
        if not incomplete:
            return config
        assert self.newest is not None  # only a cluster of a configuration is ever held
        kept = {name: self.newest.clusters[name] for name in incomplete}
        return structs.replace(config, clusters={**config.clusters, **self._with_present_errors(kept)})

    def _with_present_errors(self, clusters: Mapping[str, ClusterResult]) -> Mapping[str, ClusterResult]:
        if not any(map(may_fail_rpcs, clusters.values())):
            return clusters
        # This yields the clusters as if all awaited resources were in error.
        errors = {key: ResourceUpdate(error=unavailable(self._describe_resource(*key))) for key in self._awaited}
        present = self._assemble(ChainMap(errors, self._known)).outcome
        assert present is not None
        return {
            name: with_present_errors(result, present.clusters) if may_fail_rpcs(result) else result
            for name, result in clusters.items()
        }

    def _assemble(self, known: Known) -> Assembly:
        return assemble(known, *self._target, self._held, self._last_clusters, self._mirrors)

    @property
    def describe_pending(self) -> str:
        """Describe what the next configuration waits for, or that it has come."""
        if self._is_complete:  # the policies have not decided yet
            return "it has come, and is about to be in force"
        shown = [self._describe_resource(kind, name) for kind, name in self._awaited[:MAX_SHOWN]]
        # The text ends up in the status of RPCs, so it has a bound.
        more = len(self._awaited) - len(shown)
        return "; ".join([*shown, f"and {more} more"] if more else shown)

    def error(self) -> Status:
        """Return the reason why there are no routes now. The error that is in force may be over."""
        if isinstance(self.newest, XdsConfig):
            return unavailable("a complete configuration has come and is about to be in force")
        if self.newest is None or not self._is_complete:
            return unavailable(self.describe_pending)
        return self.newest.status

    def _describe_resource(self, kind: str, name: str) -> str:
        if kind == "DNS":
            return f'DNS name "{name}": it is being looked up'
        return self._source.describe_pending(_TYPES[kind], name)

    def _kept_without_routes(self, assembly: Assembly) -> frozenset[Key]:
        """Return the resources to watch on while the listener or the routes are in error, until others are complete.

        The routes will be back, and without a watch the xDS client would forget what it has: a resource whose newest
        version was rejected could not be used any more (A46), and all others would have to be requested again.
        """
        outcome = assembly.outcome or self.newest
        if not isinstance(outcome, ConfigError):
            return frozenset()
        # A listener in force says which routes it has, so only without one those of before are kept.
        has_listener = any(kind == "RDS" for kind, _ in assembly.visited)
        return frozenset(key for key in self._watches if key[0] != "RDS" or not has_listener)

    def _watch_exactly(self, wanted: frozenset[Key]) -> None:
        # In the order of the watches: a set's is another one in each process, and a simulation has to be the same.
        for key in [key for key in self._watches if key not in wanted]:
            self._watches.pop(key).cancel()
            self._known.pop(key, None)
        # The xDS protocol advises clusters before endpoints; many servers answer in the order of the requests.
        for key in sorted(wanted - self._watches.keys(), key=lambda key: (_ORDER.index(key[0]), key[1])):
            self._watches[key] = self._watch(*key)

    def _watch(self, kind: str, name: str) -> Watch:
        if kind == "DNS":
            return self._names.watch(name, self._queue, (kind, name))
        return self._source.watch(_TYPES[kind], name, self._queue, (kind, name))

    def close(self) -> None:
        """Cancel all watches."""
        self._watch_exactly(frozenset())


class UpdateRateLimiter:
    """A bucket of `BURST` tokens for changes of the configuration, which gets one more every `INTERVAL`.

    Each change is a step of the whole tree, and a control plane that sends changes without end must not take the time
    of the RPCs. Nothing is lost in between, since only the newest configuration counts.
    """

    def __init__(self) -> None:
        # The time at which the bucket is full again tells its level, so no timer has to refill it.
        self._full_at = 0.0

    def ready_at(self, now: float) -> float:
        """Return when the next change may be made: `now` or later."""
        return max(now, self._full_at - (BURST - 1) * INTERVAL)

    def take(self, now: float) -> None:
        """Take the token of one change."""
        self._full_at = max(self._full_at, now) + INTERVAL
