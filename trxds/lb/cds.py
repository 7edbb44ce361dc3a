"""cds turns one cluster of the control plane into a subtree (A37, A75), or into a failure with the reason.

An aggregate becomes a failover over its clusters, and each of those has a `cds` node too (A37).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import ClassVar, TypeAlias, assert_never

from msgspec import Struct, structs

from trxds.core.connectivity import Connectivity
from trxds.core.plural import plural
from trxds.core.status import Status
from trxds.resolver.snapshot import AggregateConfig, ClusterConfig, ClusterEntry, ClusterError, ClusterResult
from trxds.resources.discovery import LogicalDns
from trxds.resources.endpoint import HealthStatus

from .config_builder import PriorityNames, Update, build_aggregate, build_cluster
from .pick import Drop, Explainable, Fail, FixedPicker, Override, PickArgs, Picker, PickResult, TraceNote
from .policy import CONNECTING, ChannelControl, Decision, PolicyInputs

_CHILD = "cluster"
_ROUTED = TraceNote("it is there")
_UNROUTED = TraceNote("no route names it any more, so what fails there is dropped")
_Usable: TypeAlias = ClusterConfig | AggregateConfig


class Cds:
    """The cds policy; it keeps the priorities' names, so that children survive localities that move (grfc-map.md)."""

    only_child: ClassVar[str] = _CHILD

    def __init__(self, channel_control: ChannelControl, sticky_aggregates: bool = False) -> None:
        self._sticky_aggregates = sticky_aggregates
        self._names = PriorityNames()
        self._last_update: tuple[_Usable, Update] | None = None
        self._state = Connectivity.CONNECTING

    def decide(self, inputs: PolicyInputs, now: float) -> Decision:
        entry: ClusterEntry = inputs.endpoints
        cluster = entry.cluster
        if isinstance(cluster, ClusterError):
            # The subtree ends with the cluster's resource, so there are no children whose names matter.
            self._names, self._last_update = PriorityNames(), None
            picker = _error_picker(cluster, entry.deleted)
            return Decision(Connectivity.TRANSIENT_FAILURE, picker)
        report = inputs.children.get(_CHILD, CONNECTING)
        was, self._state = self._state, report.state
        below = self._build(cluster)
        picker = report.picker
        if isinstance(cluster, AggregateConfig) and cluster.note:
            picker = AggregateErrorPicker(picker, cluster.note)
        if entry.deleted:
            picker = UnroutedPicker(picker, session_hosts(cluster))
        # A DNS name is one endpoint (A61): if it fails or loses its host, the name's addresses may have changed.
        is_lost = report.state is Connectivity.TRANSIENT_FAILURE or (
            was is Connectivity.READY and report.state is not was
        )
        return Decision(
            report.state,
            picker,
            children={_CHILD: below.config},
            endpoints={_CHILD: below.endpoints},
            re_resolve=_dns_name(cluster) if is_lost else "",
            handed_on=_UNROUTED if entry.deleted else _ROUTED,
        )

    def describe(self, inputs: PolicyInputs, now: float) -> str:
        cluster: ClusterResult = inputs.endpoints.cluster
        match cluster:
            case ClusterError(name):
                return f"cluster {name} without a usable resource"
            case AggregateConfig(name, leaves, note):
                left_out = f"; left out: {note}" if note else ""
                return f"aggregate {name} of {', '.join(leaf.cluster.name for leaf in leaves)}{left_out}"
            case ClusterConfig(config, _, note):
                hosts = sum(len(locality.endpoints) for locality in chain.from_iterable(cluster.priorities))
                size = f"{plural(hosts, 'endpoint')} in {plural(len(cluster.priorities), 'priority', 'priorities')}"
                return f"cluster {config.name} with {size}" + (note and f"; {note}")
            case _ as never:
                assert_never(never)

    def _build(self, cluster: _Usable) -> Update:
        # Built once for each entry, not for each report of the child.
        if self._last_update is not None and self._last_update[0] is cluster:
            return self._last_update[1]
        if isinstance(cluster, AggregateConfig):
            plan = build_aggregate(cluster, self._sticky_aggregates)
        else:
            plan = build_cluster(cluster, self._names)
        if self._last_update is not None and plan.config == self._last_update[1].config:
            # Only endpoints have changed. With the same object no level below has to compare its configuration.
            plan = structs.replace(plan, config=self._last_update[1].config)
        self._last_update = cluster, plan
        return plan


def _error_picker(cluster: ClusterError, is_deleted: bool) -> Picker:
    if is_deleted:
        return FixedPicker(
            Drop(add_unrouted_note(cluster.status, cluster.name)), "it cannot serve and no route names it"
        )
    return FixedPicker(Fail(cluster.status), "its resource may still come")


def _dns_name(cluster: _Usable) -> str:
    """Return the DNS name to resolve again; empty for EDS, where the control plane sends changes."""
    discovery = cluster.cluster.discovery if isinstance(cluster, ClusterConfig) else None
    return discovery.name if isinstance(discovery, LogicalDns) else ""


def session_hosts(cluster: _Usable) -> frozenset[str]:
    """Return the addresses of the DRAINING endpoints that sessions may still use (A55)."""
    return frozenset(
        address
        for leaf in cluster.leaves
        if HealthStatus.DRAINING in leaf.cluster.override_statuses
        for locality in chain.from_iterable(leaf.priorities)
        for endpoint in locality.endpoints
        if endpoint.health is HealthStatus.DRAINING
        for address in endpoint.addresses
    )


def add_unrouted_note(status: Status, cluster: str) -> Status:
    """Add to `status` why even an RPC that waits for ready fails."""
    return replace(status, message=f"{status.message}; no route names cluster {cluster} any more")


class AggregateErrorPicker(Explainable, Struct, frozen=True):
    """A picker that adds to failures which clusters of the aggregate had to be left out."""

    child: Picker
    note: str

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is not Fail:
            return result
        return Fail(replace(result.status, message=f"{result.status.message}; left out: {self.note}"))


class UnroutedPicker(Explainable, Struct, frozen=True):
    """A picker that drops the RPCs which fail in a cluster that no route names any more (A31).

    Only the control plane could end their wait, and an RPC that waits for ready would keep the cluster and its
    watches. An RPC of a session whose host is DRAINING may wait: that host may be reached again.
    """

    child: Picker
    session_hosts: frozenset[str] = frozenset()

    def pick(self, call: PickArgs) -> PickResult:
        result = self.child.pick(call) if call.trace is None else call.trace.pick(self.child, call)
        if type(result) is not Fail or self._may_wait(call.override):
            return result
        # A31: a failure would leave an RPC that waits for ready waiting for ever.
        return Drop(add_unrouted_note(result.status, call.cluster))

    def _may_wait(self, override: Override | None) -> bool:
        return override is not None and not self.session_hosts.isdisjoint(override.addresses)
