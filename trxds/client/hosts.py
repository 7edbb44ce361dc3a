"""The hosts that a channel's policies know: `Channel.hosts` lists them, and a pinned call finds its host among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.core.status import OK, RpcError
from trxds.lb.configs import OverrideHostConfig
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.interfaces import SubchannelInterface, SubchannelPoolInterface
from trxds.lb.pick import Picker
from trxds.lb.policy_node import Node
from trxds.resolver.config_selector import ErrorSelector
from trxds.resolver.snapshot import AggregateConfig, ClusterEntries
from trxds.resources.endpoint import Endpoint, Locality, LocalityId

from .channel_state import ChannelState
from .dataplane import DataPlane

_NOT_SERVING = "NOT_SERVING"


@dataclass(frozen=True, slots=True)
class Host:
    """One backend of a channel, as `Channel.hosts` yields it and `Method.on` takes it.

    `address` is the first of its `addresses`; `cluster` is that of the control plane, or the target without one.
    `locality` is `region/zone/sub_zone` without the empty parts, and `priority` 0 is the highest. `health` is
    HEALTHY, UNKNOWN or DRAINING, as control plane or resolver say, and NOT_SERVING if the host itself says so (A17).
    `state` is that of its connection when the host was yielded; None if no policy has asked for one. `attributes` are
    a custom resolver's. `has_left`, in a watch, says that the host is not among the channel's hosts any more. If the
    cluster is a leaf of an `aggregate` that a route names, that is its name.
    """

    address: str
    cluster: str
    addresses: tuple[str, ...]
    locality: str = ""
    priority: int = 0
    health: str = "UNKNOWN"
    state: Connectivity | None = field(default=None, compare=False)
    weight: int = 1
    hostname: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    has_left: bool = False
    aggregate: str = ""


class ClusterInUse(Struct, frozen=True):
    """A cluster as the running policies have it: its endpoints, its picker, and the pool with its security.

    `overrides` says that the picker can be told a host (`Override.pinned`). `source` is the same object until the
    endpoints change.
    """

    name: str
    aggregate: str
    picker: Picker | None
    pool: SubchannelPoolInterface
    overrides: bool
    source: tuple[tuple[Locality, ...], ...] | Endpoints  # by priority, or all of a target

    @property
    def endpoints(self) -> Iterator[tuple[int, LocalityId, Endpoint]]:
        """Yield each endpoint with its priority and locality."""
        if isinstance(self.source, Endpoints):
            yield from ((0, LocalityId(), endpoint) for endpoint in self.source)
            return
        for number, localities in enumerate(self.source):
            for locality in localities:
                yield from ((number, locality.id, endpoint) for endpoint in locality.endpoints)

    def hosts(self) -> Iterator[Host]:
        """Yield the cluster's hosts, in the order of its configuration."""
        for priority, locality, endpoint in self.endpoints:
            subchannel = self._subchannel(endpoint)
            yield Host(
                endpoint.addresses[0],
                self.name,
                endpoint.addresses,
                locality.path,
                priority,
                _health(endpoint, subchannel),
                subchannel.state if subchannel is not None else None,
                endpoint.weight,
                endpoint.hostname,
                endpoint.attributes,
                aggregate=self.aggregate,
            )

    def has(self, address: str) -> bool:
        """Return whether one of the endpoints has this address."""
        return any(address in endpoint.addresses for _, _, endpoint in self.endpoints)

    def _subchannel(self, endpoint: Endpoint) -> SubchannelInterface | None:
        # A61: an endpoint with several addresses is connected at one of them, which need not be the first.
        known = [found for each in endpoint.addresses if (found := self.pool.lookup(each)) is not None]
        return next((each for each in known if each.state is Connectivity.READY), known[0] if known else None)


def clusters_in_use(root: Node, target: str) -> Iterator[ClusterInUse]:
    """Yield the clusters that have a policy at present; without a control plane the target is the only one."""
    entries = root.endpoints
    if not isinstance(entries, ClusterEntries):
        cluster = find_cluster(root, target, target, "")
        if cluster is not None:
            yield cluster
        return
    for name, entry in entries.by_name.items():
        aggregate = name if isinstance(entry.cluster, AggregateConfig) else ""
        for leaf in entry.cluster.leaves:
            cluster = find_cluster(root, target, leaf.cluster.name, aggregate)
            if cluster is not None:
                yield cluster


