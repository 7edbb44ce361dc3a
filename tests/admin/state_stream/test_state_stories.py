"""What a viewer sees of a channel that changes, on the MockClock over the network in memory."""

from contextlib import suppress

import pytest
import trio
from support.mesh import Mesh, ask, bidi
from support.outliers import EJECTION, broken
from support.state_viewer import watched
from trio.testing import wait_all_tasks_blocked

from trxds import RpcError
from trxds.admin import state_stream
from trxds.policies import QUEUE_PICKER, Connectivity, Decision, PolicyType
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow


async def test_a_session_that_moves_says_why(autojump_clock):
    async with watched(hosts=3) as (mesh, channel, eyes), channel.session() as session:
        old = await ask(session)
        await eyes.see(lambda state: state["sessions"])
        assert eyes.row("endpoints", address=old)["sessions"] == 1
        mesh.endpoints("cart", [host for host in mesh.hosts if host != old])
        await wait_all_tasks_blocked()
        new = await ask(session)
        row = (await eyes.see(lambda state: state["sessions"]["shop/1"]["moves"]))["sessions"]["shop/1"]
        move = row["last_move"]
        assert (row["host"], row["calls"], move["from"], move["to"], move["reason"]) == (
            new,
            2,
            old,
            new,
            "unknown_host",
        )


async def test_a_session_that_ends_is_removed_from_the_snapshot(autojump_clock):
    async with watched() as (_, channel, eyes):
        async with channel.session() as session:
            await ask(session)
            await eyes.see(lambda state: state["sessions"])
        await eyes.see(lambda state: not state["sessions"])


async def test_a_drain_shows_at_the_endpoint(autojump_clock):
    async with watched() as (mesh, _, eyes):
        mesh.endpoints("cart", xds.locality(*mesh.hosts, health={mesh.hosts[0]: "DRAINING"}))
        await eyes.see(lambda state: state["endpoints"][f"shop/cart/{mesh.hosts[0]}"]["health"] == "DRAINING")


async def test_a_nack_shows_with_its_reason_beside_the_version_in_use(autojump_clock):
    async with watched() as (mesh, _, eyes):
        before = eyes.state["resources"]["shop/CDS/cart"]["version"]
        mesh.plane.put(xds.cluster("cart") | {"lb_policy": "MAGLEV"})
        state = await eyes.see(lambda state: state["resources"]["shop/CDS/cart"]["state"] == "nacked")
        row = state["resources"]["shop/CDS/cart"]
        assert row["version"] == before
        assert "LB policy is not supported" in row["error"]


async def test_a_cluster_that_is_missing_shows_in_its_resource_and_in_the_tree(autojump_clock):
    async with watched() as (mesh, _, eyes):
        mesh.plane.remove("CDS", "cart")
        await eyes.see(lambda state: state["resources"]["shop/CDS/cart"]["state"] == "does_not_exist")
        await eyes.see(lambda state: state["nodes"]["shop/cluster_manager/cart"]["state"] == "TRANSIENT_FAILURE")
        assert 'CDS resource "cart"' in eyes.state["nodes"]["shop/cluster_manager/cart"]["says"]


async def test_an_endpoint_of_an_aggregate_counts_the_sessions_of_the_aggregate(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.aggregate("both", "cart"))
        mesh.route("both")
        async with mesh.channel() as channel, channel.session() as session, state_stream.open(channel) as opened:
            await ask(session)
            state = await opened.snapshot()
    assert state["sessions"]["shop/1"]["cluster"] == "both"
    assert state["endpoints"][f"shop/cart/{mesh.hosts[0]}"]["sessions"] == 1


async def test_a_channel_that_asks_for_a_listener_that_is_not_there_says_so(autojump_clock):
    async with Mesh.run(1) as mesh:
        mesh.plane.remove("LDS", "shop")
        async with mesh.channel() as channel, state_stream.open(channel) as opened:
            channel.try_to_connect()
            await trio.sleep(20)
            row = (await opened.snapshot())["channels"]["shop"]
    assert row["state"] == "TRANSIENT_FAILURE"
    assert row["error"].startswith('LDS resource "shop"')


async def test_a_cluster_that_is_kept_warm_is_marked_and_its_endpoints_are_gone(autojump_clock):
    async with watched() as (mesh, _, eyes):
        mesh.cluster("basket")
        mesh.endpoints("basket", mesh.hosts[:1])
        mesh.route("basket")
        await eyes.see(lambda state: state["nodes"]["shop/cluster_manager/cart"]["warm"])
        assert not eyes.state["nodes"]["shop/cluster_manager/basket"]["warm"]
        assert {row["cluster"] for row in eyes.state["endpoints"].values()} == {"basket"}


class Mute:
    """A user's policy that never has a host, and cannot explain itself."""

    def __init__(self, surroundings):
        pass

    def decide(self, inputs, now):
        return Decision(Connectivity.CONNECTING, QUEUE_PICKER)

    def explain(self, inputs, call):
        raise ZeroDivisionError


async def test_a_policy_that_speaks_until_its_successor_can_is_there_beside_it(autojump_clock):
    async with watched(hosts=1, policies={"mute": PolicyType(Mute)}) as (mesh, channel, eyes):
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("mute"))
        await eyes.see(lambda state: any(key.endswith(" (before)") for key in state["nodes"]))
        before, after = eyes.row("nodes", policy="round_robin"), eyes.row("nodes", policy="mute")
        assert (before["state"], after["state"]) == ("READY", "CONNECTING")
        assert await ask(channel) == mesh.hosts[0]
        mesh.cluster("cart")
        await eyes.see(lambda state: not any(key.endswith(" (before)") for key in state["nodes"]))


async def test_an_endpoint_that_outlier_detection_has_taken_out_is_marked(autojump_clock):
    async with watched() as (mesh, channel, eyes):
        mesh.plane.put(xds.cluster("cart") | {"outlier_detection": EJECTION})
        mesh.servers[mesh.hosts[0]].fallback = broken
        await wait_all_tasks_blocked()
        for _ in range(4):
            with suppress(RpcError):
                await ask(channel)
        await eyes.see(lambda state: state["endpoints"][f"shop/cart/{mesh.hosts[0]}"]["ejected"])
        assert not eyes.state["endpoints"][f"shop/cart/{mesh.hosts[1]}"]["ejected"]


async def test_a_connection_that_drains_says_so(autojump_clock):
    async with watched(hosts=1) as (mesh, channel, eyes):
        async with bidi(channel).open() as call:
            await call.send(b"")
            await call.receive()
            mesh.servers[mesh.hosts[0]].goaway()
            await eyes.see(lambda state: any(row["state"] == "DRAINING" for row in state["connections"].values()))
        await eyes.see(lambda state: all(row["state"] == "READY" for row in state["connections"].values()))


async def test_a_users_policy_that_cannot_explain_itself_is_seen_from_outside_and_fills_no_log(autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("mute"))
        async with mesh.channel(policies={"mute": PolicyType(Mute)}) as channel, state_stream.open(channel) as opened:
            await wait_all_tasks_blocked()
            state = await opened.snapshot()
    [row] = [row for row in state["nodes"].values() if row["policy"] == "mute"]
    assert (row["state"], row["says"]) == ("CONNECTING", "itself CONNECTING")
    assert caplog.text == ""
