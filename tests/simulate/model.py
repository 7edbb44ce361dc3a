"""A `MeshModel` is a random mesh as its control plane has it: services, clusters, endpoints, and where each host is.

The model is what a test knows. What a client has applied is read from the client; the two have to agree only once
everything has settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from trxds.testing import Simulation
from trxds.testing import resources as xds

from .clusters import POLICIES, STATUSES, Leaf, Place
from .planes import Planes, far_name

METHODS = ("Add", "Remove", "Pay", "List")
_FAULT = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"


@dataclass(slots=True)
class Service:
    """A listener with its routes: for each method, the clusters by weight. `cookie` are the filter's settings."""

    name: str
    routes: dict[str, dict[str, int]]
    retries: int
    has_sessions: bool
    strict: bool
    ttl: float | None
    fault: dict | None = None  # what the fault injection filter does

    @property
    def resources(self) -> tuple[dict, ...]:
        filters = []
        if self.fault is not None:
            filters.append({"name": "fault", "typed_config": {"@type": _FAULT, **self.fault}})
        if self.has_sessions:
            cookies = xds.stateful_session(ttl=self.ttl)
            if self.strict:
                cookies["typed_config"]["strict"] = True
            filters.append(cookies)
        entries = [self._route(method, clusters) for method, clusters in self.routes.items()]
        return xds.listener(self.name, routes=f"{self.name}-routes", filters=filters), xds.routes(
            f"{self.name}-routes", *entries
        )

    def _route(self, method: str, clusters: dict[str, int]) -> dict:
        to = next(iter(clusters)) if len(clusters) == 1 else clusters
        route = xds.route(to, prefix=f"/shop.Cart/{method}" if method else "")
        if self.retries:
            route["route"]["retry_policy"] = {"retry_on": "unavailable,internal", "num_retries": self.retries}
        return route


