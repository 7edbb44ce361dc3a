"""Each fault is a function that does one thing to the world, and says to the world what it has shaken.

`FAULTS` has them with their weights. `repair` ends all of them.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from random import Random

import trio

from trxds.testing import Behaviour
from trxds.testing.simulation.simulation import LATENCY
from trxds.transport.events import ErrorCode

from . import resource_faults as resources
from .world import World

Fault = Callable[[World, Random], Awaitable[str]]


def _host(world: World, random: Random) -> str:
    return random.choice(world.model.addresses)


def _way(world: World, random: Random) -> tuple[str | None, str | None]:
    """Return a client and an address for a fault of the network; each may be None, for any."""
    client = random.choice([None, *(each.network_name for each in world.clients)])
    planes = world.model.planes
    return client, random.choice([_host(world, random), _host(world, random), random.choice(planes.all).address, None])


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


async def host_stops_serving(world: World, random: Random) -> str:
    """Have a host say NOT_SERVING, or SERVING, to health checks (A17)."""
    host = world.mesh.hosts[_host(world, random)]
    world.change()
    host.is_serving = random.random() < 0.4
    world.said_at[host.address] = trio.current_time()
    return f"{host.address}: {host.is_serving}"


# -- clocks


async def clock_jumps(world: World, random: Random) -> str:
    seconds = random.choice([-3600.0, -1.0, 30.0, 4000.0])
    world.change()
    world.mesh.set_time_of_day_ahead(seconds)
    return f"{seconds:g} s"


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
    host_stops_serving: 2,
    resources.endpoints_change: 6,
    resources.endpoints_move: 2,
    resources.no_endpoints: 1,
    resources.routes_change: 3,
    resources.cluster_changes: 1,
    resources.policy_changes: 1,
    resources.aggregate_changes: 1,
    resources.resource_removed: 1,
    resources.nack: 2,
    resources.control_plane_dies: 1,
    resources.control_plane_restarts: 2,
    resources.ads_streams_end: 1,
    resources.stale_resources: 2,
    resources.reordered_resources: 2,
    resources.resources_come_again: 1,
    resources.load_streams_end: 1,
    resources.faults_are_injected: 1,
    clock_jumps: 1,
}


async def repair(world: World, random: Random) -> None:
    """End every fault, and give each cluster a host; from now on the world gets calm.

    A host that has two addresses may have lost one of them.
    """
    network, model = world.mesh.network, world.model
    network.heal()
    network.slow(latency=LATENCY)
    for address, host in world.mesh.hosts.items():
        host.behaviour, host.is_serving = Behaviour(latency=0.002), True
        # Also those that are well: a peer that comes back resets the connections that it has lost (RFC 9293 §3.5.1).
        if address not in network._accept or network.has_half_open(address):
            host.start()
    world.dark = set()
    for addresses in model.alternates.items():
        # A61: one address of a host is enough.
        if random.random() < 0.5:
            world.dark.add(random.choice(addresses))
    for address in world.dark:
        world.mesh.hosts[address].kill()
    for plane in model.planes.all:
        for kind in list(plane.service._withheld):
            plane.service.release(kind)
        if plane.address not in network._accept:
            await plane.server.restart()
        # A control plane asks clients that are quiet by PING, and so finds those that have gone.
        if network.has_half_open(plane.address):
            network.reset(plane.address)
    model.repair()
    model.push_all()
    world.shake()
    world.change()
    world.calm_since = trio.current_time()
