"""The resolver of xDS targets: one task turns resources into selector and picker (A31, A74).

A selector may not be used before a picker that knows its clusters (A31). So a configuration becomes a route table and
the entries of the clusters, which have a generation number. Selector and picker are published together once the root
has answered that generation. The root's answer is a decision and never a connection, so this takes moments, whatever
the hosts do. The policies decide what an entry means (A74).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from random import Random
from typing import Any, TypeAlias, assert_never

import trio
from msgspec import Struct

from trxds.core.conflating_queue import ConflatingQueue
from trxds.core.status import Status

from .clusters import Clusters
from .config_selector import ConfigSelector, ErrorSelector, Selector
from .dependency_manager import DependencyManager, Source
from .dns_resolver import DnsResolver, Resolve
from .resolver_result_handler import ResolverResultHandler, RootReport
from .routes import BoundRoutes
from .snapshot import ClusterEntry, ClusterResult, ConfigError, XdsConfig, can_serve

_log = logging.getLogger("trxds.resolver")


class Routing(Struct, frozen=True):
    """One version of the routes. It holds their clusters until it is released (A31, A60)."""

    config: XdsConfig | ConfigError
    selector: Selector

    def has_routes_of(self, config: XdsConfig | ConfigError) -> bool:
        """Return whether a selector made from `config` would do the same."""
        mine = self.config
        if isinstance(mine, XdsConfig) and isinstance(config, XdsConfig):
            # Only `where` counts: a resource may come anew with this virtual host unchanged.
            return (
                mine.listener == config.listener
                and mine.virtual_host == config.virtual_host
                and mine.routes_standing.where == config.routes_standing.where
            )
        return isinstance(mine, ConfigError) and isinstance(config, ConfigError) and mine.status == config.status

    def clusters_among(self, alive: Iterable[str]) -> frozenset[str]:
        """Return the clusters that a route may name.

        Without routes that is all of them: nobody can say which are unused.
        """
        return self.selector.table.clusters if isinstance(self.selector, ConfigSelector) else frozenset(alive)

    def release(self) -> None:
        """Release the clusters that nothing else holds."""
        if isinstance(self.selector, ConfigSelector):
            self.selector.table.lifetime.initial_hold.release()


class Waiting(Struct, frozen=True):
    """The state before the tree got a configuration: it is new, because the channel is, or because it was idle."""

    in_force: Routing | None = None


class Settling(Struct, frozen=True):
    """The state while the tree decides on a generation. Until it answers, RPCs use the routes before it (A31)."""

    in_force: Routing | None
    generation: int
    config: XdsConfig | ConfigError
    routing: Routing


class Serving(Struct, frozen=True):
    """The state in which routes and picker are in force together.

    `config` is the newest configuration, if the tree need not get it.
    """

    in_force: Routing
    report: RootReport
    config: XdsConfig | ConfigError | None


Stage: TypeAlias = Waiting | Settling | Serving


class XdsResolver:
    """The resolver of one target.

    `queue` gets the resources' states, the root's reports as "root", and clusters' ends.
    """

    request_re_resolution = None  # policies of LOGICAL_DNS clusters call `re_resolve`

    def __init__(
        self,
        source: Source,
        look_up: Resolve,
        listener: str,
        authority: str,
        result_handler: ResolverResultHandler,
        random: Random,
    ) -> None:
        self.queue: ConflatingQueue[Any] = ConflatingQueue()
        self._source = source
        self._look_up = look_up
        self._target = listener, authority
        self._result_handler = result_handler
        self._random = random
        self._stage: Stage = Waiting()
        self._sent: Mapping[str, ClusterEntry] = {}  # the entries that the root has
        self._generation = 0
        self._dependencies: DependencyManager | None = None  # None until `run`

    async def run(self) -> None:
        """Run the resolver until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._clusters = Clusters(nursery, self.queue)
                self._names = DnsResolver(nursery, self._look_up, self._random)
                dependencies = self._dependencies = DependencyManager(
                    self._source,
                    self._names,
                    self.queue,
                    *self._target,
                    self._clusters.alive,
                    self._result_handler.bind_mirrors is not None,
                )
                self._channel_id = self._random.getrandbits(64)
                while True:
                    deadline = dependencies.update(trio.current_time())
                    # In every round: a report may have ended the generation that a newer configuration waited for.
                    self._start_generation(dependencies.newest)
                    self._handle_messages(await self.queue.next(deadline), dependencies)
        finally:
            self.queue.close()
            if self._dependencies is not None:
                self._dependencies.close()

    def re_resolve_all(self) -> None:
        """Resolve the names of all clusters again soon."""
        self._names.re_resolve_all()

    def re_resolve(self, name: str) -> None:
        """Resolve this DNS name again soon: a policy found its addresses out of date."""
        self._names.re_resolve(name)

    @property
    def describe_pending(self) -> str:
        """Describe what the next configuration waits for, or that it has come; the text is empty before `run`."""
        return self._dependencies.describe_pending if self._dependencies is not None else ""

    def pause(self) -> None:
        """Do nothing: the watches stay while the channel is IDLE."""

    def reset(self) -> None:
        """Configure a new tree, which knows nothing, with the newest configuration."""
        stage = self._stage
        if isinstance(stage, Settling):  # the old tree ended before it answered
            self._result_handler.pool.end_update()
            # These routes never came into force, and nothing else would release the clusters that they hold.
            if stage.routing is not stage.in_force:
                stage.routing.release()
        self._stage = Waiting(stage.in_force)
        self._names.re_resolve_all()  # an idle channel does not notice addresses that went bad
        self.queue.put("tree", None)

    def _handle_messages(self, messages: Mapping[Hashable, Any], dependencies: DependencyManager) -> None:
        for sender, message in messages.items():
            if sender == "root":
                self._on_report(message)
            elif sender not in ("clusters", "tree"):
                dependencies.note_state(sender, message)
        # Reports of hosts are frequent and change no configuration, so they alone assemble nothing.
        if messages.keys() != {"root"}:
            dependencies.note_news()

    def _on_report(self, report: RootReport) -> None:
        match self._stage:
            case Settling(in_force, generation, config, routing) if report.generation >= generation:
                self._result_handler.log.config_in_force(config)
                # A31: routes come into force together with a picker that has their clusters, or RPCs would fail.
                self._result_handler.pool.end_update()
                # If only the old routes named a cluster, its entry becomes `deleted`, which the tree has to get next.
                self._serve(routing, report, config if routing is in_force else None)
                # A31: only the resolver's own hold ends; RPCs that have chosen by the old routes hold their table.
                if in_force is not None and in_force is not routing:
                    in_force.release()
            case Waiting(in_force) | Settling(in_force):
                # A change of hosts concerns the routes in force too; the picker still has their clusters.
                if in_force is not None:
                    self._result_handler.publish(in_force.selector, report)
            case Serving(in_force, _, config):
                self._serve(in_force, report, config)
            case _ as never:
                assert_never(never)

    def _serve(self, routing: Routing, report: RootReport, config: XdsConfig | ConfigError | None) -> None:
        self._stage = Serving(routing, report, config)
        self._result_handler.publish(routing.selector, report)

    def _start_generation(self, newest: XdsConfig | ConfigError | None) -> None:
        """Turn the newest configuration into a generation, unless one is still on its way."""
        stage = self._stage
        if newest is None or isinstance(stage, Settling):
            return
        if isinstance(stage, Serving) and stage.config is newest:
            return  # only the tree has changed
        routing = self._make_routing(newest, stage.in_force)
        entries = self._entries(newest, routing, stage.in_force)
        if isinstance(stage, Waiting) or entries != self._sent:
            self._sent = entries
            self._generation += 1
            self._stage = Settling(stage.in_force, self._generation, newest, routing)
            # A host that moves to another policy is released before it is acquired, and must not be closed in between.
            self._result_handler.pool.begin_update()
            self._result_handler.configure(entries, self._generation)
            return
        self._result_handler.log.config_in_force(newest)
        if routing is stage.in_force:
            self._stage = Serving(routing, stage.report, newest)
        else:  # no entry changed, so the tree need not decide and its last picker fits
            self._serve(routing, stage.report, None)
            stage.in_force.release()
            # The recursion ends there: the routes are those in force by now.
            self._start_generation(newest)  # a cluster that only the old routes named may be `deleted` now

    def _make_routing(self, config: XdsConfig | ConfigError, in_force: Routing | None) -> Routing:
        """Return the routing in force if it does what `config` says, otherwise one with a route table of its own."""
        if in_force is not None and in_force.has_routes_of(config):
            return in_force
        if isinstance(config, ConfigError):
            _log.warning("no routes: %s", config.status.message)
            return Routing(config, ErrorSelector(self._no_routes_error))
        handler, host = self._result_handler, config.virtual_host
        names, bind = host.clusters, handler.bind_mirrors
        if bind is not None:
            names |= host.mirror_clusters
        # The new table holds its clusters before the old one is released, so those that are in both live on.
        table = self._clusters.route_table(sorted(names))
        mirror = (lambda policies: bind(policies, table.find_cluster)) if bind is not None else None
        routes = BoundRoutes(config.listener, host, handler.make_chain, handler.limits, config.routes_standing, mirror)
        # RPCs are made in spite of such a mistake, so without this log nobody would notice it.
        _log_warnings(routes, in_force)
        return Routing(config, ConfigSelector(routes, table, self._random, self._channel_id))

    def _no_routes_error(self) -> Status:
        assert self._dependencies is not None  # a routing is made in `run` only
        return self._dependencies.error()

    def _entries(
        self, config: XdsConfig | ConfigError, routing: Routing, in_force: Routing | None
    ) -> Mapping[str, ClusterEntry]:
        """Return an entry for every cluster alive: those of the routes, and those still held."""
        alive = self._clusters.alive
        # RPCs use the old routes until the new ones are in force.
        routed = routing.clusters_among(alive) | (in_force.clusters_among(alive) if in_force else frozenset())
        # A60: a cookie may name any cluster of a table that an RPC holds, so all held clusters stay in the tree.
        return {name: self._entry(name, config.clusters[name], name in routed) for name in alive}

    def _entry(self, name: str, cluster: ClusterResult, is_routed: bool) -> ClusterEntry:
        """Return the cluster's entry, the same object while it is equal: entries are compared by identity."""
        deleted = not is_routed and not can_serve(cluster)
        sent = self._sent.get(name)
        # By identity: an unchanged cluster is the same object, and to compare ten thousand endpoints takes long.
        if sent is not None and sent.cluster is cluster and sent.deleted is deleted:
            return sent
        return ClusterEntry(cluster, deleted)


def _log_warnings(routes: BoundRoutes, in_force: Routing | None) -> None:
    """Log the mistakes that the routes in force did not have, so that unchanged ones are not logged again."""
    selector = in_force.selector if in_force is not None else None
    before = selector.routes.mistakes if isinstance(selector, ConfigSelector) else ()
    for each, warning in zip(routes.mistakes, routes.warnings, strict=True):
        if each not in before:
            _log.warning("%s", warning)
