"""The faults of resources and control planes; each does one thing to the world, as those of `faults.py`."""

from __future__ import annotations

from random import Random

import trio

from trxds.testing import resources as xds

from .clusters import Leaf
from .planes import Plane
from .world import INJECTED, World


def _leaf(world: World, random: Random) -> Leaf:
    return random.choice(list(world.model.leaves.values()))


def _plane(world: World, random: Random) -> Plane:
    planes = world.model.planes
    return random.choice([planes.first, planes.first, planes.replica, planes.far])


# -- resources


async def endpoints_change(world: World, random: Random) -> str:
    leaf = _leaf(world, random)
    world.model.disturb(leaf)
    world.change()
    world.model.push_endpoints(leaf)
    return f"{leaf.name}: {_places(leaf)}"


async def endpoints_move(world: World, random: Random) -> str:
    leaf = _leaf(world, random)
    world.model.place_anew(leaf)
    world.change()
    world.model.push_endpoints(leaf)
    return f"{leaf.name}: {_places(leaf)}"


async def no_endpoints(world: World, random: Random) -> str:
    leaf = _leaf(world, random)
    if not leaf.dns:
        world.model.planes.of(leaf.name).put(xds.endpoints(leaf.service_name))
    world.change()
    return leaf.name


async def routes_change(world: World, random: Random) -> str:
    service = random.choice(list(world.model.services.values()))
    world.model.reroute(service)
    world.change()
    world.model.push_service(service)
    return f"{service.name}: {service.routes}"


async def cluster_changes(world: World, random: Random) -> str:
    leaf = _leaf(world, random)
    leaf.idle_timeout = random.choice([5.0, 30.0, 120.0])
    leaf.max_requests = random.choice([0, 0, 4])
    leaf.ring_size = random.choice([8, 64, 100])
    world.change()
    world.model.push_leaf(leaf)
    return leaf.name


async def policy_changes(world: World, random: Random) -> str:
    leaf = _leaf(world, random)
    leaf.policy = random.choice(["round_robin", "ring_hash", "least_request", "pick_first", "wrr_locality", "custom"])
    world.change()
    world.model.push_leaf(leaf)
    return f"{leaf.name}: {leaf.policy}"


async def aggregate_changes(world: World, random: Random) -> str:
    for name, leaves in world.model.aggregates.items():
        random.shuffle(leaves)
        world.change()
        world.mesh.plane.put(xds.aggregate(name, *leaves))
        return f"{name}: {leaves}"
    return "there is none"


async def resource_removed(world: World, random: Random) -> str:
    """Remove a resource at the control plane; `repair` puts it again."""
    leaf = _leaf(world, random)
    world.change()
    plane = world.model.planes.of(leaf.name)
    if leaf.name in plane._resources["CDS"]:
        plane.remove("CDS", leaf.name)
    return leaf.name


async def nack(world: World, random: Random) -> str:
    """Put a resource that clients refuse: they keep the one before."""
    leaf = _leaf(world, random)
    world.change()
    plane = world.model.planes.of(leaf.name)
    if random.random() < 0.5 or leaf.dns:
        # MAGLEV is no policy of gRPC, so the resource is invalid (A52).
        plane.put({**xds.cluster(leaf.name), "lb_policy": "MAGLEV"})
        world.bad[plane, "CDS", plane.version("CDS")] = leaf.name
    else:
        # A27: priorities must be without gaps.
        host = random.choice(world.model.hosts)
        plane.put(xds.endpoints(leaf.service_name, xds.locality(host, priority=1)))
        world.bad[plane, "EDS", plane.version("EDS")] = leaf.service_name
    return leaf.name


async def faults_are_injected(world: World, random: Random) -> str:
    """Have the client's own filter delay and fail calls (A33)."""
    service = random.choice(list(world.model.services.values()))
    share = {"numerator": random.choice([10, 50, 100])}
    delay = {"delay": {"fixed_delay": random.choice(["0.1s", "2s"]), "percentage": share}}
    abort = {"abort": {"grpc_status": int(INJECTED), "percentage": share}}
    service.fault = random.choice([None, delay, abort, {**delay, **abort, "max_active_faults": 2}])
    world.change()
    world.injected_at = trio.current_time()
    world.model.push_service(service)
    return f"{service.name}: {service.fault}"


# -- the control plane


async def control_plane_dies(world: World, random: Random) -> str:
    plane = _plane(world, random)
    world.shake(plane.address)
    plane.server.stop()
    return plane.address


async def control_plane_restarts(world: World, random: Random) -> str:
    plane = _plane(world, random)
    world.shake(plane.address)
    await plane.server.restart()
    return plane.address


async def ads_streams_end(world: World, random: Random) -> str:
    plane = _plane(world, random)
    world.shake(plane.address)
    plane.service.drop_streams()
    plane.service.load.drop_streams()
    return plane.address


async def load_streams_end(world: World, random: Random) -> str:
    plane = _plane(world, random)
    plane.service.load.drop_streams()
    return plane.address


async def resources_come_again(world: World, random: Random) -> str:
    """Send all resources of a kind once more, unchanged."""
    kind, plane = random.choice(["CDS", "EDS", "LDS", "RDS"]), _plane(world, random)
    for stream in plane.service._streams:
        stream.subscriptions.sent.get(kind, {}).clear()
    plane.service._push()
    return f"{kind} of {plane.address}"


async def stale_resources(world: World, random: Random) -> str:
    """Put the endpoints that were before the last change, as a control plane that lags behind, and then the newest."""
    leaf = _leaf(world, random)
    before = dict(leaf.places)
    world.change()
    world.model.disturb(leaf)
    world.model.push_endpoints(leaf)
    now, leaf.places = leaf.places, before
    await trio.sleep(random.choice([0.0, 0.001, 1.0]))
    world.model.push_endpoints(leaf)
    leaf.places = now
    await trio.sleep(random.choice([0.0, 0.001, 1.0]))
    world.model.push_endpoints(leaf)
    world.change()
    return f"{leaf.name}: {_places(leaf)}"


async def reordered_resources(world: World, random: Random) -> str:
    """Hold one kind of resource back, so that others come before it; the next such fault, or `repair`, releases it."""
    kind, plane = random.choice(["CDS", "EDS", "LDS", "RDS"]), _plane(world, random)
    world.change()
    for each in list(plane.service._withheld):
        plane.service.release(each)
    if random.random() < 0.5:
        plane.service.withhold(kind)
    return f"{kind} of {plane.address}"


def _places(leaf) -> str:
    return ", ".join(f"{host} {place.priority}{place.zone} {place.health}" for host, place in leaf.places.items())
