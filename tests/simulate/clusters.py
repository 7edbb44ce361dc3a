"""A `Leaf` is a cluster with hosts as the control plane has it: its policy, endpoints and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trxds.testing import resources as xds

from .custom_policy import CUSTOM
from .planes import far_name

STATUSES = ("UNKNOWN", "HEALTHY", "DRAINING")
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
    reports_load: bool = False
    ring_size: int = 64
    alternates: Mapping[str, str] = field(default_factory=dict)  # the second addresses of hosts (A61)

    @property
    def service_name(self) -> str:
        """The name of its endpoints."""
        if self.name.startswith("xdstp:"):
            return far_name("endpoint.v3.ClusterLoadAssignment", self.name.rpartition("/")[2])
        return self.name

    @property
    def addresses(self) -> set[str]:
        """All addresses of its hosts."""
        return set(self.places) | {self.alternates[host] for host in self.places if host in self.alternates}

    @property
    def resource(self) -> dict:
        if self.dns:
            body = xds.logical_dns(self.name, self.dns, 50051)
        else:
            body = xds.cluster(self.name, override_statuses=self.statuses, idle_timeout=self.idle_timeout)
            body["eds_cluster_config"]["service_name"] = self.service_name
        body |= POLICIES[self.policy]
        if self.policy == "ring_hash":
            body["ring_hash_lb_config"] = {"minimum_ring_size": self.ring_size, "maximum_ring_size": 2 * self.ring_size}
        if self.reports_load:
            body |= xds.load_reports()
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
        localities = [
            xds.locality(*health, zone=zone, priority=priority, health=health, weight=1 + len(zone))
            for (priority, zone), health in groups.items()
        ]
        for locality in localities:
            for each in locality["lb_endpoints"]:
                self._add_alternate(each["endpoint"])
        return xds.endpoints(self.service_name, *localities)

    def _add_alternate(self, endpoint: dict) -> None:
        where = endpoint["address"]["socket_address"]
        other = self.alternates.get(f"{where['address']}:{where['port_value']}")
        if other is not None:
            address, _, port = other.rpartition(":")
            other_where = {"socket_address": {"address": address, "port_value": int(port)}}
            endpoint["additional_addresses"] = [{"address": other_where}]

    @property
    def new_sessions(self) -> set[str]:
        """The hosts that take calls of everybody."""
        return {host for host, place in self.places.items() if place.health in ("UNKNOWN", "HEALTHY")}


def _typed(kind: str, **fields: object) -> dict:
    config = {"@type": f"{_TYPES}.{kind}", **fields}
    return {"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": kind, "typed_config": config}}]}}


POLICIES: dict[str, dict] = {
    "round_robin": {},
    "ring_hash": {"lb_policy": "RING_HASH"},
    "least_request": {"lb_policy": "LEAST_REQUEST"},
    "pick_first": _typed("pick_first.v3.PickFirst", shuffle_address_list=True),
    "custom": xds.custom_policy(CUSTOM),
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