@dataclass(slots=True)
class MeshModel:
    """All of a mesh. `push` functions hand parts of it to the control plane; what was not pushed is not known there."""

    mesh: Simulation
    planes: Planes
    random: Random
    hosts: list[str] = field(default_factory=list)
    alternates: dict[str, str] = field(default_factory=dict)  # the second addresses of some hosts (A61)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    aggregates: dict[str, list[str]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    # -- the mesh at the beginning

    @classmethod
    async def generate(cls, mesh: Simulation) -> MeshModel:
        """Make a mesh by the seed, with its control planes, hosts and resources."""
        model = cls(mesh, await Planes.start(mesh), mesh.random("mesh"))
        random = model.random
        model.hosts = [f"10.0.1.{number}:50051" for number in range(1, random.randint(3, 8))]
        if random.random() < 0.4:
            model.alternates = {
                host: host.replace("10.0.1.", "10.0.2.") for host in model.hosts[1:] if random.random() < 0.6
            }
        for number in range(random.randint(1, 4)):
            name = f"leaf-{number}"
            model._add_leaf(
                far_name("cluster.v3.Cluster", name) if random.random() < 0.2 else name, can_be_dns=number > 0
            )
        if len(model.leaves) > 1 and random.random() < 0.6:
            names = list(model.leaves)
            random.shuffle(names)
            model.aggregates["both"] = names[: random.randint(2, len(names))]
        for number in range(random.randint(1, 2)):
            model.services[f"shop-{number}"] = model._service(f"shop-{number}")
        for host in model.addresses:
            mesh.add_host(host)
        model.push_all()
        return model

    def _add_leaf(self, name: str, can_be_dns: bool) -> None:
        random = self.random
        leaf = self.leaves[name] = Leaf(
            name,
            random.choice(["round_robin", "round_robin", *POLICIES]),
            {},
            random.choice([None, STATUSES, STATUSES, ("HEALTHY",)]),
            random.choice([5.0, 30.0, 120.0]),
            dns=f"{name.rpartition('/')[2]}.example" if can_be_dns and random.random() < 0.2 else "",
            max_requests=random.choice([0, 0, 0, 4]),
            ejects=random.random() < 0.4,
            reports_load=random.random() < 0.4,
            ring_size=random.choice([8, 64]),
            alternates=self.alternates,
        )
        self.place_anew(leaf)

    def _service(self, name: str) -> Service:
        random = self.random
        return Service(
            name,
            self._routes(),
            retries=random.choice([0, 0, 2]),
            has_sessions=random.random() < 0.9,
            strict=random.random() < 0.1,
            ttl=random.choice([None, None, 60.0, 3600.0]),
        )

    def _routes(self) -> dict[str, dict[str, int]]:
        random, names = self.random, [*self.leaves, *self.aggregates, *self.aggregates]

        def clusters() -> dict[str, int]:
            chosen = random.sample(sorted(set(names)), min(len(set(names)), random.choice([1, 1, 1, 2, 3])))
            return {name: random.randint(1, 10) for name in chosen}

        routes = {method: clusters() for method in random.sample(METHODS, random.choice([0, 0, 1, 2]))}
        return {**routes, "": clusters()}

    @property
    def addresses(self) -> list[str]:
        """All addresses of all hosts."""
        return [*self.hosts, *self.alternates.values()]

    @property
    def hosts_with_one_address(self) -> list[str]:
        return [host for host in self.hosts if host not in self.alternates]

    # -- changes

    def place_anew(self, leaf: Leaf) -> None:
        """Give a cluster other hosts, or the same in other places."""
        random = self.random
        if leaf.dns:
            hosts = random.sample(self.hosts_with_one_address, 1)
            leaf.places = {host: Place() for host in hosts}
            self.mesh.network.names[leaf.dns] = [host.partition(":")[0] for host in hosts]
            return
        chosen = random.sample(self.hosts, random.randint(1, len(self.hosts)))
        leaf.places = {host: self._place(0) for host in chosen}

    def _place(self, trouble: float) -> Place:
        random = self.random
        health = random.choice(["DRAINING", "UNHEALTHY", "UNKNOWN"]) if random.random() < trouble else "HEALTHY"
        return Place(random.choice([0, 0, 1]), random.choice("ab"), health)

    def disturb(self, leaf: Leaf) -> None:
        """Change the health or place of some of the cluster's hosts."""
        if leaf.dns:
            self.place_anew(leaf)
            return
        for host in list(leaf.places):
            roll = self.random.random()
            if roll < 0.3:
                leaf.places[host] = replace(leaf.places[host], health=self.random.choice([*STATUSES, "UNHEALTHY"]))
            elif roll < 0.4:
                leaf.places[host] = self._place(0.5)
            elif roll < 0.5 and len(leaf.places) > 1:
                del leaf.places[host]
        free = [host for host in self.hosts if host not in leaf.places]
        if free and self.random.random() < 0.3:
            leaf.places[self.random.choice(free)] = self._place(0.2)

    def reroute(self, service: Service) -> None:
        """Give a service other routes."""
        service.routes = self._routes()

    def repair(self) -> None:
        """Give each cluster a host for everybody, so that every call can be served."""
        for service in self.services.values():
            service.fault = None
        for leaf in self.leaves.values():
            for host in list(leaf.places):
                leaf.places[host] = replace(leaf.places[host], health="HEALTHY")
            if not leaf.places:
                self.place_anew(leaf)

    # -- to the control plane

    def push_all(self) -> None:
        """Put every resource, clusters before routes."""
        for leaf in self.leaves.values():
            self.push_leaf(leaf)
        for name, leaves in self.aggregates.items():
            self.mesh.plane.put(xds.aggregate(name, *leaves))
        for service in self.services.values():
            self.push_service(service)

    def push_leaf(self, leaf: Leaf) -> None:
        self.planes.of(leaf.name).put(leaf.resource)
        self.push_endpoints(leaf)

    def push_endpoints(self, leaf: Leaf) -> None:
        if not leaf.dns:
            self.planes.of(leaf.name).put(leaf.endpoints)

    def push_service(self, service: Service) -> None:
        for resource in service.resources:
            self.mesh.plane.put(resource)

    def leaves_of(self, cluster: str) -> list[Leaf]:
        """The clusters with hosts behind a name, the preferred first."""
        return [self.leaves[name] for name in self.aggregates.get(cluster, [cluster])]
