"""RPCs of a cluster without a route wait for its hosts, and for nothing else (A31).

Only the control plane could end the wait for a cluster that cannot serve, and it has taken it out of the routes.
"""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.tasks import task_names

import trxds
from trxds import RpcError, StatusCode
from trxds.session_affinity.cookie import encode
from trxds.testing import resources as xds


def refused(mesh):
    mesh.plane.put({**xds.cluster("y"), "lb_policy": "MAGLEV"})


def in_error(mesh):
    mesh.plane.fail("CDS", "y", 7, "not for you")


def absent(mesh):
    """Nobody puts it."""


def endpoints_absent(mesh):
    mesh.cluster("y")


def endpoints_refused(mesh):
    mesh.cluster("y")
    mesh.plane.put(xds.endpoints("y", xds.locality(mesh.hosts[1], mesh.hosts[1])))


def empty(mesh):
    mesh.cluster("y")
    mesh.endpoints("y")


def all_unhealthy(mesh):
    mesh.cluster("y")
    mesh.endpoints("y", xds.locality(mesh.hosts[1], health={mesh.hosts[1]: "UNHEALTHY"}))


def all_draining(mesh):
    mesh.cluster("y", override_statuses=["HEALTHY", "DRAINING"])
    mesh.endpoints("y", xds.locality(mesh.hosts[1], health={mesh.hosts[1]: "DRAINING"}))


def unknown_name(mesh):
    mesh.plane.put(xds.logical_dns("y", "y.example", 80))


def no_leaves(mesh):
    mesh.plane.put(xds.aggregate("y", "gone"))


def no_leaf_serves(mesh):
    mesh.plane.put(xds.aggregate("y", "leaf", "gone"))
    mesh.cluster("leaf")
    mesh.endpoints("leaf")


CANNOT_SERVE = {
    absent: 'CDS resource "y"',
    refused: 'CDS resource "y"',
    in_error: "PERMISSION_DENIED: not for you",
    endpoints_absent: 'cluster y: EDS resource "y"',
    endpoints_refused: 'cluster y: EDS resource "y"',
    empty: 'cluster y: EDS resource "y"',
    all_unhealthy: "none of its endpoints takes new requests",
    all_draining: "none of its endpoints takes new requests",
    unknown_name: 'DNS name "y.example:80" cannot be resolved',
    no_leaves: 'CDS resource "y"',
    no_leaf_serves: 'cluster y (leaf): EDS resource "leaf"',
}


@asynccontextmanager
async def waiting(break_it, **call):
    """A mesh, its channel, and what becomes of an RPC to the cluster y that waits for ready."""
    outcome = []
    async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        await mesh.add_host()  # for y
        await ask(channel)
        break_it(mesh)
        mesh.route("y")
        await trio.sleep(20)  # longer than the client waits for what does not exist

        async def wait():
            try:
                outcome.append(await ask(channel, wait_for_ready=True, **call))
            except RpcError as error:
                outcome.append(error.status)

        nursery.start_soon(wait)
        await trio.sleep(5)
        assert outcome == [], "a route names the cluster, so it may come"
        yield mesh, channel, outcome
        nursery.cancel_scope.cancel()


def watched(mesh):
    """Return the clusters that the client subscribes to."""
    return set([request.names for request in mesh.plane.requests if request.kind == "CDS"][-1])


@pytest.mark.parametrize("break_it", CANNOT_SERVE, ids=lambda break_it: break_it.__name__)
async def test_an_unrouted_cluster_that_cannot_serve_drops_its_queued_rpcs_and_is_unwatched(autojump_clock, break_it):
    async with waiting(break_it) as (mesh, _, outcome):
        mesh.route("cart")
        await trio.sleep(1)
        [status] = outcome
        assert status.code is StatusCode.UNAVAILABLE
        assert CANNOT_SERVE[break_it] in status.message
        assert status.message.endswith("; no route names cluster y any more")
        assert watched(mesh) == {"cart"}
        assert {name for name in task_names() if name.startswith("cluster/")} == {"cluster/cart"}


