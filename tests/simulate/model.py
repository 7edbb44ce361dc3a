"""A `MeshModel` is a random mesh as its control plane has it: services, clusters, endpoints, and where each host is.

The model is what a test knows. What a client has applied is read from the client; the two have to agree only once
everything has settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from trxds.testing import Simulation
from trxds.testing import resources as xds

STATUSES = ("UNKNOWN", "HEALTHY", "DRAINING")
METHODS = ("Add", "Remove", "Pay", "List")
_TYPES = "type.googleapis.com/envoy.extensions.load_balancing_policies"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cluster's endpoints have a host."""

    priority: int = 0
    zone: str = "a"
    health: str = "HEALTHY"


@dataclass(slots=True)
class Leaf:
    """A cluster with hosts: of EDS, or of DNS if `dns` is a name, and then it has one endpoint."""

    name: str
    policy: str
    places: dict[str, Place]
    statuses: tuple[str, ...] | None
    idle_timeout: float
    dns: str = ""
    max_requests: int = 0
    ejects: bool = False

    @property
    def resource(self) -> dict:
        if self.dns:
            body = xds.logical_dns(self.name, self.dns, 50051)
        else:
            body = xds.cluster(self.name, override_statuses=self.statuses, idle_timeout=self.idle_timeout)
        body |= _POLICIES[self.policy]
        if self.max_requests:
            body["circuit_breakers"] = {"thresholds": [{"max_requests": self.max_requests}]}
        if self.ejects:
            body["outlier_detection"] = {
                "interval": "5s",
                "base_ejection_time": "10s",
                "max_ejection_percent": 50,
                "failure_percentage_threshold": 60,
                "enforcing_failure_percentage": 100,
                "failure_percentage_minimum_hosts": 2,
                "failure_percentage_request_volume": 3,
                "enforcing_success_rate": 0,
            }
        return body

    @property
    def endpoints(self) -> dict:
        """The endpoints; priorities have to be without gaps, so the lowest one in use is called 0."""
        ranks = sorted({place.priority for place in self.places.values()})
        groups: dict[tuple[int, str], dict[str, str]] = {}
        for host, place in self.places.items():
            groups.setdefault((ranks.index(place.priority), place.zone), {})[host] = place.health
        localities = (
            xds.locality(*health, zone=zone, priority=priority, health=health, weight=1 + len(zone))
            for (priority, zone), health in groups.items()
        )
        return xds.endpoints(self.name, *localities)

    @property
    def new_sessions(self) -> set[str]:
        """The hosts that take calls of everybody."""
        return {host for host, place in self.places.items() if place.health in ("UNKNOWN", "HEALTHY")}


def _typed(kind: str, **fields: object) -> dict:
    config = {"@type": f"{_TYPES}.{kind}", **fields}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": kind, "typed_config": config}}]}}


_POLICIES: dict[str, dict] = {
    "round_robin": {},
    "ring_hash": {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 64, "maximum_ring_size": 128}},
    "least_request": {"lb_policy": "LEAST_REQUEST"},
    "pick_first": _typed("pick_first.v3.PickFirst", shuffle_address_list=True),
    "weighted_round_robin": _typed(
        "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin", blackout_period="2s"
    ),
    "wrr_locality": _typed(
        "wrr_locality.v3.WrrLocality",
        endpoint_picking_policy={
            "policies": [
                {
                    "typed_extension_config": {
                        "name": "least",
                        "typed_config": {"@type": f"{_TYPES}.least_request.v3.LeastRequest"},
                    }
                }
            ]
        },
    ),
}


@dataclass(slots=True)
class Service:
    """A listener with its routes: for each method, the clusters by weight. `cookie` are the filter's settings."""

    name: str
    routes: dict[str, dict[str, int]]
    retries: int
    has_sessions: bool
    strict: bool
    ttl: float | None

    @property
    def resources(self) -> tuple[dict, ...]:
        filters = []
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
    random: Random
    hosts: list[str] = field(default_factory=list)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    aggregates: dict[str, list[str]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    # -- the mesh at the beginning

    @classmethod
    def generate(cls, mesh: Simulation) -> MeshModel:
        """Make a mesh by the seed, with its hosts and resources."""
        model = cls(mesh, mesh.random("mesh"))
        random = model.random
        model.hosts = [f"10.0.1.{number}:50051" for number in range(1, random.randint(3, 8))]
        for number in range(random.randint(1, 4)):
            model._add_leaf(f"leaf-{number}", can_be_dns=number > 0)
        if len(model.leaves) > 1 and random.random() < 0.6:
            names = list(model.leaves)
            random.shuffle(names)
            model.aggregates["both"] = names[: random.randint(2, len(names))]
        for number in range(random.randint(1, 2)):
            model.services[f"shop-{number}"] = model._service(f"shop-{number}")
        for host in model.hosts:
            mesh.add_host(host)
        model.push_all()
        return model

    def _add_leaf(self, name: str, can_be_dns: bool) -> None:
        random = self.random
        leaf = self.leaves[name] = Leaf(
            name,
            random.choice(["round_robin", "round_robin", *_POLICIES]),
            {},
            random.choice([None, STATUSES, STATUSES, ("HEALTHY",)]),
            random.choice([5.0, 30.0, 120.0]),
            dns=f"{name}.example" if can_be_dns and random.random() < 0.2 else "",
            max_requests=random.choice([0, 0, 0, 4]),
            ejects=random.random() < 0.4,
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

    # -- changes

    def place_anew(self, leaf: Leaf) -> None:
        """Give a cluster other hosts, or the same in other places."""
        random = self.random
        if leaf.dns:
            hosts = random.sample(self.hosts, 1)
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
        self.mesh.plane.put(leaf.resource)
        self.push_endpoints(leaf)

    def push_endpoints(self, leaf: Leaf) -> None:
        if not leaf.dns:
            self.mesh.plane.put(leaf.endpoints)

    def push_service(self, service: Service) -> None:
        for resource in service.resources:
            self.mesh.plane.put(resource)

    def leaves_of(self, cluster: str) -> list[Leaf]:
        """The clusters with hosts behind a name, the preferred first."""
        return [self.leaves[name] for name in self.aggregates.get(cluster, [cluster])]
