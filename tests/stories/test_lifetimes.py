"""Route tables and clusters live as long as an RPC may still need them (A31, A60).

The filter chain is held up on purpose, so that an update falls between the choice of a route
and the choice of its cluster.
"""

from contextlib import asynccontextmanager

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.tasks import task_names

from trxds import RpcError, StatusCode
from trxds.client.filter_protocol import Wait
from trxds.session_affinity.cookie import encode
from trxds.session_affinity.stateful_session_filter import StatefulSession
from trxds.testing import resources as xds

FOREVER = 20 * 60  # seconds; longer than anything is kept warm


@pytest.fixture
def gate(monkeypatch):
    """RPCs with `held: 1` wait in the session filter until it is set."""
    opened = trio.Event()
    start = StatefulSession.start

    def held_up(self, call):
        async def later():
            await opened.wait()
            return start(self, call)

        return Wait(later) if call.metadata.first("held") else start(self, call)

    monkeypatch.setattr(StatefulSession, "start", held_up)
    return opened


@asynccontextmanager
async def three_clusters(*routed):
    """Clusters x, y and z of one host each; the route is as given."""
    async with Mesh.run(3) as mesh:
        for cluster, host in zip("xyz", mesh.hosts, strict=True):
            mesh.cluster(cluster)
            mesh.endpoints(cluster, [host])
        mesh.route(*routed)
        async with mesh.channel() as channel:
            await ask(channel)
            yield mesh, channel


async def answer(into, channel, **more):
    try:
        into.append(await ask(channel, **more))
    except RpcError as error:
        into.append(error.status)


def clusters_alive():
    return {name.removeprefix("cluster/") for name in task_names() if name.startswith("cluster/")}


async def test_an_rpc_uses_its_chosen_cluster_after_that_left_the_route(nursery, autojump_clock, gate):
    async with three_clusters("x") as (mesh, channel):
        answers = []
        nursery.start_soon(lambda: answer(answers, channel, metadata=[("held", "1")]))
        await trio.sleep(1)
        mesh.route("y")
        await trio.sleep(1)
        assert clusters_alive() == {"x", "y"}, "the RPC holds the table, and the table its clusters"
        gate.set()
        await trio.sleep(1)
        assert answers == [mesh.hosts[0]]
        assert clusters_alive() == {"y"}


async def test_an_rpc_uses_its_cookies_cluster_after_that_left_the_route(nursery, autojump_clock, gate):
    async with three_clusters({"x": 1, "y": 1_000_000}) as (mesh, channel):
        answers = []
        cookie = f"session={encode(mesh.hosts[0], 'x')}"
        nursery.start_soon(lambda: answer(answers, channel, metadata=[("held", "1"), ("cookie", cookie)]))
        await trio.sleep(1)
        mesh.route("y")
        await trio.sleep(1)
        gate.set()
        await trio.sleep(1)
        assert answers == [mesh.hosts[0]]


async def test_an_rpc_in_a_filter_uses_its_route_table_after_that_was_replaced(nursery, autojump_clock, gate):
    async with three_clusters({"x": 1, "y": 1}) as (mesh, channel):
        answers = []
        nursery.start_soon(lambda: answer(answers, channel, metadata=[("held", "1")]))
        await trio.sleep(1)
        mesh.route("z")
        await trio.sleep(1)
        gate.set()
        await trio.sleep(1)
        assert answers[0] in mesh.hosts[:2]
        assert clusters_alive() == {"z"}


async def test_every_route_table_in_use_is_a_named_task(nursery, autojump_clock, gate):
    async with three_clusters("x") as (mesh, channel):
        nursery.start_soon(lambda: answer([], channel, metadata=[("held", "1")]))
        await trio.sleep(1)
        mesh.route("y")
        await trio.sleep(1)
        assert {name for name in task_names() if name.startswith("route table/")} == {"route table/1", "route table/2"}
        gate.set()
        await trio.sleep(1)
        assert {name for name in task_names() if name.startswith("route table/")} == {"route table/2"}


async def test_a_removed_cluster_lives_until_its_last_queued_rpc_commits(nursery, autojump_clock):
    async with three_clusters("x") as (mesh, channel):
        mesh.network.refuse(mesh.hosts[0])
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(1)
        answers = []
        for _ in range(3):
            nursery.start_soon(lambda: answer(answers, channel, wait_for_ready=True))
        await trio.sleep(1)
        mesh.route("y")
        await trio.sleep(1)
        assert clusters_alive() == {"x", "y"}
        mesh.network.restore(mesh.hosts[0])
        await trio.sleep(200)
        assert answers == [mesh.hosts[0]] * 3
        assert clusters_alive() == {"y"}


