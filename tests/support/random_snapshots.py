"""Random snapshots of a shop that has several clusters: what changes are routes, endpoints, settings and a filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from trxds.testing import resources as xds
from trxds.testing.resources import Resource

CLUSTERS = ("cart", "fresh", "frozen", "dry")


@dataclass
class RandomSnapshot:
    """The present snapshot. All that it refers to is in it, and each cluster has hosts."""

    random: Random
    addresses: list[str]
    weights: dict[str, int] = field(default_factory=lambda: {"cart": 1})  # of the route's clusters
    idle_timeouts: dict[str, int] = field(default_factory=dict)
    is_sticky: bool = False

    def __post_init__(self) -> None:
        self.hosts = {name: self.addresses[:1] for name in CLUSTERS}

    def change(self) -> None:
        """Change one thing, or nothing."""
        cluster = self.random.choice(CLUSTERS)
        match self.random.randrange(4):
            case 0:
                names = self.random.sample(CLUSTERS, self.random.randint(1, 3))
                self.weights = {name: self.random.randint(1, 3) for name in names}
            case 1:
                self.hosts[cluster] = self.random.sample(self.addresses, self.random.randint(1, 3))
            case 2:
                self.idle_timeouts[cluster] = self.random.randint(10, 99)
            case _:
                self.is_sticky = not self.is_sticky

    def resources(self) -> list[Resource]:
        filters = [xds.stateful_session()] if self.is_sticky else []
        resources = [
            xds.listener("shop", routes="routes", filters=filters),
            xds.routes("routes", xds.route(self.weights)),
        ]
        for name, hosts in self.hosts.items():
            resources.append(xds.cluster(name, idle_timeout=self.idle_timeouts.get(name)))
            resources.append(xds.endpoints(name, xds.locality(*hosts)))
        return resources

    def reachable(self) -> set[str]:
        """Return the hosts that calls are spread over."""
        return {host for name in self.weights for host in self.hosts[name]}
