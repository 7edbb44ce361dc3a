"""Many resources become one configuration, computed anew from everything known (A74).

The walk begins at the listener and visits the resources that it needs; these have to be watched. The result is a
complete configuration, an error, or the names that are still missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from msgspec import Struct, structs

from trxds.core.resource_status import ResourceStatus, resource_error
from trxds.core.resource_update import ResourceUpdate
from trxds.core.status import Status
from trxds.resources.cluster import Cluster
from trxds.resources.discovery import Aggregate, Eds, LogicalDns
from trxds.resources.endpoint import ClusterLoadAssignment, Endpoint, Locality, LocalityId
from trxds.resources.leaf_policy import LbPolicyConfig
from trxds.resources.listener import Listener
from trxds.resources.route import RouteConfig, VirtualHost, find_virtual_host
from trxds.resources.validation_errors import MAX_SIZE, first_errors

from .snapshot import AggregateConfig, ClusterConfig, ClusterError, ClusterResult, ConfigError, XdsConfig

Key: TypeAlias = tuple[str, str]  # kind ("LDS", "RDS", "CDS", "EDS", "DNS") and name
Known: TypeAlias = Mapping[Key, ResourceUpdate]

MAX_DEPTH = 16  # levels; the root is at 0


NOTHING: Mapping[str, ClusterResult] = MappingProxyType({})


class Assembly(Struct, frozen=True):
    """The result of a walk: `visited` are the resources to watch from now on; `awaited` have not come yet.

    `outcome` is None if the configuration cannot be complete without them. `mirrors` are the clusters that get copies
    of calls and are needed for nothing else.
    """

    outcome: XdsConfig | ConfigError | None
    visited: frozenset[Key]
    awaited: tuple[Key, ...] = ()
    mirrors: frozenset[str] = frozenset()


def assemble(
    known: Known,
    listener: str,
    authority: str,
    held: Iterable[str],
    before: Mapping[str, ClusterResult] = NOTHING,
    mirrors: frozenset[str] | None = None,
) -> Assembly:
    """Compute the configuration of a target from `known`; `held` are clusters that RPCs or route tables still need.

    A cluster that is equal to its entry in `before` is the same object. So a thousand clusters, of which one has
    changed, are compared fast by the policies. `mirrors` are those of the assembly before; None is a channel that does
    not mirror.
    """
    walk = _Walk(known, before)
    routing = walk.routing(listener, authority)
    # A31: clusters that only an RPC or an older table still needs stay in the configuration.
    names = set(held)
    optional = names & (mirrors or frozenset())
    if isinstance(routing, _Routing):
        if mirrors is not None:
            optional |= routing.host.mirror_clusters
        optional -= routing.host.clusters
        names |= routing.host.clusters
    # Sorted, so that resources are requested in the same order in each run.
    for name in sorted(names - optional):
        walk.cluster(name)
    # Last: a resource that a cluster above misses too is missing already, and `optional_cluster` leaves it so.
    for name in sorted(optional):
        walk.optional_cluster(name)
    return Assembly(walk.result(routing), frozenset(walk.visited), tuple(walk.missing), frozenset(optional))


class _Routing(Struct, frozen=True):
    """A listener with the virtual host of the target; `standing` is the status of the resource that has the routes."""

    listener: Listener
    host: VirtualHost
    standing: ResourceStatus


class _Walk:
    """One walk, which notes the resources that it visits and misses. None means: not known yet."""

    def __init__(self, known: Known, before: Mapping[str, ClusterResult]) -> None:
        self._known = known
        self._before = before
        self.visited: set[Key] = set()
        self.missing: list[Key] = []
        self.outcomes: dict[str, ClusterResult] = {}

    def _lookup(self, kind: str, name: str) -> ResourceUpdate | None:
        key = (kind, name)
        state = self._known.get(key)
        # Each missing resource is listed once, although several clusters may share an EDS resource.
        if state is None and key not in self.visited:
            self.missing.append(key)
        self.visited.add(key)
        return state

    def routing(self, name: str, authority: str) -> _Routing | Status | None:
        state = self._lookup("LDS", name)
        if state is None:
            return None
        if state.error is not None:
            return state.error
        listener = state.value
        assert isinstance(listener, Listener)
        standing = state.standing or ResourceStatus("LDS", name)
        # A74: this error leaves the channel without routes. The resource stays watched, since a valid one may follow.
        if not listener.api:
            return resource_error(standing, "it is no API listener; a client needs one with `api_listener` set")
        # A27: routes may be inline, and then there is no RDS resource to watch.
        if listener.route_config is not None:
            return _find_routing(listener, listener.route_config, authority, standing)
        return self._routes(listener, listener.rds_name or "", authority)

    def _routes(self, listener: Listener, name: str, authority: str) -> _Routing | Status | None:
        state = self._lookup("RDS", name)
        if state is None:
            return None
        if state.error is not None:
            return state.error
        assert isinstance(state.value, RouteConfig)
        return _find_routing(listener, state.value, authority, state.standing or ResourceStatus("RDS", name))

    def result(self, routing: _Routing | Status | None) -> XdsConfig | ConfigError | None:
        """Return the result of the walk to the clusters of that routing; None while resources are missing."""
        # Before the missing resources: without routes no new RPC reaches a cluster, so the error need not wait for any.
        if isinstance(routing, Status):
            return ConfigError(routing, self.outcomes)
        if routing is None or self.missing:
            return None
        return XdsConfig(routing.listener, routing.host, self.outcomes, routing.standing)

    # -- clusters

    def cluster(self, name: str) -> ClusterResult | None:
        """Return the result of a cluster, computed once even if the cluster is routed to and part of aggregates."""
        outcome = self.outcomes.get(name) or self._cluster(name)
        if outcome is not None:
            self.outcomes[name] = outcome
        return outcome

    def optional_cluster(self, name: str) -> None:
        """Visit a cluster that gets copies of calls: while it is incomplete it keeps what it had, or is in error.

        Calls must not wait for it, so none of its resources is missing.
        """
        missing = len(self.missing)
        if self.cluster(name) is None:
            del self.missing[missing:]
            text = "its resources have not come yet; until then no calls are copied to it"
            error = resource_error(ResourceStatus("CDS", name), text)
            before = self._before.get(name)
            self.outcomes[name] = ClusterError(name, error) if before is None else before

    def _cluster(self, name: str) -> ClusterResult | None:
        state = self._lookup("CDS", name)
        if state is None:
            return None
        if state.error is not None:
            return ClusterError(name, state.error)
        cluster = state.value
        assert isinstance(cluster, Cluster)
        standing = state.standing
        match cluster.discovery:
            case Eds(resource_name):
                return self._with_endpoints(cluster, resource_name, standing)
            case LogicalDns() as dns:
                return self._with_addresses(cluster, dns.name, standing)
            case Aggregate() as aggregate:
                return self._aggregate(standing or ResourceStatus("CDS", name), aggregate.lb_policy)
            case _ as never:
                assert_never(never)

    def _with_endpoints(self, cluster: Cluster, name: str, standing: ResourceStatus | None) -> ClusterConfig | None:
        state = self._lookup("EDS", name)
        if state is None:
            return None
        if state.error is not None:
            # A74: an EDS error leaves the cluster without endpoints, with a note; it is not a cluster in error.
            return ClusterConfig(cluster, None, state.error.message, standing)
        assert isinstance(state.value, ClusterLoadAssignment)
        before = self._before.get(cluster.name)
        # Compared by identity, which is fast: the xDS client returns the same object for the same bytes.
        if isinstance(before, ClusterConfig) and before.cluster is cluster and before.endpoints is state.value:
            return before
        return ClusterConfig(cluster, state.value, "", standing, state.standing)

    def _with_addresses(self, cluster: Cluster, name: str, standing: ResourceStatus | None) -> ClusterConfig | None:
        state = self._lookup("DNS", name)
        if state is None:
            return None
        if state.error is not None:
            # A74: like an EDS error, a DNS error leaves the cluster without endpoints, with a note.
            note = resource_error(standing, state.error.message).message
            return ClusterConfig(cluster, None, note, standing)
        assert isinstance(state.value, tuple)
        if not state.value:
            return ClusterConfig(
                cluster, None, resource_error(standing, f'DNS name "{name}" has no addresses').message, standing
            )
        # A61: all addresses of a name are one endpoint. A81: its host name is the name with the port.
        locality = Locality(LocalityId(), 1, (Endpoint(state.value, hostname=name),))
        return ClusterConfig(cluster, ClusterLoadAssignment(name, ((locality,),)), "", standing)

    def _aggregate(
        self, standing: ResourceStatus, lb_policy: LbPolicyConfig | None
    ) -> AggregateConfig | ClusterError | None:
        root = standing.name
        names = flatten(root, self._aggregate_parts)
        if names is None:
            return _cluster_error(standing, f"it is nested more than {MAX_DEPTH - 1} aggregate clusters deep")
        # All parts are visited before any is missed, or their endpoints would be requested one after the other.
        found = [self.cluster(name) for name in names]
        # A74: the aggregate waits for every part, or a slow one would be skipped as if it did not exist.
        if None in found:
            return None
        # A74: a part that does not exist or is in error does not fail the others.
        errors = [part for part in found if isinstance(part, ClusterError)]
        note = "; ".join(first_errors((error.status.message for error in errors), len(errors), MAX_SIZE))
        leaves = tuple(_with_policy(part, lb_policy) for part in found if isinstance(part, ClusterConfig))
        if not leaves:
            return _cluster_error(standing, f"its aggregate cluster graph has no leaf clusters{note and f' ({note})'}")
        return AggregateConfig(root, leaves, note, tuple(error.name for error in errors))

    def _aggregate_parts(self, name: str) -> tuple[str, ...] | None:
        """Return the clusters of an aggregate; None for any other cluster and for one that is not known yet."""
        state = self._lookup("CDS", name)
        if state is None or not isinstance(state.value, Cluster):
            return None
        discovery = state.value.discovery
        return discovery.clusters if isinstance(discovery, Aggregate) else None


def flatten(root: str, parts_of: Callable[[str], tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the clusters under `root` that are no aggregates, the most preferred first; None if any is too deep.

    `parts_of` returns the parts of an aggregate, and None for any other cluster. The walk is depth-first. A cluster
    that comes up again is skipped, so its first position counts, and a loop ends (A37, A74).
    """
    leaves: list[str] = []
    seen: set[str] = set()  # of this root alone: another root may have the same leaf
    todo = [(root, 0)]
    while todo:
        name, depth = todo.pop()
        # A37: a branch that is too deep fails the whole root, not that branch alone.
        if depth == MAX_DEPTH:
            return None
        if name in seen:
            continue
        seen.add(name)
        parts = parts_of(name)
        if parts is None:
            leaves.append(name)
        else:
            # A37: depth first, in the order of each list; reversed, because the stack returns the last one first.
            todo.extend((part, depth + 1) for part in reversed(parts))
    return tuple(leaves)


def _find_routing(
    listener: Listener, routes: RouteConfig, authority: str, standing: ResourceStatus
) -> _Routing | Status:
    host = find_virtual_host(routes.virtual_hosts, authority)
    if host is None:
        remedy = "add that domain to one of its virtual hosts"
        return resource_error(standing, f'it has no virtual host for "{authority}"; {remedy}')
    return _Routing(listener, host, standing)


def _cluster_error(standing: ResourceStatus, reason: str) -> ClusterError:
    return ClusterError(standing.name, resource_error(standing, reason))


def _with_policy(leaf: ClusterConfig, imposed: LbPolicyConfig | None) -> ClusterConfig:
    # Before A75 the aggregate's policy balanced its leaves; the context says whether it still does.
    return leaf if imposed is None else structs.replace(leaf, cluster=structs.replace(leaf.cluster, lb_policy=imposed))
