"""From resources to a data plane: one task, one mailbox, newest snapshot wins.

A selector may not be used before a picker that knows its clusters (A31). So a snapshot becomes
a route table, and entries of the clusters with a generation number, and selector and picker are
published together once the root has answered that generation. A root's answer is a decision and
never a connection, so this takes moments, whatever the hosts do. What the policies make of an
entry is theirs to know (A74).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from operator import is_
from random import Random
from typing import Any, Protocol

import trio

from trxds.ground.channels import Mailbox
from trxds.ground.standing import Standing
from trxds.ground.status import Status, unavailable

from .chains import MakeChain
from .clusters import Clusters, RouteTable
from .dns import LookUp, Names
from .limits import Limits, final_limit
from .meanwhile import is_troubled, up_to_date
from .pace import Pace
from .routes import BoundRoutes
from .select import ConfigSelector, ErrorSelector, Selector
from .snapshot import ClusterEntry, ClusterOutcome, ConfigError, Missing, XdsConfig, can_serve
from .watcher import Source, Watcher

_log = logging.getLogger("trxds.config")


class RootReport(Protocol):
    """What the root node tells, as far as the resolver reads it."""

    @property
    def picker(self) -> Any: ...
    @property
    def generation(self) -> int: ...


class Changing(Protocol):
    """The pool: between these two it retires no host, so one that moves keeps its connection."""

    def begin_change(self) -> None: ...
    def end_change(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Downstream:
    """What a resolver drives; all plain functions. `configure` takes what it has resolved, with a generation number."""

    configure: Callable[[Any, int], object]
    publish: Callable[[Selector, Any], object]
    make_chain: MakeChain
    pool: Changing
    limits: Limits = final_limit


@dataclass(frozen=True, slots=True)
class _Pending:
    selector: Selector
    generation: int


class Resolver:
    """`mailbox` takes the resources' letters, the root's reports as "root", and clusters' ends."""

    lost = None  # a cluster with a DNS name says so by itself

    def __init__(
        self,
        source: Source,
        look_up: LookUp,
        listener: str,
        authority: str,
        downstream: Downstream,
        random: Random,
    ) -> None:
        self.mailbox: Mailbox[Any] = Mailbox()
        self._source = source
        self._look_up = look_up
        self._target = listener, authority
        self._downstream = downstream
        self._random = random
        self._channel_id = random.getrandbits(64)
        self._tables = count(1)
        self._pace = Pace()
        self._unseen = True  # there is news that the newest snapshot does not have
        self._missing: Missing | None = None  # what the newest snapshot lacks
        self._newest: XdsConfig | ConfigError | None = None
        self._selected: XdsConfig | ConfigError | None = None  # what the newest selector was made from
        self._selector: Selector | None = None  # the one in force
        self._pending: _Pending | None = None
        self._begun: tuple[object, ...] = (None, None, None)  # what the newest root was made from
        self._sent: Mapping[str, ClusterEntry] | None = None  # to the root
        self._generation = 0
        self._report: RootReport | None = None
        self._tree_is_new = False

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._clusters = Clusters(nursery, self.mailbox)
                self._names = Names(nursery, self._look_up, self._random)
                self._watcher = Watcher(self._source, self._names, self.mailbox, *self._target)
                while True:
                    look_at = self._look()
                    self._begin()
                    self._unseen |= self._read(await self.mailbox.next(look_at))
                    self._settle()
        finally:
            self.mailbox.close()
            self._watcher.close()

    def resolve_again(self, name: str) -> None:
        """A policy of the tree thinks that the addresses of this DNS name are out of date. Plain."""
        self._names.resolve_again(name)

    @property
    def awaited(self) -> str:
        """What the next configuration waits for, in words; empty if for nothing that is known."""
        return self._watcher.awaited(self._missing) if self._missing is not None else ""

    def _error_now(self) -> Status:
        """Return why there are no routes, for as long as none are in force: the error in force may be over."""
        if isinstance(self._newest, XdsConfig):
            return unavailable("a complete configuration has come and is about to be in force")
        if self._missing is not None or self._newest is None:
            return unavailable(self.awaited)
        return self._newest.status

    def begin_anew(self) -> None:
        """The tree is another one and knows nothing: it gets the newest there is. Plain."""
        self._report, self._tree_is_new = None, True
        if self._pending is not None:  # nobody was there to answer it
            self._downstream.pool.end_change()
            if self._pending.selector is not self._selector:
                _release(self._pending.selector)
                self._selected = None
            self._pending = None
        self._names.resolve_all_again()  # nobody has seen for long whether their addresses are good
        self.mailbox.put("tree", None)

    def _read(self, letters: Mapping[Hashable, Any]) -> bool:
        """True if anything but the tree has changed."""
        for sender, letter in letters.items():
            if sender == "root":
                self._report = letter
                if self._selector is not None:
                    self._downstream.publish(self._selector, letter.picker)
            elif sender not in ("clusters", "tree"):
                self._watcher.take(sender, letter)
        return letters.keys() != {"root"}

    def _look(self) -> float:
        """See what has changed, or say when it is time to."""
        now = trio.current_time()
        if not self._unseen:
            return math.inf
        if self._pace.ready_at(now) > now:
            return self._pace.ready_at(now)
        self._unseen = False
        outcome = self._watcher.look(self._clusters.alive)
        self._missing = outcome if isinstance(outcome, Missing) else None
        newest = self._in_force_meanwhile() if isinstance(outcome, Missing) else self._with_held(outcome)
        if newest != self._newest:
            self._pace.take(now)
            self._newest = newest
        return math.inf

    def _in_force_meanwhile(self) -> XdsConfig | ConfigError | None:
        newest = self._newest
        return replace(newest, clusters=self._up_to_date(newest.clusters)) if newest is not None else None

    def _with_held(self, config: XdsConfig | ConfigError) -> XdsConfig | ConfigError:
        """Without routes a held cluster may be in the middle of a change: it keeps what it had."""
        incomplete = self._clusters.alive.keys() - config.clusters.keys()
        if not incomplete:
            return config
        assert self._sent is not None
        had = {name: self._sent[name].cluster for name in incomplete}
        return replace(config, clusters={**config.clusters, **self._up_to_date(had)})

    def _up_to_date(self, clusters: Mapping[str, ClusterOutcome]) -> Mapping[str, ClusterOutcome]:
        if not any(map(is_troubled, clusters.values())):
            return clusters
        present = self._watcher.present(self._clusters.alive)
        return {name: up_to_date(its, present) if is_troubled(its) else its for name, its in clusters.items()}

    def _settle(self) -> None:
        pending, report = self._pending, self._report
        if pending is not None and report is not None and report.generation >= pending.generation:
            self._pending = None
            self._downstream.pool.end_change()
            self._adopt(pending.selector, report)

    def _begin(self) -> None:
        """Turn the newest snapshot into a generation, unless one is still on its way."""
        if self._pending is not None or self._newest is None:
            return
        selector = self._next_selector(self._newest)
        begun = self._newest, selector, self._selector
        if all(map(is_, begun, self._begun)) and not self._tree_is_new:
            return  # only the tree has had news
        self._begun = begun
        entries = self._entries(self._newest, selector)
        if entries != self._sent or self._tree_is_new:
            self._sent, self._tree_is_new = entries, False
            self._generation += 1
            self._pending = _Pending(selector, self._generation)
            self._downstream.pool.begin_change()
            self._downstream.configure(entries, self._generation)
        elif selector is not self._selector:
            # The tree has nothing to do for it, so its last picker is the answer.
            assert self._report is not None
            self._adopt(selector, self._report)

    def _adopt(self, selector: Selector, report: RootReport) -> None:
        old, self._selector = self._selector, selector
        self._downstream.publish(selector, report.picker)
        if old is not None and old is not selector:
            _release(old)

    def _next_selector(self, config: XdsConfig | ConfigError) -> Selector:
        """The one in force if it would come out the same, otherwise a new one with its route table."""
        if self._selector is not None and self._selected is not None and _same_routing(self._selected, config):
            return self._selector
        self._selected = config
        if isinstance(config, ConfigError):
            _log.warning("no routes: %s", config.status.message)
            return ErrorSelector(config.status, self._error_now)
        make_chain, limits = self._downstream.make_chain, self._downstream.limits
        routes = BoundRoutes(config.listener, config.virtual_host, make_chain, limits, config.routes_standing)
        self._warn_of(routes)
        table = RouteTable(next(self._tables), sorted(routes.clusters), self._clusters, self._nursery)
        return ConfigSelector(routes, table, self._random, self._channel_id)

    def _warn_of(self, routes: BoundRoutes) -> None:
        """Once per change: what other routes bring along unchanged is no news."""
        before = self._selector.routes.misplaced if isinstance(self._selector, ConfigSelector) else ()
        for each, warning in zip(routes.misplaced, routes.warnings, strict=True):
            if each not in before:
                _log.warning("%s", warning)

    def _entries(self, config: XdsConfig | ConfigError, selector: Selector) -> Mapping[str, ClusterEntry]:
        """An entry for every cluster alive: those of the routes, and those still held."""
        # Until the new selector is in force RPCs are still routed by the one before it.
        routed = self._routed(selector) | (self._routed(self._selector) if self._selector else frozenset())
        clusters = {name: config.clusters[name] for name in self._clusters.alive}
        return {
            name: self._entry(name, its, name not in routed and not can_serve(its)) for name, its in clusters.items()
        }

    def _entry(self, name: str, cluster: ClusterOutcome, given_up: bool) -> ClusterEntry:
        """The same object as long as it would say the same: it is compared at once."""
        sent = self._sent.get(name) if self._sent is not None else None
        return sent if sent is not None and sent.says(cluster, given_up) else ClusterEntry(cluster, given_up)

    def _routed(self, selector: Selector) -> frozenset[str]:
        # Without routes nobody can tell what is not routed any more.
        return selector.table.clusters if isinstance(selector, ConfigSelector) else frozenset(self._clusters.alive)


def _release(selector: Selector) -> None:
    if isinstance(selector, ConfigSelector):
        selector.table.lifetime.maker.release()


def _same_routing(one: XdsConfig | ConfigError, other: XdsConfig | ConfigError) -> bool:
    if isinstance(one, XdsConfig) and isinstance(other, XdsConfig):
        # Since when is of no account: a resource may come anew with our part of it unchanged.
        return (
            one.listener == other.listener
            and one.virtual_host == other.virtual_host
            and (
                one.routes_standing is other.routes_standing
                or _where(one.routes_standing) == _where(other.routes_standing)
            )
        )
    return isinstance(one, ConfigError) and isinstance(other, ConfigError) and one.status == other.status


def _where(standing: Standing | None) -> str:
    return standing.where if standing is not None else ""
