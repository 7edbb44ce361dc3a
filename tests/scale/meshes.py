"""The resources of the meshes that the model and the real client share."""

from __future__ import annotations

from typing import Any

from trxds.resources import protos
from trxds.resources.types import RESOURCE_TYPES
from trxds.testing import resources
from trxds.testing.canonical_any import canonical

from .sizes import AdsMesh, Policy

_POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"
NAME = "shop"
CLUSTER = "cart"
METHOD = "/shop.Cart/Get"


def address(number: int) -> str:
    """Return the address of a host by its number."""
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}:50051"


def front(*filters: dict[str, Any], cluster: str = CLUSTER) -> list[dict[str, Any]]:
    """Return the listener, and the route table with one route to the cluster."""
    return [
        resources.listener(NAME, routes="shop-routes", filters=filters),
        resources.routes("shop-routes", resources.route(cluster)),
    ]


def cluster(policy: Policy) -> dict[str, Any]:
    """Return the cluster with that policy."""
    return {
        **resources.cluster(CLUSTER),
        "load_balancing_policy": {"policies": [{"typed_extension_config": _lb(policy)}]},
    }


def _lb(policy: Policy) -> dict[str, Any]:
    if policy.subset is not None:
        return _extension(
            "random_subsetting",
            "RandomSubsetting",
            subset_size=policy.subset,
            child_policy={"policies": [{"typed_extension_config": _lb(Policy("round_robin"))}]},
        )
    match policy.name:
        case "round_robin" | "session":
            return _extension("round_robin", "RoundRobin")
        case "least_request":
            return _extension("least_request", "LeastRequest", choice_count=2)
        case "ring_hash":
            return _extension("ring_hash", "RingHash", minimum_ring_size=policy.ring)
        case "pick_first":
            return _extension("pick_first", "PickFirst", shuffle_address_list=True)
    raise ValueError(f"no configuration of {policy}")


def _extension(name: str, message: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"{_POLICIES}.{name}.v3.{message}", **fields}}


def endpoints(addresses: list[str], name: str = CLUSTER) -> dict[str, Any]:
    """Return the endpoints of a cluster, in one locality."""
    return resources.endpoints(name, resources.locality(*addresses))


def ads_resources(mesh: AdsMesh) -> list[dict[str, Any]]:
    """Return all that a client of an `AdsMesh` subscribes to."""
    names = mesh.names()
    entries = [resources.route(name, prefix=f"/{name}.") for name in names]
    found = [resources.listener(NAME, routes="shop-routes"), resources.routes("shop-routes", *entries)]
    for number, name in enumerate(names):
        first = number * mesh.endpoints
        found += [
            resources.cluster(name),
            endpoints([address(first + each) for each in range(mesh.endpoints)], name),
        ]
    return found


def changed_endpoints(mesh: AdsMesh) -> dict[str, Any]:
    """Return the endpoints of the first cluster after one of them has moved to another address."""
    addresses = [address(each) for each in range(1, mesh.endpoints)]
    return endpoints([*addresses, address(mesh.clusters * mesh.endpoints)], mesh.names()[0])


def changed_cluster(mesh: AdsMesh) -> dict[str, Any]:
    """Return the first cluster with another setting."""
    return {**resources.cluster(mesh.names()[0]), "lb_policy": "LEAST_REQUEST"}


def packed(resource: dict[str, Any]) -> Any:
    """Return the Any in which a resource is sent."""
    return canonical(protos.from_json(resource))


def kind_of(resource: dict[str, Any]) -> str:
    """Return "LDS", "RDS", "CDS" or "EDS"."""
    return RESOURCE_TYPES[resource["@type"]].kind


def name_of(resource: dict[str, Any]) -> str:
    """Return the name by which a client asks for a resource."""
    return str(resource.get("name") or resource["cluster_name"])
