"""Each fault is a function that does one thing to the world, and says to the world what it has shaken.

`FAULTS` has them with their weights. `repair` ends all of them.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from random import Random

import trio

from trxds.testing import Behaviour
from trxds.testing import resources as xds
from trxds.testing.simulation.simulation import LATENCY, PLANE_ADDRESS
from trxds.transport.events import ErrorCode

from .world import World

Fault = Callable[[World, Random], Awaitable[str]]


def _host(world: World, random: Random) -> str:
    return random.choice(world.model.hosts)


def _way(world: World, random: Random) -> tuple[str | None, str | None]:
    """Return a client and an address for a fault of the network; each may be None, for any."""
    client = random.choice([None, *(each.network_name for each in world.clients)])
    return client, random.choice([_host(world, random), _host(world, random), PLANE_ADDRESS, None])


# -- the network


async def partition(world: World, random: Random) -> str:
    client, address = _way(world, random)
    world.mesh.network.partition(address, client=client)
    world.shake(address, client)
    return f"{client} to {address}"


async def heal(world: World, random: Random) -> str:
    world.mesh.network.heal()
    world.shake()
    return "everything"


async def slow_link(world: World, random: Random) -> str:
    client, address = _way(world, random)
    latency, jitter = random.choice([0.05, 0.3, 2.0]), random.choice([0.0, 0.1, 1.0])
    world.mesh.network.slow(address, latency=latency, jitter=jitter, client=client)
    world.shake(address, client)
    return f"{client} to {address}: {latency:g} s and up to {jitter:g} s more"


async def reset(world: World, random: Random) -> str:
    client, address = _way(world, random)
    world.shake(address, client)
    world.mesh.network.reset(address, client=client)
    return f"{client} to {address}"


async def half_open(world: World, random: Random) -> str:
    client, address = _way(world, random)
    world.shake(address, client)
    world.mesh.network.half_open(address, client=client)
    return f"{client} to {address}"


async def out_of_file_descriptors(world: World, random: Random) -> str:
    client = random.choice(world.clients).network_name
    world.mesh.network.fail_connections(client=client, error=errno.EMFILE)
    world.shake(None, client)
    if random.random() < 0.5:
        world.mesh.network.reset(client=client)
    return client


# -- hosts


async def host_death(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    world.mesh.hosts[address].kill()
    return address


async def host_vanishes(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    world.mesh.hosts[address].vanish()
    return address


async def host_starts_again(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    world.mesh.hosts[address].start()
    return address


async def goaway(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    code = random.choice([ErrorCode.NO_ERROR, ErrorCode.NO_ERROR, ErrorCode.ENHANCE_YOUR_CALM])
    world.mesh.hosts[address].goaway(code)
    return f"{address} {code.name}"


async def stream_resets(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    code = random.choice([ErrorCode.INTERNAL_ERROR, ErrorCode.REFUSED_STREAM, ErrorCode.CANCEL])
    world.mesh.hosts[address].reset_streams(code)
    return f"{address} {code.name}"


async def host_misbehaves(world: World, random: Random) -> str:
    address = _host(world, random)
    world.shake(address)
    behaviour = random.choice(
        [
            Behaviour(latency=0.01),
            Behaviour(latency=0.2, p99=2.0),
            Behaviour(error_rate=0.5),
            Behaviour(error_rate=1.0),
            Behaviour(latency=0.5, capacity=1),
            Behaviour(),
        ]
    )
    world.mesh.hosts[address].behaviour = behaviour
    return f"{address} {behaviour}"


# -- resources


async def endpoints_change(world: World, random: Random) -> str:
    leaf = random.choice(list(world.model.leaves.values()))
    world.model.disturb(leaf)
    world.change()
    world.model.push_endpoints(leaf)
    return f"{leaf.name}: {_places(leaf)}"


async def endpoints_move(world: World, random: Random) -> str:
    leaf = random.choice(list(world.model.leaves.values()))
    world.model.place_anew(leaf)
    world.change()
    world.model.push_endpoints(leaf)
    return f"{leaf.name}: {_places(leaf)}"


async def no_endpoints(world: World, random: Random) -> str:
    leaf = random.choice(list(world.model.leaves.values()))
    if not leaf.dns:
        world.model.mesh.plane.put(xds.endpoints(leaf.name))
    world.change()
    return leaf.name


async def routes_change(world: World, random: Random) -> str:
    service = random.choice(list(world.model.services.values()))
    world.model.reroute(service)
    world.change()
    world.model.push_service(service)
    return f"{service.name}: {service.routes}"


async def cluster_changes(world: World, random: Random) -> str:
    leaf = random.choice(list(world.model.leaves.values()))
    leaf.idle_timeout = random.choice([5.0, 30.0, 120.0])
    leaf.max_requests = random.choice([0, 0, 4])
    world.change()
    world.model.push_leaf(leaf)
    return leaf.name


async def policy_changes(world: World, random: Random) -> str:
    leaf = random.choice(list(world.model.leaves.values()))
    leaf.policy = random.choice(["round_robin", "ring_hash", "least_request", "pick_first", "wrr_locality"])
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
    leaf = random.choice(list(world.model.leaves.values()))
    world.change()
    if leaf.name in world.mesh.plane._resources["CDS"]:
        world.mesh.plane.remove("CDS", leaf.name)
    return leaf.name


async def nack(world: World, random: Random) -> str:
    """Put a resource that clients refuse: they keep the one before."""
    leaf = random.choice(list(world.model.leaves.values()))
    world.change()
    if random.random() < 0.5 or leaf.dns:
        # MAGLEV is no policy of gRPC, so the resource is invalid (A52).
        world.mesh.plane.put({**xds.cluster(leaf.name), "lb_policy": "MAGLEV"})
        world.bad["CDS", world.mesh.plane.version("CDS")] = leaf.name
    else:
        # A27: priorities must be without gaps.
        world.mesh.plane.put(xds.endpoints(leaf.name, xds.locality(_host(world, random), priority=1)))
        world.bad["EDS", world.mesh.plane.version("EDS")] = leaf.name
    return leaf.name


# -- the control plane


async def control_plane_dies(world: World, random: Random) -> str:
    world.shake(PLANE_ADDRESS)
    world.mesh.plane_server.stop()
    return ""


async def control_plane_restarts(world: World, random: Random) -> str:
    world.shake(PLANE_ADDRESS)
    await world.mesh.plane_server.restart()
    return ""


async def ads_streams_end(world: World, random: Random) -> str:
    world.shake(PLANE_ADDRESS)
    world.mesh.plane.drop_streams()
    return ""


async def stale_resources(world: World, random: Random) -> str:
    """Put the endpoints that were before the last change, as a control plane that lags behind, and then the newest."""
    leaf = random.choice(list(world.model.leaves.values()))
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
    kind = random.choice(["CDS", "EDS", "LDS", "RDS"])
    world.change()
    for each in list(world.mesh.plane._withheld):
        world.mesh.plane.release(each)
    if random.random() < 0.5:
        world.mesh.plane.withhold(kind)
    return kind


# -- clocks


async def clock_jumps(world: World, random: Random) -> str:
    seconds = random.choice([-3600.0, -1.0, 30.0, 4000.0])
    world.change()
    world.mesh.set_time_of_day_ahead(seconds)
    return f"{seconds:g} s"


def _places(leaf) -> str:
    return ", ".join(f"{host} {place.priority}{place.zone} {place.health}" for host, place in leaf.places.items())


FAULTS: dict[Fault, int] = {
    partition: 2,
    heal: 3,
    slow_link: 2,
    reset: 3,
    half_open: 1,
    out_of_file_descriptors: 1,
    host_death: 3,
    host_vanishes: 1,
    host_starts_again: 4,
    goaway: 3,
    stream_resets: 2,
    host_misbehaves: 3,
    endpoints_change: 6,
    endpoints_move: 2,
    no_endpoints: 1,
    routes_change: 3,
    cluster_changes: 1,
    policy_changes: 1,
    aggregate_changes: 1,
    resource_removed: 1,
    nack: 2,
    control_plane_dies: 1,
    control_plane_restarts: 2,
    ads_streams_end: 1,
    stale_resources: 2,
    reordered_resources: 2,
    clock_jumps: 1,
}


async def repair(world: World) -> None:
    """End every fault, and give each cluster a host; from now on the world gets calm."""
    network, plane = world.mesh.network, world.mesh.plane
    network.heal()
    network.slow(latency=LATENCY)
    for address, host in world.mesh.hosts.items():
        host.behaviour = Behaviour(latency=0.002)
        # Also those that are well: a peer that comes back resets the connections that it has lost (RFC 9293 §3.5.1).
        if address not in network._accept or any(each.to_client.is_lost for each in network.connections(address)):
            host.start()
    for kind in list(plane._withheld):
        plane.release(kind)
    if PLANE_ADDRESS not in network._accept:
        await world.mesh.plane_server.restart()
    if any(each.to_client.is_lost for each in network.connections(PLANE_ADDRESS)):
        network.reset(PLANE_ADDRESS)
    world.model.repair()
    world.model.push_all()
    world.shake()
    world.calm_since = trio.current_time()