def find_cluster(root: Node, target: str, name: str, aggregate: str) -> ClusterInUse | None:
    """Return the cluster, which may be a leaf of an aggregate; None if no policy has it at present."""
    entries = root.endpoints
    if isinstance(entries, Endpoints):
        return _cluster(root, target, "", entries) if name == target else None
    if not isinstance(entries, ClusterEntries):
        return None
    config = next((leaf for leaf in entries.leaves(aggregate or name) if leaf.cluster.name == name), None)
    node = _child(root, aggregate or name)
    if aggregate:
        node = _child(_child(node, ""), name)  # cds of the aggregate, its priority, cds of the leaf
    if config is None or node is None:
        return None
    return _cluster(node, name, aggregate, config.priorities)


def _cluster(
    top: Node, name: str, aggregate: str, source: tuple[tuple[Locality, ...], ...] | Endpoints
) -> ClusterInUse:
    # The pool of override_host's node is the one with the cluster's security: cluster_impl above it adds that.
    node: Node | None = top
    while node is not None and node.policy_name != OverrideHostConfig.policy:
        node = _child(node, "")
    return ClusterInUse(name, aggregate, top.picker, (node or top).pool, node is not None, source)


def _child(node: Node | None, name: str) -> Node | None:
    found = node.child(name) if node is not None else None
    return found if isinstance(found, Node) else None


def _health(endpoint: Endpoint, subchannel: SubchannelInterface | None) -> str:
    # A17: only a connected host has said something, and None is a watch without an answer so far.
    if subchannel is not None and subchannel.state is Connectivity.READY and subchannel.health not in (OK, None):
        return _NOT_SERVING
    return endpoint.health.name


class HostIterator:
    """The iterator of `Channel.hosts`. It is no async generator, so an abandoned one needs no cleanup.

    One pass ends after the present hosts; a watch goes on with those that are new, have changed or have left.
    """

    def __init__(self, channel: ChannelState, watch: bool) -> None:
        self._channel = channel
        self._watch = watch
        self._unread: deque[Host] | None = None  # None before the first pass
        self._known: dict[tuple[str, str, str], Host] = {}
        self._plane: DataPlane | None = None  # of the last list, which may have changed while the reader was busy

    def __aiter__(self) -> HostIterator:
        return self

    async def __anext__(self) -> Host:
        lifecycle, data_plane = self._channel.lifecycle, self._channel.data_plane
        lifecycle.check_run()
        if self._unread is None:
            lifecycle.check_open()
            try:
                selector, tree = await data_plane.wait_settled()
            except RpcError:
                if not (self._watch and lifecycle.closed):
                    raise
                raise StopAsyncIteration from None
            if isinstance(selector, ErrorSelector) and not self._watch:
                raise RpcError(selector.status)
            # Two tasks may share the iterator, so the other one may have the list by now.
            if self._unread is None:
                self._plane, self._unread = data_plane.current, self._news(tree)
        await trio.lowlevel.checkpoint()
        while not self._unread and self._watch and not lifecycle.closed:
            await data_plane.wait_for_news(self._plane)
            self._plane = data_plane.current
            # While the channel is IDLE there is no tree, and its hosts have not left.
            if data_plane.tree is not None and data_plane.current is not None:
                # Behind what the other task, which was woken first, has left.
                self._unread.extend(self._news(data_plane.tree))
        if not self._unread:
            raise StopAsyncIteration
        return self._unread.popleft()

    def _news(self, tree: Node) -> deque[Host]:
        target = self._channel.lifecycle.target
        present = {
            (host.cluster, host.aggregate, host.address): host
            for cluster in clusters_in_use(tree, target)
            for host in cluster.hosts()
        }
        before, self._known = self._known, present
        gone = [replace(host, has_left=True) for key, host in before.items() if key not in present]
        return deque(gone + [host for key, host in present.items() if before.get(key) != host])