def unreachable(mesh):
    mesh.network.refuse(mesh.hosts[1])
    mesh.cluster("y")
    mesh.endpoints("y", [mesh.hosts[1]])


async def test_queued_rpcs_of_an_unrouted_cluster_wait_for_its_unreachable_hosts(autojump_clock):
    async with waiting(unreachable) as (mesh, _, outcome):
        mesh.route("cart")
        await trio.sleep(600)
        assert (outcome, watched(mesh)) == ([], {"cart", "y"})
        mesh.network.restore(mesh.hosts[1])
        await trio.sleep(200)
        assert (outcome, watched(mesh)) == ([mesh.hosts[1]], {"cart"})


def deleted(mesh):
    mesh.plane.remove("CDS", "y")


@pytest.mark.parametrize("break_it", [deleted, empty, all_draining, no_leaves])
async def test_queued_rpcs_of_an_unrouted_cluster_are_dropped_when_it_loses_its_hosts(autojump_clock, break_it):
    async with waiting(unreachable) as (mesh, _, outcome):
        mesh.route("cart")
        await trio.sleep(10)
        break_it(mesh)
        await trio.sleep(20)
        assert outcome[0].code is StatusCode.UNAVAILABLE


@pytest.mark.parametrize("break_it", [refused, in_error, endpoints_refused])
async def test_an_error_with_a_cached_resource_does_not_drop_rpcs_of_an_unrouted_cluster(autojump_clock, break_it):
    async with waiting(unreachable) as (mesh, _, outcome):
        mesh.route("cart")
        await trio.sleep(10)
        break_it(mesh)
        await trio.sleep(20)
        assert outcome == []


async def test_an_unrouted_cluster_serves_sessions_on_draining_hosts_and_drops_others(autojump_clock):
    async with waiting(all_draining) as (mesh, channel, outcome):
        host = mesh.hosts[1]
        cookie = [("cookie", f"session={encode(host, 'y')}")]
        mesh.network.refuse(host)
        answers = []

        async def sticky():
            answers.append(await ask(channel, wait_for_ready=True, metadata=cookie))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sticky)
            await trio.sleep(1)
            mesh.route("cart")
            await trio.sleep(1)
            assert outcome[0].code is StatusCode.UNAVAILABLE
            assert answers == [], "its host is listed, and cannot be reached yet"
            mesh.network.restore(host)
        assert answers == [host]


@pytest.mark.parametrize("kind", ["LDS", "RDS"])
async def test_rpcs_of_an_unrouted_cluster_are_not_dropped_while_listener_or_routes_are_in_error(autojump_clock, kind):
    async with waiting(empty) as (mesh, _, outcome):
        if kind == "LDS":
            mesh.plane.remove("LDS", "shop")
        else:
            listener = xds.listener("shop", routes="others")
            mesh.plane.put(listener)
        await trio.sleep(60)
        assert outcome == []
        mesh.endpoints("y", [mesh.hosts[1]])
        await trio.sleep(1)
        assert outcome == [mesh.hosts[1]]


async def test_an_open_stream_of_an_unrouted_cluster_is_not_dropped(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, bidi(channel).open(b"") as call:
        await call.receive()
        mesh.cluster("other")
        mesh.endpoints("other", mesh.hosts)
        mesh.route("other")
        mesh.endpoints("cart")
        await trio.sleep(10)
        await call.send(b"still there")
        assert await call.receive() == f"{mesh.hosts[0]} still there".encode()


async def test_drop_overloads_apply_before_the_drop_of_an_unrouted_cluster(autojump_clock):
    def drop_all(mesh):
        mesh.cluster("y")
        share = {"category": "load", "drop_percentage": {"numerator": 100}}
        mesh.plane.put(xds.endpoints("y") | {"policy": {"drop_overloads": [share]}})

    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        drop_all(mesh)
        mesh.route("y")
        await trio.sleep(1)
        with pytest.raises(trxds.RpcError, match="EDS-configured drop: load"):
            await ask(channel, wait_for_ready=True)
