"""What a random history may draw beside endpoints, clusters and routes (`random_history.py`).

A `Topic` changes the resources that a `World` makes, has changes of its own, and says with which metadata calls are
made. The larger topics are in `history_outliers.py`, `history_faults.py` and `history_authorities.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar, TypeAlias

Change: TypeAlias = Callable[[Any], str]
Metadata: TypeAlias = list[tuple[str, str]]


class Topic:
    """Nothing of its own. `world` is the World, which has called `begin` once."""

    environ: ClassVar[dict[str, str]] = {}  # of grpcio's process
    holds_streams = False  # for some steps
    reports_loads = False  # which are compared
    keeps_routes = False  # no mistakes of the listener and the routes
    planes: tuple[str, ...] = ()  # what other control planes are for: "authority", "fallback"
    keeps_clusters = False  # no mistakes of clusters, and none is removed
    keeps_services = False  # a cluster stays one of EDS with the same service, or of the same name in DNS
    settling = 0.0  # seconds for which calls are made before they are compared

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {vars(self)}>"

    def begin(self, world: Any) -> None:
        """Draw how it begins."""

    def changes(self) -> Sequence[Change]:
        """What may change."""
        return ()

    def changes_at_once(self) -> Sequence[Change]:
        """What may change just after another change, since a client that misses a version ends up with the same."""
        return self.changes()

    def name(self, kind: str, name: str) -> str:
        """The name that a resource has."""
        return name

    def calls(self, draw: Random) -> Sequence[Metadata]:
        """The metadata of some calls that are made for each path."""
        return ()

    def listener(self, made: dict[str, Any]) -> None:
        """Change the listener."""

    def route(self, table: str, path: str, made: dict[str, Any]) -> None:
        """Change a route."""

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        """Change a cluster that is no aggregate."""

    def endpoints(self, service: str, made: dict[str, Any]) -> None:
        """Change the endpoints."""


class Rings(Topic):
    """Rings of hashes and the keys of calls; weights of localities and endpoints (A42, A113)."""

    environ: ClassVar[dict[str, str]] = {
        "GRPC_EXPERIMENTAL_PF_WEIGHTED_SHUFFLING": "true",
        "GRPC_XDS_ENDPOINT_HASH_KEY_BACKWARD_COMPAT": "false",
    }

    sizes: tuple[tuple[int, int] | None, ...] = (  # None for the policy that the world has
        *(None, (1024, 4096), (1, 4096), (1, 3), (7, 7), (100, 200), (2**23, 2**23)),
    )
    weights: tuple[int, ...] = (1, 1, 2, 3)
    shares: tuple[int | None, ...] = (1, 2, 3, 0, None)

    def __init__(self) -> None:
        self._rings: dict[str, tuple[int, int] | None] = {}  # by cluster
        self._hashes: dict[tuple[str, str], list[Any]] = {}
        self._weights: dict[tuple[str, str], int] = {}  # of endpoints
        self._shares: dict[tuple[str, str], int | None] = {}  # of localities

    def begin(self, world: Any) -> None:
        for name in world.clusters:
            self._rings[name] = world.draw.choice(self.sizes)
        for table in world.tables:
            for path in world.tables[table]:
                self._hashes[table, path] = self._policies(world.draw)

    @staticmethod
    def _policies(draw: Random) -> list[Any]:
        made = []
        for name in draw.sample(["x-a", "x-b"], draw.choice([0, 1, 1, 2, 2])):
            made.append({"header": {"header_name": name}, "terminal": draw.random() < 0.3})
        if made and draw.random() < 0.2:
            made[0]["header"]["regex_rewrite"] = {"pattern": {"regex": "[0-4]"}, "substitution": "_"}
        return made

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_ring] * 3, *[self._edit_hash] * 3, *[self._edit_weight] * 3, *[self._edit_share] * 3]

    def _edit_ring(self, world: Any) -> str:
        name = world.draw.choice(world.clusters_in_use)
        self._rings[name] = world.draw.choice(self.sizes)
        return f"ring of {name}: {self._rings[name]}"

    def _edit_hash(self, world: Any) -> str:
        route = world.table, world.draw.choice(sorted(world.tables[world.table]) or ["none"])
        self._hashes[route] = self._policies(world.draw)
        return f"hash of {route}: {self._hashes[route]}"

    def _edit_weight(self, world: Any) -> str:
        service = world.draw.choice(world.services_in_use)
        for host in sorted(world.endpoints[service]):
            if world.draw.random() < 0.5:
                self._weights[service, world.addresses[host]] = world.draw.choice(self.weights)
        return f"weights of {service}: {[weight for (name, _), weight in self._weights.items() if name == service]}"

    def _edit_share(self, world: Any) -> str:
        service, zone = world.draw.choice(world.services_in_use), world.draw.choice("xy")
        self._shares[service, zone] = world.draw.choice(self.shares)
        return f"share of {service} {zone}: {self._shares[service, zone]}"

    def calls(self, draw: Random) -> Sequence[Metadata]:
        keys = [self._key(draw) for _ in range(6)]
        return [[("x-a", one), ("x-b", other)] for one, other in zip(keys[::2], keys[1::2], strict=True)]

    @staticmethod
    def _key(draw: Random) -> str:
        return str(draw.random())

    def route(self, table: str, path: str, made: dict[str, Any]) -> None:
        if policies := self._hashes.get((table, path)):
            made["route"]["hash_policy"] = policies

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        if ring := self._rings.get(name):
            made["lb_policy"] = "RING_HASH"
            made["ring_hash_lb_config"] = {"minimum_ring_size": ring[0], "maximum_ring_size": ring[1]}

    def endpoints(self, service: str, made: dict[str, Any]) -> None:
        for locality in made["endpoints"]:
            share = self._shares.get((service, locality["locality"]["zone"]), 1)
            if share is None:
                del locality["load_balancing_weight"]
            else:
                locality["load_balancing_weight"] = share
            for each in locality["lb_endpoints"]:
                where = each["endpoint"]["address"]["socket_address"]
                weight = self._weights.get((service, f"{where['address']}:{where['port_value']}"))
                if weight is not None:
                    each["load_balancing_weight"] = weight


class Silence(Topic):
    """Hosts that accept connections and say nothing, so that attempts to connect end by their timeout."""

    def changes(self) -> Sequence[Change]:
        return [self._edit_silent] * 12

    @staticmethod
    def _edit_silent(world: Any) -> str:
        host = world.draw.choice(sorted(world.addresses))
        if host in world.up and len(world.up) < 5:
            return ""
        world.silent ^= {host}
        world.up -= {host}
        return f"{host} {world.state_of(host)}"


class Limits(Topic):
    """Circuit breakers and drops (A32, A27). The history holds streams open meanwhile."""

    holds_streams = True

    def __init__(self) -> None:
        self._most: dict[str, int | None] = {}
        self._drops: dict[str, int] = {}

    def begin(self, world: Any) -> None:
        for name in world.clusters:
            self._most[name] = world.draw.choice([None, 1, 2, 3])

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_most] * 10, *[self._edit_drops] * 2, *[self._edit_service] * 6]

    def _edit_most(self, world: Any) -> str:
        name = world.draw.choice(world.clusters_in_use)
        self._most[name] = world.draw.choice([None, 0, 1, 1, 2, 3])
        return f"max_requests of {name}: {self._most[name]}"

    @staticmethod
    def _edit_service(world: Any) -> str:
        """Count anew: a limit is for a cluster and its EDS service. Streams of the one before may be open still."""
        name = world.draw.choice(world.leaves_in_use or ["a1"])
        service = world.draw.choice([name, f"{name}-x", "shared"])
        world.clusters[name] = world.clusters[name]._replace(service=service, dns_host="")
        return f"service of {name}: {service}"

    def _edit_drops(self, world: Any) -> str:
        service = world.draw.choice(world.services_in_use)
        self._drops[service] = world.draw.choice([0, 0, 100])
        return f"drops of {service}: {self._drops[service]} %"

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        if (most := self._most.get(name)) is not None:
            made["circuit_breakers"] = {"thresholds": [{"max_requests": most}]}

    def endpoints(self, service: str, made: dict[str, Any]) -> None:
        if service in self._drops:
            share = {"numerator": self._drops[service]}
            made["policy"] = {"drop_overloads": [{"category": "a", "drop_percentage": share}]}


class Loads(Topic):
    """Load reports of some clusters (LRS), of which the control plane may want only some."""

    reports_loads = True

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._unnamed: set[str] = set()  # without a service_name, if that is theirs

    def begin(self, world: Any) -> None:
        self._reported = {name for name in world.clusters if world.draw.random() < 0.6}

    def changes(self) -> Sequence[Change]:
        return [*[self._edit_reported] * 8, *[self._edit_asked] * 4, *[self._edit_service] * 6]

    def _edit_reported(self, world: Any) -> str:
        name = world.draw.choice(world.leaves_in_use or ["a1"])
        self._reported ^= {name}
        return f"load of {name}: {'reported' if name in self._reported else 'not reported'}"

    def _edit_service(self, world: Any) -> str:
        """Change the service, perhaps to one with the same hosts."""
        name = world.draw.choice(world.leaves_in_use or ["a1"])
        old = world.clusters[name].service
        new = f"{name}-x" if old == name else name
        if world.draw.random() < 0.7:
            world.endpoints[new] = dict(world.endpoints[old])
        self._unnamed ^= {name} if world.draw.random() < 0.5 else set()
        world.clusters[name] = world.clusters[name]._replace(service=new, dns_host="")
        return f"service of {name}: {new} {world.endpoints[new]}, {name in self._unnamed = }"

    @staticmethod
    def _edit_asked(world: Any) -> str:
        world.asked = () if world.asked else tuple(world.draw.sample(world.leaves_in_use or ["a1"], 1))
        return f"wanted is the load of {world.asked or 'all'}"

    def calls(self, draw: Random) -> Sequence[Metadata]:
        return [[("x-fail", "1"), ("x-code", "INTERNAL")]]

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        if name in self._reported:
            made["lrs_server"] = {"self": {}}
        if name in self._unnamed and made.get("eds_cluster_config", {}).get("service_name") == name:
            del made["eds_cluster_config"]["service_name"]


class Names(Topic):
    """LOGICAL_DNS clusters whose names do not resolve, then do (A37).

    Not localhost, for which grpcio has addresses of its own.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by cluster; empty for the address itself

    def begin(self, world: Any) -> None:
        for name, cluster in world.clusters.items():
            if not name.endswith("3") and hasattr(cluster, "dns_host") and world.draw.random() < 0.5:
                self._edit(world, name)

    def changes(self) -> Sequence[Change]:
        return [self._edit_name] * 14

    def _edit_name(self, world: Any) -> str:
        name = world.draw.choice(world.leaves_in_use or ["a1"])
        self._edit(world, name)
        return f"{name} is {self._names[name] or world.clusters[name].dns_host}"

    def _edit(self, world: Any, name: str) -> None:
        host = world.clusters[name].dns_host if world.draw.random() < 0.5 else ""
        world.clusters[name] = world.clusters[name]._replace(
            dns_host=host or world.draw.choice(sorted(world.addresses))
        )
        self._names[name] = world.draw.choice(["", "none.invalid"])

    def cluster(self, name: str, made: dict[str, Any]) -> None:
        if "load_assignment" in made and (dns_name := self._names.get(name)):
            (endpoint,) = made["load_assignment"]["endpoints"][0]["lb_endpoints"]
            endpoint["endpoint"]["address"]["socket_address"]["address"] = dns_name


class Fallback(Topic):
    """A server for the case that the first one cannot be reached (A71), which has other hosts.

    Beside `Authority` it is for the server of that authority alone: grpcio goes on with a fallback server that another
    authority needs too.
    grpcio 1.85.3 ended with a segmentation fault in one of 70 such histories, and not when that was repeated.
    """

    planes = ("fallback",)

    def begin(self, world: Any) -> None:
        if world.draw.random() >= 0.6:
            world.planes_up -= {world.before_fallback}

    def changes(self) -> Sequence[Change]:
        # So that something is missing when the first server goes.
        return [self._withhold] * 6

    def changes_at_once(self) -> Sequence[Change]:
        # One client may have what has just changed, and the other one not.
        return ()

    @staticmethod
    def _withhold(world: Any) -> str:
        world.withheld = "" if world.withheld else world.draw.choice(["CDS", "EDS", "RDS"])
        return f"withhold {world.withheld or 'nothing'}"
