"""The configuration in force says which hosts of sessions are DRAINING, and which cannot be used any more (A55).

A call finds that out at its pick. Here it is found out when the configuration changes, for sessions that are idle too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from trxds.core.connectivity import Connectivity
from trxds.lb.endpoint_set import Endpoints
from trxds.lb.override_host.repin_reason import RepinReason
from trxds.resolver.snapshot import ClusterConfig, ClusterEntries, endpoints_of
from trxds.resources.endpoint import Endpoint, HealthStatus
from trxds.transport.subchannel import Subchannel


@dataclass(frozen=True, slots=True)
class HostStatus:
    """What a configuration says of a session's host.

    `lost` is the reason why the host cannot be used, None if it can. `change` is the version of the resource that says
    so; a later version that says the same is no change. `health` is that of the endpoint, None if there is none.
    """

    draining: bool = False
    lost: RepinReason | None = None
    change: str = field(default="", compare=False)
    health: HealthStatus | None = field(default=None, compare=False)


USABLE = HostStatus()


def read_statuses(entries: object, cluster: str, before: Mapping[str, HostStatus]) -> dict[str, HostStatus]:
    """Return the status of each of a cluster's hosts; `before` has the last one.

    `entries` is the input of the root of the policy tree.
    """
    if isinstance(entries, Endpoints):  # a target without a control plane has one cluster
        if not entries.all:
            return {}  # a look-up that failed says nothing of the hosts
        found = _find(entries.all, before)
        return {host: _target_status(found.get(host)) for host in before}
    leaves = entries.leaves(cluster) if isinstance(entries, ClusterEntries) else ()
    if not leaves:
        return {}  # deleted, or in error: the calls say what is wrong with it, and a session may keep its host
    change = _endpoints_version(leaves[0]) if len(leaves) == 1 else ""
    statuses = dict.fromkeys(before, HostStatus(lost=RepinReason.UNKNOWN_HOST, change=change))
    for leaf in reversed(leaves):  # the most preferred one that has the host wins
        found = _find(endpoints_of(leaf), before)
        statuses.update({host: _status(endpoint.health, leaf, before[host]) for host, endpoint in found.items()})
    return statuses


def _target_status(endpoint: Endpoint | None) -> HostStatus:
    if endpoint is None:
        return HostStatus(lost=RepinReason.UNKNOWN_HOST)
    # Only a custom resolver has such hosts, and its sessions may stay there.
    return HostStatus(draining=endpoint.health is HealthStatus.DRAINING, health=endpoint.health)


def _find(endpoints: Iterable[Endpoint], hosts: Collection[str]) -> dict[str, Endpoint]:
    return {address: endpoint for endpoint in endpoints for address in endpoint.addresses if address in hosts}


def _status(health: HealthStatus, config: ClusterConfig, before: HostStatus) -> HostStatus:
    draining = health is HealthStatus.DRAINING
    change = _endpoints_version(config)
    if health in config.cluster.override_statuses:
        return HostStatus(draining=draining, change=change if draining else "", health=health)
    if before.lost is None and before.health is health and config.cluster_standing is not None:
        # The endpoint is as it was, so it is the cluster's override_host_status that has changed.
        change = config.cluster_standing.change
    # As the pick sees it: without DRAINING in override_host_status such a host is unknown to sessions (A55).
    return HostStatus(
        draining, RepinReason.UNKNOWN_HOST if draining else RepinReason.STATUS_NOT_ALLOWED, change, health
    )


def _endpoints_version(config: ClusterConfig) -> str:
    return config.endpoints_standing.change if config.endpoints_standing is not None else ""


def unreachable(subchannels: Iterable[Subchannel]) -> set[str]:
    """Return the addresses that cannot be reached now."""
    states = [(each.address, each.state is Connectivity.TRANSIENT_FAILURE) for each in subchannels]
    # One address may have several subchannels, with different security.
    return {address for address, failed in states if failed} - {address for address, failed in states if not failed}
