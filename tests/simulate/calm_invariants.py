"""The invariants of a calm, when the mesh has been well for so long that every client has to know it."""

from __future__ import annotations

from trxds.resources.endpoint import HealthStatus
from trxds.testing.management import ManagementServer

from .world import World


def a_settled_client_has_what_the_control_plane_has(world: World) -> None:
    """The endpoints in force are those of the control plane, for every cluster of the routes."""
    for client in world.clients:
        probe = client.probe
        if probe is None or probe.is_idle or not client.service:
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
                if not leaf.dns and has != leaf.addresses:
                    world.violated(
                        "a_settled_client_has_what_the_control_plane_has",
                        f"{client.name} has {sorted(has)} in {leaf.name} and not {sorted(leaf.addresses)}",
                    )

            for leaf in leaves:
                for has in probe.leaves(cluster):
                    if has.cluster.name != leaf.name or leaf.dns:
                        continue
                    now = has.cluster.idle_timeout, has.cluster.max_concurrent_requests, has.cluster.override_statuses
                    statuses = {HealthStatus[each] for each in leaf.statuses or ("UNKNOWN", "HEALTHY")}
                    if now != (wanted_settings := (leaf.idle_timeout, leaf.max_requests or 1024, statuses)):
                        world.violated(
                            "a_settled_client_has_what_the_control_plane_has",
                            f"{client.name} has {now} of {leaf.name} and not {wanted_settings}",
                        )


def a_response_is_answered(world: World) -> None:
    """A control plane has an ACK or NACK of the last response of each type, on every ADS stream."""
    for plane in world.model.planes.all:
        service = plane.service
        live = {stream.number for stream in service._streams}
        last = {(each.stream, each.kind): each.nonce for each in service.responses if each.stream in live}
        answered = {(each.stream, each.kind, each.nonce) for each in service.requests}
        for (stream, kind), nonce in last.items():
            if (stream, kind, nonce) not in answered:
                text = f"{kind} {nonce} on stream {stream} of {plane.address} has no answer"
                world.violated("a_response_is_answered", text)


def a_bad_resource_is_refused(world: World) -> None:
    """The first answer to a response with a bad resource is a NACK, with the version that was accepted before it."""
    planes = world.model.planes
    for plane in planes.all:
        # The replica has the resources and versions of the first one.
        store = planes.far.service if plane is planes.far else planes.first.service
        _check_refusals(world, plane.service, store)


def _check_refusals(world: World, plane: ManagementServer, store: ManagementServer) -> None:
    seen, accepted = set(), set()
    responses = {(each.stream, each.nonce): each for each in plane.responses}
    for request in plane.requests:
        response = responses.get((request.stream, request.nonce))
        if request.error is None:
            accepted.add((request.kind, request.version))
        if response is None or (request.stream, request.nonce) in seen:
            continue
        seen.add((request.stream, request.nonce))
        bad = world.bad.get((store, response.kind, response.version), "")
        if bad in response.names and request.error is None:
            world.violated("a_bad_resource_is_refused", f"{response} has the bad resource {bad} and got an ACK")
        # The version may have been accepted without the bad resource, before that was subscribed.
        elif (
            bad in response.names
            and request.version == str(response.version)
            and (request.kind, request.version) not in accepted
        ):
            world.violated("a_bad_resource_is_refused", f"{response} got a NACK that has its version, as an ACK does")


def a_settled_client_uses_its_first_control_plane(world: World) -> None:
    """While the first control plane answers, no client keeps an ADS stream to the second one (A71)."""
    if streams := world.model.planes.replica.service.streams:
        text = f"{streams} ADS streams to {world.model.planes.replica.address} are left"
        world.violated("a_settled_client_uses_its_first_control_plane", text)


def a_host_is_leased_for_a_reason(world: World) -> None:
    """Every host that a channel keeps is an endpoint of one of its policies; some are kept warm (A56)."""
    for client in world.clients:
        probe = client.probe
        if probe is None or probe.is_idle:
            continue
        if more := sorted(probe.leased - probe.listed):
            world.violated("a_host_is_leased_for_a_reason", f"{client.name} keeps {more}, which no policy has")


ALL = (
    a_settled_client_has_what_the_control_plane_has,
    a_response_is_answered,
    a_bad_resource_is_refused,
    a_settled_client_uses_its_first_control_plane,
    a_host_is_leased_for_a_reason,
)
