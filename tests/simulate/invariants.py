"""The invariants, each a function whose name says what holds; it reports to the world where that is not so.

Those of picks are asked in the step of the pick, those of calls when a call ends, and the others after each step of a
storm, once the world is calm, or at the end.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from dataclasses import dataclass, field

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.observe import Pick, SessionPick
from trxds.core.status import Status, StatusCode
from trxds.resources.endpoint import HealthStatus
from trxds.testing.simulation.echo_host import SIMULATED_ERROR
from trxds.testing.simulation.simulation import PLANE_ADDRESS

from .world import Client, World

GRACE = 0.11  # seconds: the client waits 0.1 for the server's own DEADLINE_EXCEEDED
UNBOUNDED = 200.0  # seconds in which a call without a deadline has to end, with keepalive: what TCP may take to notice
EJECTED_FOR = 10.0  # seconds: the least time of an ejection in these meshes
SOON = 6.0  # seconds: connections, and the pauses of a session's first call
MOMENT = 1.0  # seconds: a configuration takes some passes of the scheduler, and no time


@dataclass(eq=False)
class CallPlan:
    """A call of the simulation: what was asked for, and what its observer saw."""

    client: Client
    path: str
    kind: str
    timeout: float | None
    is_session: bool = False
    is_alone: bool = False  # no other call of its session runs beside it
    cancel_after: float | None = None
    cancel_at_step: int = 0
    waits_for_ready: bool = False
    began: float = 0.0
    session: object = None
    released: bool = False  # the program gave the session's host up before
    hosts_before: tuple[tuple[str, str], ...] = ()  # (host, cluster) that the session had when the call began
    routed_to: str = ""
    routes: frozenset[str] | None = None  # the clusters that the route had then
    session_pick: SessionPick | None = None
    picks: list[Pick] = field(default_factory=list)
    is_in_calm: bool = False
    idled: float = 0.0  # seconds in which the program itself did something else

    def __repr__(self) -> str:
        return f"{self.kind} {self.path} of {self.client.name} begun at {self.began:.3f}"


# -- in the step of a pick


def a_call_goes_to_a_host_that_its_cluster_lists(world: World, call: CallPlan, pick: Pick) -> None:
    """A call meets a host that the data plane in force lists, or, for a session, one that A75 still allows."""
    probe = call.client.probe
    if probe is None or probe.is_settling:
        return  # two configurations are in use for some passes of the scheduler (A31)
    found = [
        (leaf, endpoint)
        for leaf, endpoint in probe.endpoints(pick.cluster, pick.backend)
        if pick.address in endpoint.addresses
    ]
    is_hit = call.session_pick is not None and call.session_pick.result == "hit" and bool(call.session_pick.wanted)
    allowed = any(
        # A hit may also be the child policy's own choice, after the cookie's host could not be used as such.
        endpoint.health in _FOR_EVERYBODY or (is_hit and endpoint.health in leaf.cluster.override_statuses)
        for leaf, endpoint in found
    )
    world.counts["picks"] += 1
    # A policy that replaces another one takes over when it can serve; the one before keeps its endpoints until then
    # (C-core, child_policy_handler.cc).
    if not allowed and pick.address in probe.listed_before_a_switch(pick.backend):
        world.counts["picks during a switch of policies"] += 1
    elif not allowed:
        what = ", ".join(endpoint.health.name for _, endpoint in found) or "not listed"
        world.violated(
            "a_call_goes_to_a_host_that_its_cluster_lists",
            f"{call} met {pick.address}, which is {what} in cluster {pick.cluster} ({pick.backend})",
        )


_FOR_EVERYBODY = (HealthStatus.UNKNOWN, HealthStatus.HEALTHY)


def an_ejected_host_gets_no_new_calls(world: World, call: CallPlan, pick: Pick) -> None:
    """Between its ejection and the earliest end of it, a host gets calls of its sessions only (A50)."""
    at = call.client.ejected.get((pick.cluster, pick.backend, pick.address), -math.inf)
    is_hit = call.session_pick is not None and call.session_pick.result == "hit" and bool(call.session_pick.wanted)
    # A61: pick_first takes no notice of health, and so of ejections, unless a policy above it does.
    leaf = world.model.leaves.get(pick.backend)
    if leaf is None or leaf.policy == "pick_first":
        return
    # Endpoints that change begin with new records.
    if is_hit or world.changed_at >= at or not at + MOMENT < trio.current_time() < at + EJECTED_FOR - MOMENT:
        return
    world.violated(
        "an_ejected_host_gets_no_new_calls", f"{call} met {pick.address}, ejected from {pick.backend} at {at:.3f}"
    )


def a_settled_mesh_uses_what_is_preferred(world: World, call: CallPlan, pick: Pick) -> None:
    """A call of nobody's session goes to the first priority of an aggregate's first cluster when all is well (A56)."""
    probe = call.client.probe
    if probe is None or call.is_session or not call.is_in_calm or world.changed_at >= call.began:
        return
    leaves = probe.leaves(pick.cluster)  # none without a control plane
    if not leaves or leaves[0].endpoints is None or world.model.leaves[leaves[0].cluster.name].ejects:
        return
    first = leaves[0].endpoints.priorities[0]
    if pick.address not in {address for locality in first for each in locality.endpoints for address in each.addresses}:
        world.violated(
            "a_settled_mesh_uses_what_is_preferred",
            f"{call} met {pick.address} ({pick.backend}), not of the first priority of {leaves[0].cluster.name}",
        )


def a_session_with_a_usable_host_meets_it(world: World, call: CallPlan, pick: Pick) -> None:
    """A session moves only for a reason of A55, A60 or A75: each `return` below is one."""
    client, probe, found = call.client, call.client.probe, call.session_pick
    if probe is None or not call.is_session or found is None or call.released or probe.is_settling:
        return
    if call.is_alone:
        hosts = _hosts_now(call)
    elif found.wanted:
        hosts = [(host, pick.cluster) for host in found.wanted]
    else:
        return
    world.counts["picks of sessions"] += 1
    if not hosts or (pick.address, pick.cluster) in hosts:
        return
    for host, cluster in hosts:
        # A60: the route does not have the cookie's cluster any more.
        if call.routes is None or cluster not in call.routes:
            return
        listed = [each for each in probe.endpoints(cluster) if host in each[1].addresses]
        # A75: it left the cluster's endpoints, or its health status is not in override_host_status.
        listed = [(leaf, each) for leaf, each in listed if each.health in leaf.cluster.override_statuses]
        if not listed:
            return
        states = probe.states(host)
        # A55: it cannot be reached; a fault has to be the reason.
        if Connectivity.TRANSIENT_FAILURE in states and world.was_shaken(client.network_name, host):
            return
        # A75: an aggregate uses another cluster now. With `sticky_aggregates` only a host that is not READY is left.
        in_other_leaf = pick.backend not in {leaf.cluster.name for leaf, _ in listed}
        if in_other_leaf and not (client.sticky_aggregates and Connectivity.READY in states):
            return
    names = ", ".join(f"{host} ({', '.join(s.name for s in sorted(probe.states(host)))})" for host, _ in hosts)
    world.violated(
        "a_session_with_a_usable_host_meets_it",
        f"{call} met {pick.address} ({pick.backend}) although {names} could be used; {found}",
    )


def _hosts_now(call: CallPlan) -> list[tuple[str, str]]:
    """The hosts that the session had when the call began and whose cookies are not too old now."""
    now = {(each.host, each.cluster) for each in call.session.hosts.values()}
    return [each for each in call.hosts_before if each in now]


OF_PICKS = (
    a_call_goes_to_a_host_that_its_cluster_lists,
    an_ejected_host_gets_no_new_calls,
    a_settled_mesh_uses_what_is_preferred,
    a_session_with_a_usable_host_meets_it,
)


# -- when a call ends


def a_call_ends_by_its_deadline(world: World, call: CallPlan) -> None:
    """A call ends by its deadline, when its caller is cancelled, or in the time that keepalive takes."""
    took = trio.current_time() - call.began - call.idled
    limits = [UNBOUNDED]
    if call.timeout is not None:
        limits.append(call.timeout + GRACE)
    if call.cancel_after is not None:
        limits.append(call.cancel_after + 1e-6)
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
    if not any(name in text for name in names) and call.path not in text:
        world.violated("a_status_names_the_fault", f"{call}: {status} names neither a host nor a resource")
    if status.code is StatusCode.DEADLINE_EXCEEDED:
        if call.timeout is None or trio.current_time() < call.began + call.timeout - 1e-6:
            world.violated("a_status_names_the_fault", f"{call}: {status} before its time, {call.timeout}")
    elif status.code is StatusCode.CANCELLED:
        if not world.was_shaken(client.network_name, call.picks[-1].address if call.picks else PLANE_ADDRESS):
            world.violated("a_status_names_the_fault", f"{call}: {status}, and nobody cancelled it")
    elif status.code not in (StatusCode.UNAVAILABLE, StatusCode.INTERNAL):
        world.violated("a_status_names_the_fault", f"{call}: {status} is not the status of any fault here")


def a_settled_mesh_serves_every_call(world: World, call: CallPlan, status: Status) -> None:
    """A call that begins when all has been well for a while succeeds, unless its own time was too short."""
    if not call.is_in_calm or world.changed_at >= call.began:
        return
    if status.code is StatusCode.DEADLINE_EXCEEDED and call.timeout is not None and call.timeout - call.idled < MOMENT:
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
    if not status.ok or took > SOON:
        world.violated("a_call_that_no_host_took_is_made_again", f"{call} took {took:.3f} s: {status}")


# -- after each step


def a_configuration_settles_in_a_moment(world: World, since: dict[Client, float]) -> None:
    """No configuration stays on its way through the tree; `since` has for each client when one was first seen there."""
    now = trio.current_time()
    for client in world.clients:
        if client.probe is None or not client.probe.is_settling:
            since.pop(client, None)
        elif now - since.setdefault(client, now) > MOMENT:
            world.violated("a_configuration_settles_in_a_moment", f"{client.name} settles since {since[client]:.3f}")


# -- when the world is calm


def a_settled_client_has_what_the_control_plane_has(world: World) -> None:
    """The endpoints in force are those of the control plane, for every cluster of the routes."""
    for client in world.clients:
        probe = client.probe
        if probe is None or client.idle_timeout is not None or not client.service:
            continue
        service = world.model.services[client.service]
        routed = {cluster for clusters in service.routes.values() for cluster in clusters}
        if probe.clusters_of_routes != routed:
            world.violated(
                "a_settled_client_has_what_the_control_plane_has",
                f"{client.name} routes to {sorted(probe.clusters_of_routes)} and not to {sorted(routed)}",
            )
            continue
        for cluster in sorted(routed):
            leaves = world.model.leaves_of(cluster)
            wanted = [leaf.name for leaf in leaves]
            if [leaf.cluster.name for leaf in probe.leaves(cluster)] != wanted:
                world.violated(
                    "a_settled_client_has_what_the_control_plane_has",
                    f"{client.name} has {[leaf.cluster.name for leaf in probe.leaves(cluster)]} and not {wanted}",
                )
            for leaf in leaves:
                has = {address for _, each in probe.endpoints(cluster, leaf.name) for address in each.addresses}
                if not leaf.dns and has != set(leaf.places):
                    world.violated(
                        "a_settled_client_has_what_the_control_plane_has",
                        f"{client.name} has {sorted(has)} in {leaf.name} and not {sorted(leaf.places)}",
                    )

            for leaf in leaves:
                for has in probe.leaves(cluster):
                    if has.cluster.name != leaf.name or leaf.dns:
                        continue
                    now = has.cluster.idle_timeout, has.cluster.max_concurrent_requests
                    if now != (wanted_settings := (leaf.idle_timeout, leaf.max_requests or 1024)):
                        world.violated(
                            "a_settled_client_has_what_the_control_plane_has",
                            f"{client.name} has {now} of {leaf.name} and not {wanted_settings}",
                        )


def a_response_is_answered(world: World) -> None:
    """The control plane has an ACK or NACK of the last response of each type, on every ADS stream."""
    plane = world.mesh.plane
    live = {stream.number for stream in plane._streams}
    last = {(each.stream, each.kind): each.nonce for each in plane.responses if each.stream in live}
    answered = {(each.stream, each.kind, each.nonce) for each in plane.requests}
    for (stream, kind), nonce in last.items():
        if (stream, kind, nonce) not in answered:
            world.violated("a_response_is_answered", f"{kind} {nonce} on stream {stream} has no answer")


def a_bad_resource_is_refused(world: World) -> None:
    """The first answer to a response with a bad resource is a NACK, with the version that was accepted before it."""
    plane, seen, accepted = world.mesh.plane, set(), set()
    responses = {(each.stream, each.nonce): each for each in plane.responses}
    for request in plane.requests:
        response = responses.get((request.stream, request.nonce))
        if request.error is None:
            accepted.add((request.kind, request.version))
        if response is None or (request.stream, request.nonce) in seen:
            continue
        seen.add((request.stream, request.nonce))
        bad = world.bad.get((response.kind, response.version), "")
        if bad in response.names and request.error is None:
            world.violated("a_bad_resource_is_refused", f"{response} has the bad resource {bad} and got an ACK")
        # The version may have been accepted without the bad resource, before that was subscribed.
        elif (
            bad in response.names
            and request.version == str(response.version)
            and (request.kind, request.version) not in accepted
        ):
            world.violated("a_bad_resource_is_refused", f"{response} got a NACK that has its version, as an ACK does")


def a_host_is_leased_for_a_reason(world: World) -> None:
    """Every host that a channel keeps is an endpoint of one of its policies; some are kept warm (A56)."""
    for client in world.clients:
        probe = client.probe
        if probe is None or probe.is_idle:
            continue
        if more := sorted(probe.leased - probe.listed):
            world.violated("a_host_is_leased_for_a_reason", f"{client.name} keeps {more}, which no policy has")


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
    if world.mesh.plane.streams:
        world.violated("a_closed_channel_leaves_nothing", f"{world.mesh.plane.streams} ADS streams are left")


# -- after the run


def objects_alive() -> Counter[str]:
    """Return how many objects of trxds's classes there are, by class; frozen values of modules are among them."""
    gc.collect()
    return Counter(
        f"{type(each).__module__}.{type(each).__qualname__}"
        for each in gc.get_objects()
        if type(each).__module__.startswith("trxds.")
    )


def memory_is_that_of_the_first_run(before: Counter[str], after: Counter[str]) -> list[str]:
    """Return what says that objects of an earlier run are alive; both counts are taken between runs."""
    more = after - before
    return (
        [f"memory_is_that_of_the_first_run: {sum(more.values())} objects more: {more.most_common(5)}"] if more else []
    )