async def test_a_long_stream_does_not_keep_its_cluster(autojump_clock):
    async with three_clusters("x") as (mesh, channel), bidi(channel).open(b"") as call:
        await call.receive()
        mesh.route("y")
        await trio.sleep(1)
        assert clusters_alive() == {"y"}
        await call.send(b"still there")
        assert await call.receive() == f"{mesh.hosts[0]} still there".encode()


async def test_a_call_with_response_headers_that_only_sends_does_not_keep_its_cluster(autojump_clock):
    async def only_listens(call):
        await call.send_initial_metadata()
        async for _ in call:
            pass

    async with three_clusters("x") as (mesh, channel):
        mesh.servers[mesh.hosts[0]].handlers["/shop.Cart/Hear"] = only_listens
        async with bidi(channel, "/shop.Cart/Hear").open(b"") as call:
            await trio.sleep(1)
            mesh.route("y")
            await trio.sleep(1)
            assert clusters_alive() == {"y"}
            assert await call.send(b"still there")


async def test_the_connection_of_a_removed_cluster_is_closed(autojump_clock):
    async with three_clusters("x") as (mesh, _):
        mesh.route("y")
        await trio.sleep(FOREVER)
        assert mesh.servers[mesh.hosts[0]].connections == []


async def test_a_cluster_that_returns_within_15_minutes_is_still_connected(autojump_clock):
    async with three_clusters("x") as (mesh, channel):
        mesh.route("y")
        await trio.sleep(600)
        mesh.route("x")
        await trio.sleep(1)
        assert await ask(channel) == mesh.hosts[0]
        assert mesh.network.attempts[mesh.hosts[0]] == 1


async def test_a_deleted_routed_cluster_fails_rpcs_at_once_until_it_returns(nursery, autojump_clock):
    async with three_clusters("x") as (mesh, channel):
        mesh.plane.remove("CDS", "x")
        await trio.sleep(1)
        answers = []
        await answer(answers, channel)
        assert answers.pop().code is StatusCode.UNAVAILABLE
        nursery.start_soon(lambda: answer(answers, channel, wait_for_ready=True))
        await trio.sleep(1)
        assert answers == [], "it is still routed to, so it may come back"
        mesh.cluster("x")
        await trio.sleep(1)
        assert answers == [mesh.hosts[0]]


async def test_break_before_make_does_not_fail_rpcs_that_wait_for_ready(nursery, autojump_clock):
    async with three_clusters("x") as (mesh, channel):
        mesh.plane.remove("CDS", "x")  # deleted while the route still names it
        await trio.sleep(1)
        answers = []
        nursery.start_soon(lambda: answer(answers, channel, wait_for_ready=True))
        await trio.sleep(1)
        mesh.cluster("x")
        await trio.sleep(1)
        assert answers == [mesh.hosts[0]]


async def test_a_cancelled_rpc_releases_its_cluster(autojump_clock):
    async with three_clusters("x") as (mesh, channel):
        mesh.network.refuse(mesh.hosts[0])
        mesh.network.cut(mesh.hosts[0])
        await trio.sleep(1)
        with trio.move_on_after(5):
            async with trio.open_nursery() as calls:
                calls.start_soon(lambda: ask(channel, wait_for_ready=True))
                await trio.sleep(1)
                mesh.route("y")
                await trio.sleep(1)
                assert clusters_alive() == {"x", "y"}
        await trio.sleep(1)
        assert clusters_alive() == {"y"}


async def test_an_rpc_in_a_fault_delay_holds_its_route_table(nursery, autojump_clock):
    delay = {
        "name": "fault",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "delay": {"fixed_delay": "10s", "percentage": {"numerator": 100}},
        },
    }
    async with three_clusters("x") as (mesh, channel):
        mesh.plane.put(xds.listener("shop", routes="routes", filters=[delay]))
        await trio.sleep(1)
        answers = []
        nursery.start_soon(lambda: answer(answers, channel))
        await trio.sleep(1)
        mesh.route("y")
        await trio.sleep(1)
        assert clusters_alive() == {"x", "y"}
        await trio.sleep(10)
        assert answers == [mesh.hosts[0]]
        assert clusters_alive() == {"y"}


async def test_a_deleted_cluster_stays_watched_while_there_are_no_routes(nursery, autojump_clock):
    answers = []
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        (host,) = mesh.hosts
        mesh.network.refuse(host)

        async def wait():
            answers.append(await ask(channel, wait_for_ready=True))

        nursery.start_soon(wait)
        await trio.sleep(1)
        mesh.plane.remove("LDS", "shop")
        await trio.sleep(1)
        mesh.plane.remove("CDS", "cart")
        await trio.sleep(1)
        mesh.network.restore(host)
        mesh.cluster("cart")
        mesh.listen()
        await trio.sleep(200)
        assert answers == [host]
