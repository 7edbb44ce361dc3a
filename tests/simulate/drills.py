"""Drills: what is done once in each calm, to see that it works then."""

from __future__ import annotations

from random import Random

import trio

import trxds
from trxds.core.status import Status
from trxds.testing.simulation.simulation import LATENCY

from . import calm_invariants, invariants
from .call_plan import CallPlan
from .calls import CancelAtStep, make
from .custom_policy import POLICIES
from .model import METHODS
from .world import Client, World

ANSWERED = 8.0  # seconds: a client asks its first control plane again after about one, and that answers


async def all_at_once(world: World, client: Client, random: Random, cancel: CancelAtStep) -> None:
    """Make calls that all wait for connections, after every connection was reset: each has to succeed soon."""
    if client.strict:
        return  # a call of another method may wait for a host that its cluster does not have
    world.mesh.network.reset(client=client.network_name)
    statuses: list[Status | None] = []

    async def call(caller: object) -> None:
        plan = CallPlan(client, f"/shop.Cart/{random.choice(METHODS)}", "unary", 30.0, waits_for_ready=True)
        plan.is_session, plan.session = caller is not client.channel, caller
        began = trio.current_time()
        statuses.append(await make(world, plan, caller, random, cancel))
        invariants.a_call_that_waits_for_a_connection_gets_it(world, plan, trio.current_time() - began)

    async with client.channel.session() as session, trio.open_nursery() as calls:
        for number in range(8):
            calls.start_soon(call, session if number % 2 else client.channel)
    world.note(f"{client.name}: {len(statuses)} calls at once")


async def all_across_a_goaway(world: World, client: Client, random: Random, cancel: CancelAtStep) -> None:
    """Make calls that are on their way when each host sends GOAWAY, so that no host takes them."""
    if client.strict:
        return
    world.note(f"{client.name}: calls across a GOAWAY")

    async def call(caller: object) -> None:
        plan = CallPlan(client, f"/shop.Cart/{random.choice(METHODS)}", "unary", 30.0)
        plan.is_session, plan.session = caller is not client.channel, caller
        began = trio.current_time()
        status = await make(world, plan, caller, random, cancel)
        invariants.a_call_that_no_host_took_is_made_again(world, plan, status, trio.current_time() - began)

    async with client.channel.session() as session, trio.open_nursery() as calls:
        for number in range(8):
            calls.start_soon(call, session if number % 2 else client.channel)
        await trio.sleep(LATENCY / 2)
        for host in world.mesh.hosts.values():
            host.goaway()


async def no_call_where_a_host_does_not_serve(
    world: World, client: Client, random: Random, cancel: CancelAtStep
) -> None:
    """Have a host say NOT_SERVING, and then SERVING again."""
    if not client.checks_health or client.policy == "pick_first" or len(client.addresses) < 2:
        return
    host = world.mesh.hosts[random.choice(client.addresses)]
    for host.is_serving in (False, True):
        world.said_at[host.address] = trio.current_time()
        await trio.sleep(2.0)
        before = host.calls
        for _ in range(2 * len(client.addresses)):
            plan = CallPlan(client, f"/shop.Cart/{random.choice(METHODS)}", "unary", 5.0)
            await make(world, plan, client.channel, random, cancel)
            if not host.is_serving and any(each.address == host.address for each in plan.picks):
                world.violated("a_host_that_says_not_serving_gets_no_calls", f"{plan} met {host.address}")
        if host.is_serving and client.policy == "round_robin" and host.calls == before:
            text = f"{client.name}: {host.address} says SERVING again"
            world.violated("a_settled_mesh_serves_every_call", f"{text}, and got none of the calls")


async def a_client_begins_at_the_second_control_plane(world: World, random: Random) -> None:
    """Open a channel while its first control plane is dead (A71)."""
    planes, mesh = world.model.planes, world.mesh
    name, service = "newcomer", random.choice(list(world.model.services))
    features = random.choice([("xds_v3",), ("xds_v3", "trxds.delta")])
    world.shake(planes.first.address)
    world.note("a client begins without the first control plane")
    planes.first.server.stop()
    async with mesh.open_channel(
        f"xds:///{service}",
        client=name,
        bootstrap=planes.bootstrap(mesh, name, features=features, falls_back=True),
        policies=POLICIES,
    ) as channel:
        try:
            await channel.method("/shop.Cart/Add")(b"first", timeout=20.0)
        except trxds.RpcError as error:
            world.violated("a_client_falls_back_to_its_second_control_plane", f"{name}: {error.status}")
        await planes.first.server.restart()
        await trio.sleep(ANSWERED)
        calm_invariants.a_settled_client_uses_its_first_control_plane(world)
