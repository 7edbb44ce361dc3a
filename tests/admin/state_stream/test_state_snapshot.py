"""The snapshot that a viewer of a channel gets first, section by section."""

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, bidi
from support.state_viewer import watched

import trxds
from trxds.admin import state_stream
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow


async def test_the_snapshot_has_a_channel_with_its_state_and_calls(autojump_clock):
    async with watched(calls=3) as (_, _, eyes):
        assert eyes.state["channels"]["shop"] == {
            "target": "xds:///shop",
            "state": "READY",
            "calls": 3,
            "failed": 0,
            "open": 0,
            "error": "",
            "warnings": [],
            "client": "shop",
            "outages": [],
        }


async def test_the_snapshot_has_the_tree_with_states_and_picks(autojump_clock):
    async with watched(hosts=2, calls=4) as (_, _, eyes):
        root = eyes.state["nodes"]["shop/cluster_manager"]
        assert (root["state"], root["picks"], root["children"]) == ("READY", 4, ["shop/cluster_manager/cart"])
        leaf = eyes.row("nodes", policy="round_robin")
        assert (leaf["says"], leaf["picks"]) == ("2 of 2 endpoints READY", 4)
        assert all(row["parent"] in eyes.state["nodes"] for row in eyes.state["nodes"].values() if row["parent"])


async def test_the_snapshot_has_endpoints_with_their_health_status(autojump_clock):
    async with watched() as (mesh, _, eyes):
        assert eyes.state["endpoints"][f"shop/cart/{mesh.hosts[0]}"] == {
            "channel": "shop",
            "address": mesh.hosts[0],
            "cluster": "cart",
            "priority": 0,
            "locality": "z0",
            "health": "HEALTHY",
            "state": "READY",
            "weight": 1,
            "ejected": False,
            "sessions": 0,
            "addresses": [mesh.hosts[0]],
            "fair_share": 0.5,
            "security": "",
            "hostname": "",
            "proxy": "",
        }


async def test_an_endpoint_shows_its_own_name_and_the_proxy_that_leads_to_it(autojump_clock, monkeypatch):
    monkeypatch.setenv("GRPC_EXPERIMENTAL_XDS_HTTP_CONNECT", "true")
    proxy = {
        "@type": "type.googleapis.com/envoy.config.core.v3.Address",
        "socket_address": {"address": "10.9.9.9", "port_value": 3128},
    }
    async with watched() as (mesh, _, eyes):
        locality = xds.locality(*mesh.hosts, zone="z0")
        locality["lb_endpoints"][0]["endpoint"]["hostname"] = "cart-1.example"
        locality["metadata"] = {"typed_filter_metadata": {"envoy.http11_proxy_transport_socket.proxy_address": proxy}}
        mesh.endpoints("cart", locality)
        name = f"shop/cart/{mesh.hosts[0]}"
        await eyes.see(
            lambda state: (
                (row := state["endpoints"].get(name)) is not None
                and (row["hostname"], row["proxy"]) == ("cart-1.example", "10.9.9.9:3128")
            )
        )


async def test_a_draining_endpoint_has_no_fair_share_and_the_others_have_it_all(autojump_clock):
    async with watched(hosts=3) as (mesh, _, eyes):
        first, second, third = mesh.hosts
        heavy = xds.locality(first, second, zone="a", health={second: "DRAINING"}) | {"load_balancing_weight": 3}
        mesh.endpoints("cart", heavy, xds.locality(third, zone="b"))
        expected = {first: 0.75, second: 0.0, third: 0.25}
        await eyes.see(
            lambda state: {row["address"]: row["fair_share"] for row in state["endpoints"].values()} == expected
        )


async def test_the_snapshot_has_connections_to_hosts_and_the_control_plane(autojump_clock):
    async with watched(hosts=1, calls=2) as (mesh, channel, eyes):
        assert {(row["kind"], row["address"]) for row in eyes.state["connections"].values()} == {
            ("data", mesh.hosts[0]),
            ("ads", PLANE),
        }
        async with bidi(channel).open():
            await eyes.see(lambda _: eyes.row("connections", kind="data")["streams"] == 1)
        row = eyes.row("connections", kind="data")
        assert (row["state"], row["calls"]) == ("READY", 3)


async def test_the_snapshot_has_resources_with_version_server_and_age(autojump_clock):
    async with watched() as (_, _, eyes):
        assert [row["type"] for row in eyes.state["resources"].values()] == ["LDS", "RDS", "CDS", "EDS"]
        row = eyes.state["resources"]["shop/CDS/cart"]
        assert (row["state"], row["server"], row["error"]) == ("acked", PLANE, "")
        assert row["version"]
        assert row["since"] > 1_700_000_000


async def test_the_snapshot_has_a_target_without_a_control_plane(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel(f"ipv4:{mesh.hosts[0]}", bootstrap=None) as channel:
        await ask(channel)
        async with state_stream.open(channel) as opened:
            state = await opened.snapshot()
        [endpoint] = state["endpoints"].values()
        assert (endpoint["address"], endpoint["state"]) == (mesh.hosts[0], "READY")
        assert state["resources"] == {}


async def test_the_snapshot_has_channels_of_one_name_and_their_shared_client(autojump_clock):
    async with (
        Mesh.run(1) as mesh,
        trxds.open_xds_client(bootstrap=mesh.bootstrap, network=mesh.network) as client,
        trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as one,
        trxds.open_channel("xds:///shop", xds=client, network=mesh.network) as other,
    ):
        await ask(one)
        await ask(other)
        async with state_stream.open(one, other) as opened:
            state = await opened.snapshot()
    assert list(state["channels"]) == ["shop", "shop#2"]
    assert {row["channel"] for row in state["resources"].values()} == {"shop"}
    assert {row["channel"] for row in state["endpoints"].values()} == {"shop", "shop#2"}


async def test_the_snapshot_has_closed_and_idle_channels(autojump_clock):
    async with Mesh.run(1) as mesh:
        async with mesh.channel(idle_timeout=5) as channel, state_stream.open(channel) as opened:
            await ask(channel)
            await trio.sleep(8)
            idle = await opened.snapshot()
        async with state_stream.open(channel) as opened:
            closed = await opened.snapshot()
    assert (idle["channels"]["shop"]["state"], idle["nodes"]) == ("IDLE", {})
    assert (closed["channels"]["shop"]["state"], closed["connections"]) == ("SHUTDOWN", {})
