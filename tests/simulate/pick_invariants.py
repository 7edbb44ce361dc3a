"""The invariants of picks, which are asked in the step of the pick; `invariants.py` has the others."""

from __future__ import annotations

import math

import trio

from trxds.core.connectivity import Connectivity
from trxds.core.observe import Pick
from trxds.resources.endpoint import HealthStatus

from .call_plan import CallPlan, has_been_well
from .world import MOMENT, REBALANCED_AFTER, World

EJECTED_FOR = 10.0  # seconds: the least time of an ejection in these meshes


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
    if not allowed and not has_been_well(world, call) and pick.address in probe.listed_before_a_switch(pick.backend):
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
    # Clusters and endpoints that change begin with new records, and so does a channel that was IDLE.
    if is_hit or world.resources_changed_at >= at or call.client.idle_timeout is not None:
        return
    if not at + MOMENT < trio.current_time() < at + EJECTED_FOR - MOMENT:
        return
    world.violated(
        "an_ejected_host_gets_no_new_calls", f"{call} met {pick.address}, ejected from {pick.backend} at {at:.3f}"
    )


def a_settled_mesh_uses_what_is_preferred(world: World, call: CallPlan, pick: Pick) -> None:
    """A call of nobody's session goes to the first priority of an aggregate's first cluster when all is well (A56)."""
    probe = call.client.probe
    if probe is None or call.is_session or not has_been_well(world, call):
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
    # The client itself may release a session that made no call for a while.
    if client.rebalances and call.began >= call.idle_since + REBALANCED_AFTER:
        return
    if not hosts or (pick.address, pick.cluster) in hosts:
        return
    for host, cluster in hosts:
        # A60: the route does not have the cookie's cluster any more.
        if call.routes is None or cluster not in call.routes:
            return
        # A31: a call keeps the route table that it began with, while a filter delays it.
        if call.routes_at_first is not None and cluster not in call.routes_at_first:
            return
        listed = [each for each in probe.endpoints(cluster) if host in each[1].addresses]
        # A75: it left the cluster's endpoints, or its health status is not in override_host_status.
        listed = [(leaf, each) for leaf, each in listed if each.health in leaf.cluster.override_statuses]
        if not listed:
            return
        # A61: the host by another of its addresses.
        addresses = {address for _, each in listed for address in each.addresses}
        if pick.cluster == cluster and pick.address in addresses:
            return
        # A55: it cannot be reached, by any of its addresses; a fault has to be the reason.
        if all(
            Connectivity.TRANSIENT_FAILURE in probe.states(each) and _may_be_unreachable(world, call, each)
            for each in addresses
        ):
            return
        # A75: an aggregate uses another cluster now. With `sticky_aggregates` only a host that is not READY is left.
        in_other_leaf = pick.backend not in {leaf.cluster.name for leaf, _ in listed}
        is_ready = any(Connectivity.READY in probe.states(each) for each in addresses)
        if in_other_leaf and not (client.sticky_aggregates and is_ready):
            return
    names = ", ".join(f"{host} ({', '.join(s.name for s in sorted(probe.states(host)))})" for host, _ in hosts)
    world.violated(
        "a_session_with_a_usable_host_meets_it",
        f"{call} met {pick.address} ({pick.backend}) although {names} could be used; {found}",
    )


def _may_be_unreachable(world: World, call: CallPlan, address: str) -> bool:
    """Whether a fault may be the reason that a client does not reach an address."""
    if has_been_well(world, call):
        return address in world.dark
    return world.was_shaken(call.client.network_name, address)


def _hosts_now(call: CallPlan) -> list[tuple[str, str]]:
    """The hosts that the session had when the call began and whose cookies are not too old now."""
    now = {(each.host, each.cluster) for each in call.session.hosts.values()}
    return [each for each in call.hosts_before if each in now]


def a_host_that_says_not_serving_gets_no_calls(world: World, call: CallPlan, pick: Pick) -> None:
    """A host that says NOT_SERVING gets calls of its sessions only, once the client can know (A17)."""
    client, said_at = call.client, world.said_at.get(pick.address, -math.inf)
    is_hit = call.session_pick is not None and call.session_pick.result == "hit" and bool(call.session_pick.wanted)
    # A17: pick_first takes no notice of health.
    if not client.checks_health or client.policy == "pick_first" or is_hit:
        return
    if world.mesh.hosts[pick.address].is_serving or trio.current_time() < said_at + MOMENT:
        return
    link = world.mesh.network._link(client.network_name, pick.address)
    connections = world.mesh.network.connections(pick.address, client.network_name)
    lost = any(each.to_client.is_lost for each in connections)
    has_news = not lost and not link.partitioned and link.latency + link.jitter < MOMENT / 4
    # A Watch call that has just begun, or a link that was just slower, has not delivered what the host says. A
    # half-open connection never does.
    if has_news and not world.was_shaken(client.network_name, pick.address, trio.current_time() - said_at + 5.0):
        world.violated(
            "a_host_that_says_not_serving_gets_no_calls", f"{call} met {pick.address}, NOT_SERVING since {said_at:.3f}"
        )


OF_PICKS = (
    a_call_goes_to_a_host_that_its_cluster_lists,
    an_ejected_host_gets_no_new_calls,
    a_settled_mesh_uses_what_is_preferred,
    a_session_with_a_usable_host_meets_it,
    a_host_that_says_not_serving_gets_no_calls,
)
