"""Random histories of a mesh, with which two clients must do the same (`history.py`).

A `World` is the mesh as it should be, and `resources` makes resources of it. What changes is in `history_changes.py`,
and what only some histories have in `history_topics.py`.

Not drawn is what grpcio 1.85 cannot do: it crashes when a cluster in use becomes an aggregate, or stops being one,
without being removed in between; and it may go on failing when a listener whose routes were refused gets them inline.
Nor has an endpoint a second address that is another endpoint's, because clients share connections in different ways.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from trxds.testing import resources as xds

from .history_authorities import OTHER, canonical
from .history_peers import GRPCIO, Peer
from .history_topics import Topic

Key: TypeAlias = tuple[str, str]  # kind and name
Resources: TypeAlias = dict[Key, dict[str, Any]]

SERVICE = "shop"
HOSTS = tuple(f"h{number}" for number in range(8))
SPARES = ("s0", "s1")  # second addresses
ALL_HOSTS = (*HOSTS, *SPARES)
PATHS = ("/a.A/M", "/b.B/M", "/c.C/M")
TOPS = ("a", "b", "c")  # the clusters of the routes; they may be aggregates of a1, a2 and a3, and so on
TABLES = ("r0", "r1")

HEALTH = ["HEALTHY"] * 6 + ["UNKNOWN"] * 2 + ["DRAINING"] * 3 + ["UNHEALTHY"]
STATUSES = (None, None, ["HEALTHY", "UNKNOWN", "DRAINING"], ["DRAINING"], ["HEALTHY"])
_PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute"


class Place(NamedTuple):
    """Where an EDS resource has a host."""

    priority: int
    zone: str
    health: str


class Leaf(NamedTuple):
    """A cluster of hosts: those of an EDS resource, or one by LOGICAL_DNS."""

    service: str
    dns_host: str  # empty for EDS
    policy: str
    statuses: list[str] | None


class Aggregate(NamedTuple):
    parts: tuple[str, ...]


class World:
    """The mesh as it should be. `addresses` are those of `ALL_HOSTS`."""

    def __init__(
        self, draw: Random, addresses: Mapping[str, str], topics: Sequence[Topic] = (), peer: Peer = GRPCIO
    ) -> None:
        self.draw = draw
        self.addresses = addresses
        self.peer = peer
        self.mode = draw.choice(peer.modes)
        self.up = set(ALL_HOSTS)
        self.silent: set[str] = set()  # hosts that are not up, but accept connections
        self.planes = ("first", *(role for topic in topics for role in topic.planes))  # the control planes
        self.planes_up = set(self.planes)
        self.withheld = ""  # the kind of resources of which all but the fallback servers send nothing
        self.asked: tuple[str, ...] = ()  # the clusters whose load the first one wants; all, if none is named
        self.cookie, self.filtered = "session", peer.has_sessions
        self.table, self.inline = "r0", False
        self.tables = {table: {path: self.draw_action() for path in PATHS} for table in TABLES}
        self.unfiltered: set[tuple[str, str]] = set()  # table and path of routes without the session filter
        self.endpoints: dict[str, dict[str, Place]] = {}
        self.clusters: dict[str, Leaf | Aggregate] = {}
        for top in TOPS:
            self.clusters |= {name: self.draw_leaf(name) for name in (top, f"{top}1", f"{top}2")}
            self.clusters[f"{top}3"] = Aggregate((f"{top}2", f"{top}1"))
            if draw.random() < 0.3:
                self.clusters[top] = self.draw_aggregate(top)
        self.spares: dict[tuple[str, str], str] = {}  # by EDS resource and host
        self.bad: dict[Key, int] = {}  # the mistakes
        self.gone: set[Key] = set()
        self.long_gone: set[Key] = set()  # both clients know
        self.removed_clusters: set[str] = set()  # that have not come back whole
        self.lost_services: set[str] = set()  # EDS resources that may be without endpoints still
        self.steps = 0
        self.failing: set[str] = set()  # hosts that fail each call
        self.topics = topics
        for topic in topics:
            topic.begin(self)

    def __repr__(self) -> str:
        clusters = {name: self.clusters[name] for name in self.clusters_in_use}
        endpoints = {service: self.endpoints[service] for service in self.services_in_use}
        return f"<World {self.tables} {clusters} {endpoints} {self.topics}>"

    def state_of(self, host: str) -> str:
        return "up" if host in self.up else "silent" if host in self.silent else "down"

    @property
    def before_fallback(self) -> str:
        """The control plane that the fallback server is for."""
        return "authority" if "authority" in self.planes else "first"

    # -- what there is to draw

    def draw_action(self) -> str | dict[str, int]:
        """Draw a route's cluster, or several by weight."""
        first, *others = self.draw.sample(TOPS, self.draw.choice([1, 1, 1, 2, 3]))
        if not others and self.draw.random() < 0.8:
            return first
        return {first: 1} | {name: self.draw.choice([0, 1, 1, 2]) for name in others}

    def draw_leaf(self, name: str) -> Leaf:
        draw = self.draw
        for service in (name, f"{name}-x", "shared"):
            if service not in self.endpoints:
                self.endpoints[service] = self.draw_endpoints()
        return Leaf(
            draw.choice([name, name, f"{name}-x", "shared"]),
            draw.choice(HOSTS) if draw.random() < 0.2 else "",
            draw.choice(["ROUND_ROBIN"] * 4 + ["RING_HASH"]),
            draw.choice(STATUSES),
        )

    def draw_aggregate(self, name: str) -> Aggregate:
        parts = [f"{name}{number}" for number in (1, 2, 3)]
        return Aggregate(tuple(self.draw.sample(parts, self.draw.choice([1, 2, 3]))))

    def draw_endpoints(self) -> dict[str, Place]:
        hosts = self.draw.sample(HOSTS, self.draw.choice([1, 2, 3, 3, 4]))
        return {host: self.draw_place() for host in hosts}

    def draw_place(self) -> Place:
        return Place(self.draw.choice([0, 0, 0, 1, 1, 2]), self.draw.choice("xy"), self.draw.choice(HEALTH))

    # -- what is in use

    @property
    def clusters_in_use(self) -> list[str]:
        """The clusters that the routes name, and the parts of those."""
        return self.clusters_of(*self.tables[self.table]) or list(TOPS)

    def clusters_of(self, *paths: str) -> list[str]:
        """The clusters that the routes of these paths name, and the parts of those."""
        names: list[str] = []
        actions = [self.tables[self.table].get(path, ()) for path in paths]
        todo = [name for action in actions for name in ([action] if isinstance(action, str) else action)]
        while todo:
            name = todo.pop()
            cluster = self.clusters[name]
            if name not in names:
                names.append(name)
                todo += cluster.parts if isinstance(cluster, Aggregate) else ()
        return names

    @property
    def leaves_in_use(self) -> list[str]:
        return [name for name in self.clusters_in_use if isinstance(self.clusters[name], Leaf)]

    @property
    def services_in_use(self) -> list[str]:
        used = [self.clusters[name] for name in self.clusters_in_use]
        return [each.service for each in used if isinstance(each, Leaf) and not each.dns_host] or ["shared"]

    def may_fail(self, path: str) -> bool:
        """Whether an RPC there may meet a host that fails each call."""
        hosts = {host for name in self._known_clusters_of(path) for host in self.hosts_of(name)}
        return not self.failing.isdisjoint(hosts | set(SPARES))

    def is_shared(self, host: str) -> bool:
        """Whether several clusters in use have that host."""
        return sum(host in self.hosts_of(name) for name in self.clusters_in_use) > 1

    def hosts_of(self, name: str) -> Collection[str]:
        """The hosts of a cluster itself."""
        cluster = self.clusters[name]
        if isinstance(cluster, Aggregate):
            return ()
        return [cluster.dns_host] if cluster.dns_host else self.endpoints[cluster.service]

    def is_incomparable(self, path: str) -> bool:
        """Whether the peer's RPCs there may do something else."""
        clusters = self._known_clusters_of(path)
        services = {
            cluster.service for cluster in map(self.clusters.__getitem__, clusters) if isinstance(cluster, Leaf)
        }
        if not (self.peer.fails_without_endpoints or self.lost_services.isdisjoint(services)):
            return True
        was_removed = not self.removed_clusters.isdisjoint(clusters)
        return not self.peer.fails_without_a_cluster and (was_removed or self.lacks_a_part(path))

    def lacks_a_part(self, path: str) -> bool:
        """Whether an aggregate there may not have all of its parts."""
        clusters = self._known_clusters_of(path)
        missing = self.removed_clusters | {name for kind, name in self.gone | self.bad.keys() if kind == "CDS"}
        return any(isinstance(self.clusters[name], Aggregate) for name in clusters) and not missing.isdisjoint(clusters)

    def _known_clusters_of(self, path: str) -> list[str]:
        """The clusters to which the clients may route; any, if they may not have the present routes."""
        are_known = self.planes_up.issuperset({"first", "authority"}.intersection(self.planes))
        return self.clusters_of(path) if are_known and not self.routes_in_doubt else list(self.clusters)

    def note_lost_services(self) -> None:
        """Find the EDS resources of which the clients may know no endpoint; if one is in error, by those that begin."""
        is_known = self.planes_up == set(self.planes)
        doubtful = {name for kind, name in self.gone | self.bad.keys() if kind == "EDS"}
        self.lost_services = doubtful | (set() if is_known else self.lost_services)
        self.lost_services |= {service for service in self.endpoints if not self._has_endpoints(service)}

    def _has_endpoints(self, service: str) -> bool:
        return any(place.health in ("HEALTHY", "UNKNOWN") for place in self.endpoints[service].values())

    @property
    def routes_in_doubt(self) -> bool:
        """Whether something is wrong with the listener or the routes."""
        is_wrong = self.listener_in_doubt or ("RDS", self.table) in self.gone | self.bad.keys()
        return is_wrong or self.withheld == "RDS"

    @property
    def routes_lack_a_server(self) -> bool:
        """Whether they are of the authority with servers of its own, and none of these is up."""
        is_its_own = self.name("RDS", self.table).startswith(f"xdstp://{OTHER}/") and not self.inline
        return is_its_own and self.planes_up.isdisjoint({"authority", "fallback"})

    @property
    def listener_in_doubt(self) -> bool:
        return ("LDS", SERVICE) in self.gone | self.bad.keys()

    # -- as resources

    def name(self, kind: str, name: str) -> str:
        """The name of a resource for the control plane."""
        for topic in self.topics:
            name = topic.name(kind, name)
        return name

    def resources(self) -> Resources:
        """The resources, with their mistakes, but for those that are gone."""
        made: Resources = {("CDS", name): self._cluster(name, cluster) for name, cluster in self.clusters.items()}
        made |= {("EDS", service): self._endpoints(service, places) for service, places in self.endpoints.items()}
        made |= {("RDS", table): self._routes(table) for table in TABLES}
        filters = [xds.stateful_session(self.cookie)] if self.filtered else []
        routes = self.name("RDS", self.table)
        listener = made["LDS", SERVICE] = xds.listener(self.name("LDS", SERVICE), routes=routes, filters=filters)
        for topic in self.topics:
            topic.listener(listener)
        if self.inline:
            manager = listener["api_listener"]["api_listener"]
            del manager["rds"]
            manager["route_config"] = {key: value for key, value in self._routes(self.table).items() if key != "@type"}
        made |= {key: self._spoiled(key[0], made[key], mistake) for key, mistake in self.bad.items()}
        found = {}
        for (kind, name), resource in made.items():
            if (kind, name) not in self.gone:
                own_name = resource["cluster_name" if kind == "EDS" else "name"] = canonical(self.name(kind, name))
                found[kind, own_name] = resource
        return found

    def _routes(self, table: str) -> dict[str, Any]:
        off = xds.filter_overrides(stateful_session={"@type": _PER_ROUTE, "disabled": True})
        entries = []
        for path, action in self.tables[table].items():
            if isinstance(action, str):
                action = self.name("CDS", action)
            else:
                kept = {name: weight for name, weight in action.items() if weight or self.peer.leaves_out_weights_of_0}
                action = {self.name("CDS", name): weight for name, weight in kept.items()}
            entry = xds.route(action, prefix=path) | copy.deepcopy(off if (table, path) in self.unfiltered else {})
            for topic in self.topics:
                topic.route(table, path, entry)
            entries.append(entry)
        return xds.routes(self.name("RDS", table), *entries)

    def _cluster(self, name: str, cluster: Leaf | Aggregate) -> dict[str, Any]:
        full_name = self.name("CDS", name)
        if isinstance(cluster, Aggregate):
            parts = [self.name("CDS", part) for part in cluster.parts]
            return xds.aggregate(full_name, *parts, lb_policy="ROUND_ROBIN")
        if cluster.dns_host:
            address, _, port = self.addresses[cluster.dns_host].rpartition(":")
            made = xds.logical_dns(full_name, address, int(port))
        else:
            made = xds.cluster(full_name)
            service = self.name("EDS", cluster.service)
            made["eds_cluster_config"] = {**made["eds_cluster_config"], "service_name": service}
        made["lb_policy"] = cluster.policy
        if cluster.statuses is not None:
            made["common_lb_config"] = {"override_host_status": {"statuses": cluster.statuses}}
        for topic in self.topics:
            topic.cluster(name, made)
        return made

    def _endpoints(self, service: str, places: dict[str, Place]) -> dict[str, Any]:
        """Priorities have to be without gaps, so the lowest one in use is called 0."""
        ranks = sorted({place.priority for place in places.values()})
        groups: dict[tuple[int, str], dict[str, str]] = {}
        for host, place in places.items():
            zone = place.zone if self.peer.has_localities_of_priorities else f"{place.zone}{place.priority}"
            groups.setdefault((ranks.index(place.priority), zone), {})[host] = place.health
        localities = []
        for (priority, zone), health in groups.items():
            states = {self.addresses[host]: state for host, state in health.items()}
            localities.append(xds.locality(*states, zone=zone, priority=priority, health=states))
            for host, endpoint in zip(health, localities[-1]["lb_endpoints"], strict=True):
                if spare := self.spares.get((service, host)):
                    endpoint["endpoint"]["additional_addresses"] = [{"address": _socket_address(self.addresses[spare])}]
        made = xds.endpoints(self.name("EDS", service), *localities)
        for topic in self.topics:
            topic.endpoints(service, made)
        return made

    def _spoiled(self, kind: str, resource: dict[str, Any], mistake: int) -> dict[str, Any]:
        """The resource with one of three mistakes."""
        resource = copy.deepcopy(resource)
        match kind, mistake:
            case "LDS", 0:
                resource["api_listener"]["api_listener"]["http_filters"] = []
            case "LDS", 1:
                resource["api_listener"]["api_listener"]["xff_num_trusted_hops"] = 1
            case "LDS", _:
                del resource["api_listener"]  # valid, but not for clients
            case "RDS", 0 if resource["virtual_hosts"][0]["routes"]:
                del resource["virtual_hosts"][0]["routes"][0]["match"]
            case "RDS", 1 if not self.peer.checks_lengths:
                resource["virtual_hosts"][0]["routes"] = [*resource["virtual_hosts"][0]["routes"], {}]
            case "RDS", 1:
                resource["virtual_hosts"][0]["domains"] = []
            case "RDS", _:
                resource["virtual_hosts"][0]["domains"] = ["other"]  # valid, but no virtual host for the target
            case "CDS", 0 if "cluster_type" not in resource:
                resource["lb_policy"] = "MAGLEV"
            case "CDS", mistake if mistake == 2 or ("cluster_type" in resource and self.peer.is_lenient):
                resource["type"] = "STATIC"
                resource.pop("cluster_type", None)
            case "CDS", _:
                resource["lrs_server"] = {"ads": {}}
            case "EDS", 0 if resource["endpoints"]:
                for each in resource["endpoints"]:
                    each["priority"] += 1
            # UNHEALTHY ones may stand there twice, but not for grpc-go.
            case "EDS", 1 if not self.peer.is_lenient and self._serves(resource):
                resource["endpoints"][0]["lb_endpoints"] *= 2
            case _ if not self.peer.checks_lengths:
                resource["endpoints"] = [*resource["endpoints"], xds.locality(self.addresses[HOSTS[0]], priority=9)]
            case _:
                resource["policy"] = {"drop_overloads": [{"category": "", "drop_percentage": {"numerator": 1}}]}
        return resource

    @staticmethod
    def _serves(endpoints: dict[str, Any]) -> bool:
        """Whether the first locality has an endpoint that may serve."""
        return any(map(_may_serve, endpoints["endpoints"][0]["lb_endpoints"])) if endpoints["endpoints"] else False


def _may_serve(endpoint: dict[str, Any]) -> bool:
    return endpoint.get("health_status", "UNKNOWN") in ("UNKNOWN", "HEALTHY", "DRAINING")


def _socket_address(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}
