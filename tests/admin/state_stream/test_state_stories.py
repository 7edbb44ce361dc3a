"""What a viewer sees of a channel, on the MockClock over the network in memory."""

from contextlib import asynccontextmanager, suppress

import pytest
import trio
from support.mesh import PLANE, Mesh, ask, bidi
from support.outliers import EJECTION, broken
from trio.testing import wait_all_tasks_blocked

import trxds
from trxds import RpcError
from trxds.admin import state_stream
from trxds.admin.state_stream.changes import apply
from trxds.admin.state_stream.subscription import MAX_UNREAD
from trxds.policies import QUEUE_PICKER, Connectivity, Decision, PolicyType
from trxds.testing import resources as xds

pytestmark = pytest.mark.slow


class Eyes:
    """One viewer who keeps the state, as every viewer does."""

    def __init__(self, view, states=None):
        self.view = view
        self.states = states
        self.state = {}
        self.numbers = []
        self.snapshots = 0
        self.events = []

    async def read(self):
        message = await anext(self.view)
        self.numbers.append(message["number"])
        if "snapshot" in message:
            self.state = message["snapshot"]
            self.snapshots += 1
        else:
            self.state = apply(self.state, message["changes"])
            self.events += message["events"]

    async def see(self, condition):
        """Read until it is so; the clock's end is the test's."""
        with trio.fail_after(60):
            while not condition(self.state):
                await self.read()
        return self.state

    def row(self, section, **fields):
        """The one row of the section that has these."""
        [row] = [row for row in self.state[section].values() if fields.items() <= row.items()]
        return row


@asynccontextmanager
async def watched(hosts=2, calls=1, policies=None, **more):
    """A mesh, a channel that has called, and eyes that have seen the snapshot."""
    async with Mesh.run(hosts) as mesh, mesh.channel(policies=policies) as channel:
        for _ in range(calls):
            await ask(channel)
        async with state_stream.open(channel) as opened, opened.subscribe(**more) as view:
            eyes = Eyes(view, opened)
            await eyes.read()
            yield mesh, channel, eyes


# -- the snapshot, section by section


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


# -- what changes


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


async def test_a_users_policy_that_cannot_explain_itself_is_seen_from_outside_and_fills_no_log(autojump_clock, caplog):
    async with Mesh.run(1) as mesh:
        mesh.plane.put(xds.cluster("cart") | xds.custom_policy("mute"))
        async with mesh.channel(policies={"mute": PolicyType(Mute)}) as channel, state_stream.open(channel) as opened:
            await wait_all_tasks_blocked()
            state = await opened.snapshot()
    [row] = [row for row in state["nodes"].values() if row["policy"] == "mute"]
    assert (row["state"], row["says"]) == ("CONNECTING", "itself CONNECTING")
    assert caplog.text == ""


# -- viewers


async def test_numbers_are_consecutive_and_there_is_one_snapshot(autojump_clock):
    async with watched() as (_, channel, eyes):
        for _ in range(3):
            await ask(channel)
            await eyes.read()
        assert eyes.numbers == [1, 2, 3, 4]
        assert eyes.snapshots == 1


async def test_a_slow_viewer_gets_a_new_snapshot_and_nobody_waits_for_it(autojump_clock):
    async with watched() as (_, channel, eyes):
        for _ in range(MAX_UNREAD + 5):
            await ask(channel)
            await trio.sleep(0.2)
        assert len(eyes.view._unread) <= MAX_UNREAD
        await eyes.read()
        assert (eyes.numbers, eyes.snapshots) == ([1, 2], 2)
        assert eyes.state["channels"]["shop"]["calls"] == MAX_UNREAD + 6


async def test_two_viewers_see_the_same_each_with_numbers_of_its_own(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        async with opened.subscribe() as one:
            first = Eyes(one)
            await first.read()
            await ask(channel)
            await first.see(lambda state: state["channels"]["shop"]["calls"] == 1)
            async with opened.subscribe() as other:
                second = Eyes(other)
                await second.see(lambda state: state.get("endpoints"))
        await first.see(lambda state: state == second.state)
        assert second.numbers[0] == 1


async def test_a_viewer_sees_the_sections_that_it_asked_for(autojump_clock):
    async with watched(sections=["sessions"], events=[]) as (_, channel, eyes), channel.session():
        await eyes.see(lambda state: state["sessions"])
        assert set(eyes.state) == {"sessions"}


async def test_a_second_viewer_of_another_section_waits_for_a_look_at_it(autojump_clock):
    async with watched(sections=["channels"]) as (_, _, eyes), eyes.states.subscribe(sections=["resources"]) as other:
        assert (await anext(other))["snapshot"]["resources"]


async def test_an_unknown_section_of_the_state_stream_is_an_error(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        with pytest.raises(ValueError, match="there is no section 'picks'; there are channels, nodes"):
            async with opened.subscribe(sections=["picks"]):
                pass


async def test_the_state_is_sampled_at_most_ten_times_a_second(autojump_clock):
    async with watched() as (_, channel, eyes):
        begun = trio.current_time()
        for _ in range(20):
            await ask(channel)
            await eyes.read()
        assert trio.current_time() - begun >= 19 * 0.1


async def test_the_view_ends_when_the_state_stream_does(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, trio.open_nursery() as nursery:
        ended = trio.Event()

        async def watch(view):
            async for _ in view:
                pass
            ended.set()

        async with state_stream.open(channel) as opened, opened.subscribe() as view:
            nursery.start_soon(watch, view)
            await wait_all_tasks_blocked(0.01)
            opened.close()
            await ended.wait()


# -- nobody watches


def tasks():
    def count(task):
        return 1 + sum(count(child) for nursery in task.child_nurseries for child in nursery.child_tasks)

    return count(trio.lowlevel.current_root_task())


async def test_the_state_stream_has_no_task_without_a_viewer(autojump_clock):
    async with Mesh.run(1) as mesh, mesh.channel() as channel:
        await ask(channel)
        await wait_all_tasks_blocked()
        before = tasks()
        async with state_stream.open(channel) as opened:
            assert tasks() == before
            async with opened.subscribe() as view:
                await anext(view)
                assert tasks() == before + 1
            await wait_all_tasks_blocked()
            assert tasks() == before
            async with opened.subscribe() as view:
                assert (await anext(view))["snapshot"]["channels"]


async def test_a_bug_in_the_state_stream_ends_the_views_and_not_the_channel(autojump_clock, monkeypatch, caplog):
    async with Mesh.run(1) as mesh, mesh.channel() as channel, state_stream.open(channel) as opened:
        monkeypatch.setattr(type(opened._sampler), "_sections", lambda *_: 1 / 0)
        async with opened.subscribe() as view:
            with pytest.raises(StopAsyncIteration):
                await anext(view)
        assert await ask(channel)
    assert "a bug in trxds ends the state stream" in caplog.text
