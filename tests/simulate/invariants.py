"""The invariants, each a function whose name says what holds; it reports to the world where that is not so.

Here are those of calls, which are asked when a call ends, those that hold after each step of a storm, and those of the
end. `pick_invariants.py`, `calm_invariants.py` and `load_invariants.py` have the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

import trxds
from trxds.core.status import Status, StatusCode
from trxds.testing.simulation.echo_host import SIMULATED_ERROR
from trxds.testing.simulation.simulation import PLANE_ADDRESS

from .call_plan import CallPlan, has_been_well
from .world import INJECTED, MOMENT, RECENT, Client, World

if TYPE_CHECKING:
    from .traffic import Pool

GRACE = 0.11  # seconds: the client waits 0.1 for the server's own DEADLINE_EXCEEDED
UNBOUNDED = 200.0  # seconds in which a call without a deadline has to end, with keepalive: what TCP may take to notice
SOON = 6.0  # seconds: connections, and the pauses of a session's first call


# -- when a call ends


def a_call_ends_by_its_deadline(world: World, call: CallPlan) -> None:
    """A call ends by its deadline, when its caller is cancelled, or in the time that keepalive takes."""
    took = trio.current_time() - call.began - call.idled
    limits = [UNBOUNDED]
    if call.timeout is not None:
        limits.append(call.timeout + GRACE)
    if call.cancel_after is not None:
        limits.append(call.cancel_after + 1e-6)
    limits.append(call.cancelled_at - call.began - call.idled + 1e-6)
    if took > min(limits):
        world.violated("a_call_ends_by_its_deadline", f"{call} took {took:.3f} s, and had {min(limits):.3f} s")


def no_call_goes_on_for_ever(world: World) -> None:
    """`a_call_ends_by_its_deadline` of calls that have not ended yet, and of which nobody else would hear."""
    for call in world.open_calls:
        limit = UNBOUNDED if call.timeout is None else call.timeout + GRACE
        # What the program does just now is not in `idled` yet.
        took = trio.current_time() - call.began - call.idled - MOMENT
        if took > limit:
            world.violated("a_call_ends_by_its_deadline", f"{call} goes on after {took:.3f} s, and had {limit:.3f} s")


def a_status_names_the_fault(world: World, call: CallPlan, status: Status) -> None:
    """A failed call has a status that a fault explains, and its message names a host, a resource or the method."""
    text, client = str(status), call.client
    names = world.names() | {SIMULATED_ERROR.message, "the server reset the stream"}
    if status.code is INJECTED:
        names.add("Fault injected")
    if not any(name in text for name in names) and call.path not in text:
        world.violated("a_status_names_the_fault", f"{call}: {status} names neither a host nor a resource")
    if client.attempt_timeout is not None and "the attempt's timeout" in status.message:
        return
    if status.code is StatusCode.DEADLINE_EXCEEDED:
        if call.timeout is None or trio.current_time() < call.began + call.timeout - 1e-6:
            world.violated("a_status_names_the_fault", f"{call}: {status} before its time, {call.timeout}")
    elif status.code is StatusCode.CANCELLED:
        if not world.was_shaken(client.network_name, call.picks[-1].address if call.picks else PLANE_ADDRESS):
            world.violated("a_status_names_the_fault", f"{call}: {status}, and nobody cancelled it")
    elif status.code is INJECTED and trio.current_time() < world.injected_at + RECENT:
        return
    elif status.code not in (StatusCode.UNAVAILABLE, StatusCode.INTERNAL):
        world.violated("a_status_names_the_fault", f"{call}: {status} is not the status of any fault here")


def a_settled_mesh_serves_every_call(world: World, call: CallPlan, status: Status) -> None:
    """A call that begins when all has been well for a while succeeds, unless its own time was too short."""
    if not has_been_well(world, call):
        return
    # A session's first call waits for hosts to connect, and an address that is dead costs 0.25 s beside another (A61).
    needs = MOMENT if call.is_session or world.dark or call.client.idle_timeout is not None else 0.3
    if status.code is StatusCode.DEADLINE_EXCEEDED and call.timeout is not None and call.timeout - call.idled < needs:
        return
    # A32: the circuit breaker drops calls above its limit.
    if status.message.startswith("circuit breaker drop"):
        return
    # Envoy's strict mode: a session of an aggregate's other cluster fails rather than moves (A75 has no such mode).
    if call.client.strict and "none of the session's hosts can be used" in status.message:
        return
    world.violated("a_settled_mesh_serves_every_call", f"{call}: {status}, and the mesh was well")


def a_call_that_waits_for_a_connection_gets_it(world: World, call: CallPlan, took: float) -> None:
    """Of many calls that wait for connections, in a calm, none is left behind."""
    if took > SOON:
        world.violated("a_call_that_waits_for_a_connection_gets_it", f"{call} took {took:.3f} s, beside others")


def a_call_that_no_host_took_is_made_again(world: World, call: CallPlan, status: Status | None, took: float) -> None:
    """A call that was on its way when its host sent GOAWAY is made again at once, and its caller sees nothing (A6)."""
    # A32: the circuit breaker drops calls above its limit.
    if status is None or status.message.startswith("circuit breaker drop"):
        return
    # A6: a second refusal ends the call. The GOAWAYs of several hosts may arrive one after another.
    if "GOAWAY" in status.message and len(call.picks) > 1:
        return
    if not status.ok or took > SOON:
        world.violated("a_call_that_no_host_took_is_made_again", f"{call} took {took:.3f} s: {status}")


def an_attempt_without_a_response_is_given_up(world: World, call: CallPlan, status: Status, took: float) -> None:
    """An attempt ends within its timeout, if no response has begun."""
    limit = call.client.attempt_timeout
    # The headers of a longer response come before its messages, and then the call keeps this attempt.
    if limit is None or call.kind != "unary" or call.size > 5 or status.ok:
        return
    if took > limit + MOMENT / 10:
        world.violated("an_attempt_without_a_response_is_given_up", f"{call}: {status} after {took:.3f} s")


# -- of sessions


def a_session_keeps_its_hosts(
    world: World, client: Client, session: trxds.Session, kept: Collection[object], since: float = -math.inf
) -> None:
    """A session names a host by each cookie that it had before, unless that is too old or was released.

    `since` is when its cookies came, or before. What the time of day does meanwhile has no effect.
    """
    if client.ttl is not None and trio.current_time() > since + client.ttl - MOMENT:
        return
    if not set(kept) <= set(session.hosts):
        text = f"{client.name}: a session has {dict(session.hosts)} and had {kept}"
        world.violated("a_session_keeps_its_hosts", text)


def a_pool_has_a_session_for_each_user(world: World, client: Client, pool: Pool, has_room: bool, waited: float) -> None:
    """A pool has no more sessions than it may have, and lets nobody wait that it has room for."""
    world.counts["sessions of pools"] += 1
    if len(pool.sessions) > pool.most:
        world.violated("a_pool_has_a_session_for_each_user", f"{client.name}: {pool.sessions} has too many")
    if has_room and waited:
        text = f"{client.name}: {pool.sessions} let a user wait {waited:.3f} s, and had room"
        world.violated("a_pool_has_a_session_for_each_user", text)


# -- after each step


def nobody_waits_for_a_pool_with_room(world: World) -> None:
    """A pool gives its room to whoever waits for it in the step in which there is some."""
    for pool in world.pools:
        if trio.current_time() > pool.had_room_at + MOMENT:
            text = f"{pool.sessions} has room since {pool.had_room_at:.3f}, and somebody waits"
            world.violated("a_pool_has_a_session_for_each_user", text)


def a_configuration_settles_in_a_moment(world: World, since: dict[Client, float]) -> None:
    """No configuration stays on its way through the tree; `since` has for each client when one was first seen there."""
    now = trio.current_time()
    for client in world.clients:
        if client.probe is None or not client.probe.is_settling:
            since.pop(client, None)
        elif now - since.setdefault(client, now) > MOMENT:
            world.violated("a_configuration_settles_in_a_moment", f"{client.name} settles since {since[client]:.3f}")


# -- when no call and no session is open


def counts_return_to_zero(world: World) -> None:
    """Without calls and sessions no count, stream or hold is left."""
    for client in world.clients:
        probe = client.probe
        if probe is None:
            continue
        left = {
            "open calls": probe.open_calls,
            "open streams": probe.streams,
            "open sessions": probe.open_sessions,
            "hosts with sessions": probe.pinned_hosts,
            "calls that circuit breakers count": probe.calls_counted,
            # An IDLE channel keeps its routes, which nobody sees, for the call that ends IDLE.
            "clusters without a route": []
            if probe.is_idle
            else sorted(probe.clusters_alive - probe.clusters_of_routes),
        }
        for what, value in left.items():
            if value:
                world.violated("counts_return_to_zero", f"{client.name}: {what}: {value}")


# -- when all channels are closed


def a_closed_channel_leaves_nothing(world: World, before: Counter[str], after: Counter[str]) -> None:
    """When the channels are closed there is no task of theirs, no connection, and no ADS stream."""
    if more := after - before:
        world.violated("a_closed_channel_leaves_nothing", f"tasks are left: {dict(more)}")
    if connections := world.mesh.network.connections():
        world.violated("a_closed_channel_leaves_nothing", f"connections are left: {connections}")
    for plane in world.model.planes.all:
        for kind, streams in ("ADS", plane.service.streams), ("LRS", plane.service.load.streams):
            if streams:
                text = f"{streams} {kind} streams to {plane.address} are left"
                world.violated("a_closed_channel_leaves_nothing", text)
