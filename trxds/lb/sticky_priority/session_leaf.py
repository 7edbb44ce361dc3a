"""These classes say which hosts of a session one leaf of an aggregate has, and how well they can be used (A55).

A leaf that runs has a table of its hosts, below its outlier detection and its limits. Of a leaf that does not run
only the endpoints are known, and none of them is connected.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct

from trxds.core.connectivity import Connectivity
from trxds.resolver.snapshot import ClusterConfig, endpoints_of
from trxds.resources.endpoint import HealthStatus

from ..override_host.policy import OverridePicker
from ..override_host.repin_reason import RepinReason
from ..pick import Picker, WrapperPicker


class HostPreference(enum.IntEnum):
    """How well an RPC can use the best host of its cookie, the best preference first (A55)."""

    READY = 0
    IDLE = 1
    CONNECTING = 2
    NOT_CONNECTED = 3
    UNUSABLE = 4


_PREFERENCES = {
    Connectivity.READY: HostPreference.READY,
    Connectivity.IDLE: HostPreference.IDLE,
    Connectivity.CONNECTING: HostPreference.CONNECTING,
    None: HostPreference.NOT_CONNECTED,
    Connectivity.TRANSIENT_FAILURE: HostPreference.UNUSABLE,
}


class TableHosts(Struct, frozen=True):
    """The hosts of a leaf that runs, as its override_host policy sees them now.

    `has_failed_over` says that priority uses a later leaf, because this one had its time to connect (A56).
    """

    picker: OverridePicker
    has_failed_over: bool = False

    def preference(self, addresses: tuple[str, ...]) -> HostPreference:
        """Return how well the best of these addresses can be used. It leases, connects and counts nothing."""
        table, statuses = self.picker.table, self.picker.statuses
        best = HostPreference.UNUSABLE
        for address in addresses:
            entry = table.get(address)
            if entry is None or entry.health not in statuses:
                continue
            preference = _PREFERENCES[table.state(entry)]
            # An RPC of a session waits for a host no longer than priority did. A DRAINING host is not one that priority
            # waited for: only sessions connect it (A55).
            if self.has_failed_over and entry.health is not HealthStatus.DRAINING and preference:
                continue
            best = min(best, preference)
        return best

    def unusable_reason(self, address: str) -> RepinReason:
        """Return why this address, which is not usable, is not: `UNKNOWN_HOST` if the leaf does not have it."""
        return self.picker.unusable_reason(address)

    def describe(self, address: str) -> str:
        """Describe the health and state of one address, for explanations."""
        return self.picker.describe_address(address)

    @property
    def are_in_use(self) -> bool:
        """Return whether a session used one of the hosts within the idle timeout, or waits for one (A75)."""
        return bool(self.picker.table.leased_addresses)


class ListedHosts(Struct):
    """The endpoints of a leaf that does not run."""

    leaf: ClusterConfig
    # Made by the first session that asks, because most updates of a leaf that does not run are of interest to none.
    _health: dict[str, HealthStatus] | None = None

    def preference(self, addresses: tuple[str, ...]) -> HostPreference:
        health, statuses = self._health_by_address(), self.leaf.cluster.override_statuses
        is_usable = any(health.get(address) in statuses for address in addresses)
        return HostPreference.NOT_CONNECTED if is_usable else HostPreference.UNUSABLE

    def unusable_reason(self, address: str) -> RepinReason:
        is_known = address in self._health_by_address()
        return RepinReason.STATUS_NOT_ALLOWED if is_known else RepinReason.UNKNOWN_HOST

    def describe(self, address: str) -> str:
        health, name = self._health_by_address().get(address), self.leaf.cluster.name
        if health is None:
            return f"{address} is no endpoint of cluster {name}"
        if health not in self.leaf.cluster.override_statuses:
            return f"{address} is {health.name}, which override_host_status does not have"
        return f"{address} is {health.name}, and cluster {name} does not run"

    def _health_by_address(self) -> dict[str, HealthStatus]:
        if self._health is not None:
            return self._health
        statuses = self.leaf.cluster.override_statuses
        endpoints = [
            endpoint
            for endpoint in endpoints_of(self.leaf)
            # A55: without DRAINING in override_host_status such a host is unknown to sessions.
            if endpoint.health is not HealthStatus.DRAINING or HealthStatus.DRAINING in statuses
        ]
        # In reverse, so that the first endpoint with an address wins, as in a leaf that runs.
        self._health = {address: each.health for each in reversed(endpoints) for address in each.addresses}
        return self._health


class NoHosts:
    """The hosts of a leaf whose policies have failed, so that it has none for sessions."""

    are_in_use = False

    def preference(self, addresses: tuple[str, ...]) -> HostPreference:
        return HostPreference.UNUSABLE

    def unusable_reason(self, address: str) -> RepinReason:
        return RepinReason.UNKNOWN_HOST

    def describe(self, address: str) -> str:
        return "a cluster whose policies have failed"


_NO_HOSTS = NoHosts()

SessionHosts: TypeAlias = TableHosts | ListedHosts | NoHosts
"""The hosts that a leaf has for sessions."""


# Compared by identity: the policy keeps the object while nothing of the leaf has changed.
class SessionLeaf(Struct, frozen=True, eq=False):
    """One leaf of an aggregate as a pick sees it; `picker` is None while the leaf does not run."""

    name: str
    picker: Picker | None
    hosts: SessionHosts
    has_failed_over: bool = False


def running_hosts(picker: Picker, has_failed_over: bool = False) -> TableHosts | NoHosts:
    """Return the hosts of a leaf that runs, from its picker."""
    while isinstance(picker, WrapperPicker):
        picker = picker.child
    return TableHosts(picker, has_failed_over) if isinstance(picker, OverridePicker) else _NO_HOSTS
