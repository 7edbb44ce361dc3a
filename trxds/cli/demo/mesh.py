"""The demo's shop as a value: hosts in two clusters, and the xDS resources that describe them.

Each step of the story is a new value, and all resources are computed from it. So no step can leave an old resource
behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from trxds.testing.resources import Resource, cluster, endpoints, listener, locality, route, routes, stateful_session

SERVICE = "shop"
METHOD = "/shop.Cart/Add"


class Host(Struct, frozen=True):
    """One backend. It answers with its `name`, so that a client knows which backend it reached."""

    name: str
    cluster: str
    zone: str
    address: str = ""


HOSTS = (
    Host("blue-1", "blue", "a"),
    Host("blue-2", "blue", "a"),
    Host("blue-3", "blue", "b"),
    Host("blue-4", "blue", "b"),
    Host("green-1", "green", "a"),
    Host("green-2", "green", "b"),
)


class Mesh(Struct, frozen=True):
    """The state of the shop at one moment, from which the control plane's resources are made."""

    hosts: tuple[Host, ...]
    weights: tuple[tuple[str, int], ...] = (("blue", 80), ("green", 20))
    draining: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    # Zones at priority 1: used for new RPCs only when nothing at priority 0 can be.
    second_choice: frozenset[tuple[str, str]] = frozenset()
    sticky: bool = True

    def resources(self) -> list[Resource]:
        filters = [stateful_session("shop-session")] if self.sticky else []
        names = [name for name, _ in self.weights]
        return [
            listener(SERVICE, routes="shop-routes", filters=filters),
            routes("shop-routes", route(dict(self.weights))),
            *(cluster(name, override_statuses=("UNKNOWN", "HEALTHY", "DRAINING")) for name in names),
            *(endpoints(name, *self._localities(name)) for name in names),
        ]

    def _localities(self, cluster_name: str) -> Iterable[Resource]:
        members = [host for host in self.hosts if host.cluster == cluster_name and host.name not in self.removed]
        for zone in sorted({host.zone for host in members}):
            addresses = [host.address for host in members if host.zone == zone]
            health = {host.address: "DRAINING" for host in members if host.name in self.draining}
            yield locality(*addresses, zone=zone, priority=self._priority(cluster_name, zone), health=health)

    def _priority(self, cluster_name: str, zone: str) -> int:
        return 1 if (cluster_name, zone) in self.second_choice else 0

    def state_of(self, host: Host) -> str:
        """Return a host's state in a word or two, for the table."""
        if host.name in self.removed:
            return "removed"
        words = ["DRAINING"] if host.name in self.draining else []
        words += ["priority 1"] if (host.cluster, host.zone) in self.second_choice else []
        return ", ".join(words) or "healthy"
