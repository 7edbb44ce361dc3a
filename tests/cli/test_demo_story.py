"""The story of the demo hits hosts that have sessions, and leaves each cluster somewhere to go."""

from __future__ import annotations

from msgspec import structs

from trxds.cli.demo.mesh import HOSTS, Mesh
from trxds.cli.demo.story import Cast, choose_cast, steps

MESH = Mesh(tuple(structs.replace(host, address=f"127.0.0.1:{port}") for port, host in enumerate(HOSTS, 50051)))
SESSIONS = {"s1": "blue-3", "s2": "blue-3", "s3": "blue-1", "s4": "blue-2", "s5": "blue-2", "s6": "blue-3"}


def after(*titles: str) -> Mesh:
    mesh = MESH
    for step in steps(choose_cast(MESH, SESSIONS)):
        if step.change and any(title in step.title for title in titles):
            mesh = step.change(mesh)
    return mesh


def endpoints_of(mesh: Mesh, cluster: str) -> dict[str, tuple[int, int, str]]:
    """name: (port, priority, health) of what EDS says about a cluster."""
    (assignment,) = (resource for resource in mesh.resources() if resource.get("cluster_name") == cluster)
    names = {host.address: host.name for host in mesh.hosts}
    found = {}
    for locality in assignment["endpoints"]:
        for endpoint in locality["lb_endpoints"]:
            port = endpoint["endpoint"]["address"]["socket_address"]["port_value"]
            found[names[f"127.0.0.1:{port}"]] = (port, locality["priority"], endpoint["health_status"])
    return found


def test_the_busiest_host_goes_and_the_busiest_of_the_other_zone_drains() -> None:
    cast = choose_cast(MESH, SESSIONS)
    assert cast == Cast(drained=MESH.hosts[1], removed=MESH.hosts[2])


def test_a_drained_host_is_still_listed_as_draining() -> None:
    assert endpoints_of(after("DRAINING"), "blue")["blue-2"] == (50052, 0, "DRAINING")


def test_a_removed_host_is_not_listed() -> None:
    assert set(endpoints_of(after("removed"), "blue")) == {"blue-1", "blue-2", "blue-4"}


def test_the_demo_swaps_the_weights_of_its_clusters() -> None:
    assert after("weights").weights == (("blue", 20), ("green", 80))


def test_the_zone_of_the_drained_host_moves_to_priority_1() -> None:
    found = endpoints_of(after("DRAINING", "removed", "priority"), "blue")
    assert {name: priority for name, (_, priority, _) in found.items()} == {"blue-1": 1, "blue-2": 1, "blue-4": 0}


def test_the_listener_of_the_demo_without_sessions_has_the_router_alone() -> None:
    listener = structs.replace(MESH, sticky=False).resources()[0]
    names = [each["name"] for each in listener["api_listener"]["api_listener"]["http_filters"]]
    assert names == ["router"]
